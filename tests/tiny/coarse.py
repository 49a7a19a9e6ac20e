"""CoarsetoFine made tiny, and clips whose sounds fall into three categories."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch

from earsight.config import Inputs
from earsight.encoders.base import Encoders
from earsight.methods.base import Stage
from earsight.methods.coarse_to_fine import Config, Model
from earsight.types import Batch, Row
from tiny.lent import Lent

INPUTS = Inputs(image_size=32, resize=36, rate=8000, seconds=1.0, window=128, hop=64)
SMALL = Config(encoders=Encoders("small", "small", weights="random", width=4), categories=3, dim=8)
COARSE, FINE = Stage("coarse", 1), Stage("fine", 1)


def make_batch(clips: int = 6, truth: bool = False) -> Batch:
    random = torch.Generator().manual_seed(0)
    frames = torch.randint(0, 256, (clips, 3, 32, 32), generator=random, dtype=torch.uint8)
    time = torch.arange(INPUTS.samples) / INPUTS.rate
    waves = 0.4 * torch.sin(2 * torch.pi * (300 + 500 * (torch.arange(clips) % 3))[:, None] * time)
    waves = waves + 0.05 * torch.randn(clips, INPUTS.samples, generator=random)
    rows = tuple(Row(f"clip{i}") for i in range(clips))
    return Batch(frames, waves, torch.arange(clips), rows, torch.zeros(clips, 32, 32) if truth else None)


def make_model(stage: Stage = FINE, **changes: Any) -> Model:
    """A model that knows the categories of `make_batch`'s clips."""
    torch.manual_seed(0)
    model = Model(replace(SMALL, **changes), INPUTS)
    model.start_stage(stage)
    model.on_epoch(Lent(make_batch(), stage=stage))
    return model
