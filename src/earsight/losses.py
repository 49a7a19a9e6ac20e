"""Losses as pure functions of similarities. N pictures, M sounds, h x w places; a picture's own sound is at n = m."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy, log_softmax

Pooling = Literal["sum", "max"]
Axis = Literal["audios", "images"]


def log_joint(loc: Tensor, avc: Tensor) -> Tensor:
    """SLAVC's log P = log P_loc + log P_avc for scaled similarities (N, M, h, w).

    P_loc is a softmax over the places of a picture, P_avc a softmax over the sounds at a place. Sums of logarithms do
    not underflow at small temperatures, as products of probabilities do in half precision.
    """
    over_places = log_softmax(loc.flatten(2), dim=2)
    over_sounds = log_softmax(avc.flatten(2), dim=1)
    return (over_places + over_sounds).view_as(loc)


def pool(scores: Tensor, how: Pooling) -> Tensor:
    """From scores of places (N, M, h, w) to scores of pairs (N, M): the best place, or a log-sum-exp over all."""
    flat = scores.flatten(2)
    return flat.amax(dim=2) if how == "max" else torch.logsumexp(flat, dim=2)


def match(pairs: Tensor, among: Axis) -> Tensor:
    """Cross-entropy of finding each clip's partner from pair scores (N, N).

    Among "audios": for each picture, its own sound among all sounds. Among "images": for each sound, its own picture.

    >>> max_similarity = torch.tensor([[1.0, 0.5], [0.2, 1.0]])
    >>> round(float(match(max_similarity, "audios") + match(max_similarity, "images")), 6)
    0.845178
    """
    target = torch.arange(pairs.shape[0], device=pairs.device)
    return cross_entropy(pairs if among == "audios" else pairs.T, target)
