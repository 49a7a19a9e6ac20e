"""A whole test set evaluated from a pack, beside its parts: data, data and encoders, encoders, scoring. What limits it?

python -m benchmarks.big_pack --out PACK --split test --rows 10316
python -m benchmarks.whole_set --pack PACK
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Sequence
from contextlib import closing
from functools import partial
from statistics import median

import torch
from torch import Tensor

from benchmarks.big_pack import SPEC
from benchmarks.hardware import hardware
from benchmarks.measure import How, short, timed
from benchmarks.telling import parser, tell, told
from earsight.config import Inputs
from earsight.data.clips import ClipSet, Limited, open_set
from earsight.data.loading import eval_batches
from earsight.device import placed
from earsight.encoders.base import Encoders
from earsight.methods import slavc
from earsight.model_evaluation import BATCH, EvalSettings, evaluate
from earsight.protocols import get
from earsight.scoring import score
from earsight.types import Maps

ROUNDS = 5


def run(opened: Callable[[], ClipSet], how: How) -> dict[str, float]:
    """Clips a second: of everything, of the data, of data and maps, of the encoders, and of scoring; medians of rounds
    in which each comes once, so that a machine that is slower for a while is so for all of them.

    All numbers are worked out, those of predictions of a fixed size too, as `earsight eval` does. The set is opened
    anew each time, because it remembers which clips it has found undamaged.
    """
    config = slavc.Config(encoders=Encoders(*2 * ("resnet18" if how.gpu else "small",), weights="random"))
    model = placed(slavc.Model(config, Inputs()), how.device).eval()
    clips = opened()

    def rate(work: Callable[[ClipSet], object]) -> float:
        return len(clips) / timed(partial(work, opened()), how.device)

    settings = EvalSettings(device=how.device, workers=None, sizes=True)
    everything = partial(evaluate, model, protocol=get("official"), settings=settings)
    everything(Limited(clips, 2 * BATCH[how.device]))  # chooses kernels
    gc.freeze()  # as the command line does
    rounds = [
        {
            "clips_per_second": rate(everything),
            "data_alone": rate(partial(_read, inputs=model.inputs, how=how)),
            "data_and_encoders": rate(partial(_read, inputs=model.inputs, how=how, model=model)),
            "encoders_alone": _encoders(model, how, len(clips)),
            "scoring_alone": _scoring(clips, how),
        }
        for _ in range(ROUNDS)
    ]
    rates = {name: median(one[name] for one in rounds) for name in rounds[0]}
    whole = [one["clips_per_second"] for one in rounds]
    rates |= {"slowest_round": min(whole), "fastest_round": max(whole)}
    for part in ("data_and_encoders", "encoders_alone"):
        rates[f"share_of_{part}"] = median(one["clips_per_second"] / one[part] for one in rounds)
    return {"clips": float(len(clips))} | {name: short(value) for name, value in rates.items()}


def _read(clips: ClipSet, inputs: Inputs, how: How, model: slavc.Model | None = None) -> None:
    """All batches on the device, and their maps if there is a model; nothing else."""
    feed = eval_batches(clips, inputs, BATCH[how.device], None, device=how.device)
    with closing(feed), torch.inference_mode():
        for batch in feed:
            if model is not None:
                model.localize(batch.frames, batch.waveforms)


def _scoring(clips: ClipSet, how: How) -> float:
    """Clips a second of the scoring of maps as small as those of a ResNet, on the device."""
    rows = clips.rows[: BATCH[how.device]]
    maps = torch.rand(len(rows), 7, 7, generator=torch.Generator().manual_seed(0)).to(how.device)
    times = max(1, len(clips) // len(rows))

    def several(count: int) -> None:
        for _ in range(count):
            score(Maps(maps, maps, (0.0, 1.0)), rows, [get("official")], sizes=True)

    several(1)
    return times * len(rows) / timed(partial(several, times), how.device)


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
    how = "python -m benchmarks.big_pack --split test"
    given = parser("whole_set", "Evaluate a pack, and measure.", how).parse_args(argv)
    numbers = run(partial(open_set, f"{SPEC}:test", given.pack), How(given.device))
    command = told("whole_set", sys.argv[1:] if argv is None else argv)
    tell({"hardware": hardware(given.device, given.commit), "command": command, "numbers": numbers}, given.json)


if __name__ == "__main__":
    main()
