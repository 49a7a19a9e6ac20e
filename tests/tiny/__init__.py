"""Training so small that a whole run takes a second: settings, methods and sets for the tests of training."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from earsight.config import Inputs, Optim
from earsight.encoders.base import Encoders
from earsight.methods import slavc
from earsight.methods.base import Method
from earsight.training.job import Job
from earsight.types import Batch, Step

INPUTS = Inputs(image_size=32, resize=36, rate=8000, seconds=1.0, window=128, hop=64)
SMALL = Encoders("small", "small", weights="random", width=4)
OPTIM = Optim(epochs=3, batch_size=8, lr=1e-3, save_every=2)


def config(preset: str = "official", **changes: Any) -> slavc.Config:
    """SLAVC as a preset has it, with small encoders and copies that follow fast enough to be seen moving."""
    start = slavc.PRESETS[preset]().config
    return replace(start, **{"encoders": SMALL, "dim": 8, "momentum": 0.9, **changes})


def job(*, method: str = "slavc", settings: Any = None, on: str = "tiny.tones", val: str = "tiny.tones:val",
        limit: int = 64, **optim: Any) -> Job:  # fmt: skip
    """A run; keywords other than these are settings of the optimizer."""
    return Job(method, settings or config(), INPUTS, replace(OPTIM, **optim), on=on, val=val, limit=limit)


def take_step(model: Method, batch: Batch) -> Step:
    """The loss of a batch that this process has to itself."""
    return model.loss(batch, [len(batch)])
