"""The real thing: SLAVC trained by the trainer on a pack, with its sustained rate, its waiting and its memory.

python -m benchmarks.big_pack --out PACK
python -m benchmarks.epoch --pack PACK --out RUN --device cuda --optim precision=bf16 workers=8
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from benchmarks.big_pack import SPEC
from benchmarks.generated import ROWS
from benchmarks.hardware import hardware
from benchmarks.measure import How, compare, short
from benchmarks.memory import Watch
from benchmarks.telling import parser, tell, told
from benchmarks.train_step import Settings, reference_step, synthetic
from earsight.config import Inputs, Optim, need, to_json
from earsight.data.clips import open_set
from earsight.errors import DataError
from earsight.methods import slavc
from earsight.training.job import Job
from earsight.training.log import LOG, read_log
from earsight.training.loop import train

EPOCHS = 20
"""Of the paper's schedule, over 144 000 clips each."""


def sustained(rows: Sequence[Mapping[str, Any]], batch: int, skip: int) -> dict[str, float]:
    """Clips a second after the first `skip` steps, and the share of the time that was spent waiting for data.

    Rows are a run's log: when each was written ("elapsed"), with all that lies between epochs, and how many seconds the
    steps since the row before "waited".

    >>> rows = [{"step": s, "elapsed": s / 5, "waited": 0.5} for s in (10, 20, 30)]
    >>> sustained(rows, batch=8, skip=10)
    {'steps': 20, 'clips_per_second': 40.0, 'waited': 0.25}
    """
    looks = [row for row in rows if "elapsed" in row]
    before = [row for row in looks if row["step"] <= skip]
    after = [row for row in looks if row["step"] > skip]
    if not before or not after:
        raise DataError(
            f"Expected a log that tells the time before and after step {skip}, but got {len(looks)} such rows. "
            "Train for more steps, or skip fewer."
        )
    steps, seconds = after[-1]["step"] - before[-1]["step"], after[-1]["elapsed"] - before[-1]["elapsed"]
    waited = sum(row["waited"] for row in after)
    return {"steps": steps, "clips_per_second": steps * batch / seconds, "waited": waited / seconds}


def waited_by_epoch(rows: Sequence[Mapping[str, Any]], skip: int) -> list[float]:
    """The share of the time that was spent waiting for data, of each epoch that began after `skip` steps.

    >>> waited_by_epoch([{"step": s, "epoch": s // 20, "seconds": 2.0, "waited": s / 40} for s in (10, 20, 30)], 10)
    [0.3125]
    """
    looks = [row for row in rows if "waited" in row]
    early = {row["epoch"] for row in looks if row["step"] <= skip}
    epochs: dict[int, list[Mapping[str, Any]]] = {}
    for row in looks:
        if row["epoch"] not in early:
            epochs.setdefault(row["epoch"], []).append(row)
    return [
        short(sum(row["waited"] for row in found) / sum(row["seconds"] for row in found)) for found in epochs.values()
    ]


def steps_of(rows: Sequence[Mapping[str, Any]]) -> int:
    return max((int(row["step"]) for row in rows), default=0)


def reference_rate(how: How, settings: Settings, steps: int) -> float:
    """Clips a second of the published recipe's step, without data, on the same device."""
    step = reference_step(how.device, synthetic(how.device, settings), settings)

    def several() -> None:
        for _ in range(steps):
            step()

    _, seconds = compare(lambda: None, several, rounds=3, device=how.device)
    return steps * settings.batch / seconds


def run(pack: Path, out: Path, how: How, optim: Optim, changes: Mapping[str, Any], skip: int) -> dict[str, Any]:
    """Train, and tell the numbers."""
    # Packs hold 3 s of sound, also where small encoders would do with less.
    settings = replace(Settings.of(how), batch=optim.batch_size, inputs=Inputs(), optim=optim)
    config = slavc.Config(encoders=settings.encoders, dim=settings.dim, **changes)
    job = Job("slavc", config, settings.inputs, optim, on=f"{SPEC}:train", data=str(pack))
    steps = optim.epochs * (len(open_set(job.on, pack)) // optim.batch_size)
    need(steps > skip, f"more than {skip} steps", steps, "Train more epochs, or --skip fewer.")
    began = time.perf_counter()
    with Watch() as memory:
        train(job, out, device=how.device, force=True)
    wall = time.perf_counter() - began
    rows = read_log(out / LOG)
    found = sustained(rows, optim.batch_size, skip)
    rate, whole = found["clips_per_second"], steps_of(rows) * optim.batch_size / wall
    gpu = {"gpu_gib": torch.cuda.max_memory_allocated() / 2**30} if how.gpu else {}
    reference = reference_rate(how, settings, 10 if how.gpu else 1)
    numbers = {
        **found,
        "wall_seconds": wall,
        "whole_clips_per_second": whole,
        "minutes_of_the_schedule": ROWS * EPOCHS / rate / 60,
        "reference_clips_per_second": reference,
        "ratio": rate / reference,
        "main_gib": memory.main / 2**30,
        "largest_other_gib": memory.largest_other / 2**30,
        "together_gib": memory.together / 2**30,
        "other_processes": memory.others,
        **gpu,
    }
    return {
        "job": {**to_json(job), "data": "PACK"},
        "numbers": {name: short(value) for name, value in numbers.items()},
        "waited_by_epoch": waited_by_epoch(rows, skip),
    }


def main(argv: Sequence[str] | None = None) -> None:
    words = parser("epoch", "Train on a pack, and measure.", "python -m benchmarks.big_pack")
    words.add_argument("--out", type=Path, required=True, help="folder of the run; a run that is there is replaced")
    words.add_argument("--epochs", type=int, default=1)
    words.add_argument("--skip", type=int, default=100, help="steps before the measurement begins")
    words.add_argument("--optim", nargs="*", default=[], metavar="NAME=VALUE", help="training settings")
    words.add_argument("--method", nargs="*", default=[], metavar="NAME=VALUE", help="SLAVC's settings")
    given = words.parse_args(argv)
    optim = replace(Optim(epochs=given.epochs, val_every=0), **named(given.optim))
    found = run(given.pack, given.out, How(given.device), optim, named(given.method), given.skip)
    command = told("epoch", sys.argv[1:] if argv is None else argv)
    tell({"hardware": hardware(given.device, given.commit), "command": command, **found}, given.json)


def named(pairs: Sequence[str]) -> dict[str, Any]:
    """Settings from NAME=VALUE.

    >>> named(["workers=8", "precision=bf16", "compile=true"])
    {'workers': 8, 'precision': 'bf16', 'compile': True}
    """
    out: dict[str, Any] = {}
    for pair in pairs:
        name, _, text = pair.partition("=")
        try:
            out[name] = json.loads(text)
        except ValueError:
            out[name] = text
    return out


if __name__ == "__main__":
    main()
