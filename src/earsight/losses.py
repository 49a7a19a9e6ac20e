"""Similarities of pictures and sounds, and losses as pure functions of them.

N pictures, M sounds, h x w places; a picture's own sound is at n = m.
"""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor
from torch.nn.functional import binary_cross_entropy, cross_entropy, interpolate, log_softmax, normalize

from earsight.types import Maps

Pooling = Literal["sum", "max"]
Axis = Literal["audios", "images"]


def paired(image: Tensor, audio: Tensor) -> Tensor:
    """Cosine of each picture's places with its own sound: (B, C, h, w), (B, C) -> (B, h, w)."""
    with torch.autocast(image.device.type, enabled=False):  # cosines over a small temperature need float32
        return torch.einsum("bchw,bc->bhw", _unit(image), _unit(audio))


def all_pairs(image: Tensor, audio: Tensor) -> Tensor:
    """Cosine of every picture's places with every sound: (N, C, h, w), (M, C) -> (N, M, h, w)."""
    with torch.autocast(image.device.type, enabled=False):
        return torch.einsum("nchw,mc->nmhw", _unit(image), _unit(audio))


def _unit(features: Tensor) -> Tensor:
    return normalize(features.float(), dim=1)


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


def supervised(maps: Maps, truth: Tensor, form: Literal["squared", "unscaled", "bce"]) -> Tensor:
    """The loss of maps (n, h, w) against ground truth (n, S, S) in [0, 1], meant over clips.

    The map is scaled by its bounds to [0, 1], or by its own extremes where it has none, and upsampled to S. "squared"
    is the squared difference. "unscaled" is SLAVC's paper: the same of the map as it is. NOTE: both are meant over the
    pixels, which the paper adds up, so that their weight does not depend on the resolution. "bce" is the published
    code: the maps are stretched together to [0, 1] and meet the ground truth in a binary cross-entropy. NOTE: there
    the maps of unannotated clips are stretched along.

    >>> one = torch.tensor([[[0.0, 1.0], [1 / 3, 2 / 3]]])
    >>> truth = torch.tensor([[[0.0, 1.0], [0.0, 0.0]]])
    >>> round(float(supervised(Maps(one, one, (0.0, 1.0)), truth, "bce")), 6)
    0.376019
    >>> round(float(supervised(Maps(one, one, (0.0, 1.0)), truth, "squared")), 6)
    0.138889
    >>> round(float(supervised(Maps(one, 2 * one, (0.0, 2.0)), truth, "unscaled")), 6)
    0.805556
    """
    dense = maps.dense.float()
    if form == "unscaled":
        return (_resized(dense, truth) - truth).square().mean()
    low, high = maps.bounds or (dense.amin((1, 2), keepdim=True).detach(), dense.amax((1, 2), keepdim=True).detach())
    score = _resized((dense - low) / (high - low + 1e-12), truth)
    if form == "squared":
        return (score - truth).square().mean()
    stretched = ((score - score.min()) / (score.max() - score.min() + 1e-12)).clamp(0, 1)
    # Stretching holds the extremes at 0 and 1, where the cross-entropy is so steep that rounding would become gradient.
    inside = (stretched > 1e-5) & (stretched < 1 - 1e-5)
    with torch.autocast(truth.device.type, enabled=False):  # which refuses this function on a GPU
        return binary_cross_entropy(torch.where(inside, stretched, stretched.detach()), truth)


def _resized(score: Tensor, truth: Tensor) -> Tensor:
    """A map (n, h, w) at the resolution of the ground truth (n, S, S)."""
    if score.shape[1:] == truth.shape[1:]:
        return score
    return interpolate(score[:, None], truth.shape[1:], mode="bicubic", align_corners=False)[:, 0]


def partners(index: Tensor, shift: int) -> Tensor:
    """For each clip (B,) another one of the batch, `shift` places before it in the order of the training list.

    The order of the list and not of the batch, so that neither shuffling nor splitting a batch changes who meets whom.

    >>> partners(torch.tensor([30, 10, 20]), 1)
    tensor([2, 0, 1])
    """
    order = index.argsort()
    partner = torch.empty_like(order)
    partner[order] = order.roll(shift)
    return partner
