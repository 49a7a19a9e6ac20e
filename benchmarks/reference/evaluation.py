"""Clips go through the model one at a time, and numpy scores each map before the next."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch
import torch.nn.functional as F

from benchmarks.reference import scoring
from benchmarks.reference.data import F32, Clips
from benchmarks.reference.training import Slavc
from earsight.config import Inputs
from earsight.types import Row

SIDE = 224


def dense_map(model: Slavc, clips: Clips, index: int, device: str = "cpu") -> F32:
    """The map of one clip (224, 224), in the range -1 to 1."""
    image, audio = clips[index]
    with torch.no_grad():
        small = model.maps(image[None].to(device), audio[None].to(device))
    large = F.interpolate(small[:, None], size=(SIDE, SIDE), mode="bicubic", align_corners=True)
    out: F32 = large[0, 0].cpu().numpy()
    return out


def evaluate(model: Slavc, folder: Path, rows: Sequence[Row], inputs: Inputs, device: str = "cpu") -> dict[str, float]:
    """The published evaluator's numbers on all clips."""
    model.eval()
    clips = Clips(folder, [row.id for row in rows], inputs, train=False)
    pairs = []
    for index, row in enumerate(rows):
        truth = scoring.truth_of(row.boxes[0] if row.boxes else None)
        pairs.append(scoring.official(dense_map(model, clips, index, device), truth, 1.0))
    return scoring.numbers(pairs, [row.positive for row in rows], strict=False, published=True)
