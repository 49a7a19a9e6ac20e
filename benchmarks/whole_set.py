"""A whole test set evaluated from a pack, beside the encoders alone: how much of the time is anything else.

python -m benchmarks.big_pack --out PACK --split test --rows 10316
python -m benchmarks.whole_set --pack PACK --workers 0 8
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import torch
from torch import Tensor

from benchmarks.big_pack import SPEC
from benchmarks.hardware import commit, device, hardware
from benchmarks.measure import How, short, timed
from benchmarks.telling import tell, told
from earsight.config import Inputs
from earsight.data.clips import ClipSet, Limited, open_set
from earsight.evaluate import BATCH, evaluate
from earsight.methods import slavc
from earsight.models.encoders import Encoders
from earsight.protocols import get


def run(clips: ClipSet, how: How, workers: Sequence[int]) -> dict[str, float]:
    """Clips a second of everything, for each number of workers, and of the encoders on data that lie on the device."""
    config = slavc.Config(encoders=Encoders(kind="resnet18" if how.gpu else "small", weights="random"))
    model = slavc.Model(config, Inputs()).to(how.device).eval()
    few = Limited(clips, 2 * BATCH[how.device])
    numbers: dict[str, float] = {"clips": float(len(clips))}
    for count in workers:
        go = partial(evaluate, model, protocol=get("official"), device=how.device, workers=count)
        go(clip_set=few)  # chooses kernels
        numbers[f"clips_per_second_{count}_workers"] = len(clips) / timed(partial(go, clip_set=clips), how.device)
    numbers["encoder_clips_per_second"] = _encoders(model, how, len(clips))
    best = max(numbers[f"clips_per_second_{count}_workers"] for count in workers)
    numbers["share_of_the_encoders"] = best / numbers["encoder_clips_per_second"]
    return {name: short(value) for name, value in numbers.items()}


def _encoders(model: slavc.Model, how: How, clips: int) -> float:
    """Clips a second of the model alone."""
    size, batch = model.inputs.image_size, BATCH[how.device]
    frames = torch.randint(0, 256, (batch, 3, size, size), dtype=torch.uint8, device=how.device)
    waveforms = torch.randn(batch, model.inputs.samples, device=how.device) / 10
    steps = max(1, clips // batch)

    def answers(count: int) -> Tensor:
        with torch.inference_mode():
            return torch.stack([model.localize(frames, waveforms).dense[0] for _ in range(count)])

    answers(2)
    return steps * batch / timed(partial(answers, steps), how.device)


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.whole_set", description="Evaluate a pack, and measure.")
    parser.add_argument("--pack", type=Path, required=True, help="made by python -m benchmarks.big_pack --split test")
    parser.add_argument("--device", type=device, choices=("cpu", "cuda"), default="cuda")
    parser.add_argument("--workers", type=int, nargs="+", default=[0, 8])
    parser.add_argument("--json", type=Path)
    parser.add_argument("--commit", default=commit(), help="of the code, where there is no checkout to tell")
    given = parser.parse_args(argv)
    numbers = run(open_set(f"{SPEC}:test", given.pack), How(given.device), given.workers)
    command = told("whole_set", sys.argv[1:] if argv is None else argv)
    tell({"hardware": hardware(given.device, given.commit), "command": command, "numbers": numbers}, given.json)


if __name__ == "__main__":
    main()
