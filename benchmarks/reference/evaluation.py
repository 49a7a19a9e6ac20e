"""Clips go through the model in batches, and numpy scores one map after the other."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.utils.data import DataLoader

from benchmarks.reference import scoring
from benchmarks.reference.data import F32, Clips
from benchmarks.reference.training import Slavc
from earsight.config import Inputs
from earsight.model_evaluation import BATCH
from earsight.types import Row

SIDE = 224


def dense_maps(model: Slavc, images: Tensor, audios: Tensor, device: str = "cpu") -> F32:
    """The maps of a batch (B, 224, 224), in the range -1 to 1."""
    with torch.no_grad():
        small = model.maps(images.to(device), audios.to(device))
    large = F.interpolate(small[:, None], size=(SIDE, SIDE), mode="bicubic", align_corners=True)
    out: F32 = large[:, 0].cpu().numpy()
    return out


def evaluate(model: Slavc, folder: Path, rows: Sequence[Row], inputs: Inputs, device: str = "cpu") -> dict[str, float]:
    """The published evaluator's numbers on all clips, in batches as large as ours are there."""
    model.eval()
    clips = Clips(folder, [row.id for row in rows], inputs, train=False)
    pairs = []
    left = iter(rows)
    for images, audios in DataLoader(clips, BATCH[torch.device(device).type]):
        for values, row in zip(dense_maps(model, images, audios, device), left, strict=False):
            truth = scoring.truth_of(row.boxes[0] if row.boxes else None)
            pairs.append(scoring.official(values, truth, 1.0))
    return scoring.numbers(pairs, [row.positive for row in rows], strict=False, published=True)
