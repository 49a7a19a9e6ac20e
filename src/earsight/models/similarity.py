"""Cosine similarity between the places of a picture and a sound."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import normalize


def _unit(features: Tensor) -> Tensor:
    return normalize(features.float(), dim=1)


def paired(image: Tensor, audio: Tensor) -> Tensor:
    """Cosine of each picture's places with its own sound: (B, C, h, w), (B, C) -> (B, h, w)."""
    with torch.autocast(image.device.type, enabled=False):  # cosines over a small temperature need float32
        return torch.einsum("bchw,bc->bhw", _unit(image), _unit(audio))


def all_pairs(image: Tensor, audio: Tensor) -> Tensor:
    """Cosine of every picture's places with every sound: (N, C, h, w), (M, C) -> (N, M, h, w)."""
    with torch.autocast(image.device.type, enabled=False):
        return torch.einsum("nchw,mc->nmhw", _unit(image), _unit(audio))
