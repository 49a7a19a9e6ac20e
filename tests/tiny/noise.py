"""Clips of noise, for steps of which only the arithmetic counts."""

from __future__ import annotations

import torch

from earsight.types import Batch, Row
from tiny import INPUTS


def make_batch(clips: int = 4, seed: int = 0) -> Batch:
    """As many clips as asked for, of the tiny size; the same seed gives the same."""
    random = torch.Generator().manual_seed(seed)
    frames = torch.randint(0, 256, (clips, 3, 32, 32), generator=random, dtype=torch.uint8)
    waves = torch.rand(clips, INPUTS.samples, generator=random) - 0.5
    return Batch(frames, waves, torch.arange(clips), tuple(Row(f"clip{i}") for i in range(clips)))
