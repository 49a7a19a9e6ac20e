"""The arithmetic of CoarsetoFine: which pairs belong together, what speaks for a category, and the maps they make."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor


class Fine(NamedTuple):
    """Stage two's two terms, and how many (clip, category) are both seen and heard."""

    near: Tensor
    apart: Tensor
    pairs: Tensor


def pair_loss(logits: Tensor) -> Tensor:
    """Own pairs against all others, half and half: (N, N, 2), class 1 is "belong together", own pairs at n = m.

    >>> round(float(pair_loss(torch.zeros(2, 2, 2))), 5)
    0.69315
    """
    log = logits.log_softmax(2)
    own, other = log[..., 1].diagonal(), log[..., 0]
    # A clip that is alone has no other pairs, and their half is 0.
    apart = (other.sum() - other.diagonal().sum()) / max(len(own) * (len(own) - 1), 1)
    return -0.5 * (own.mean() + apart)


def shares(features: Tensor, heads: Tensor) -> Tensor:
    """Mean of the places of (B, C, h, w), weighted by how much each speaks for category k: -> (B, K, C).

    The weights are class activations relu(heads (K, C) at each place), without gradient. NOTE: where no place speaks
    for a category all weigh the same; 0/0 would be the alternative.

    >>> shares(torch.tensor([[[[3.0, 1.0]]]]), torch.tensor([[1.0], [-1.0]])).flatten().tolist()
    [2.5, 2.0]
    """
    flat = features.flatten(2)
    weight = torch.einsum("bcl,kc->bkl", flat.detach(), heads.detach()).relu()
    weight = weight + (weight.sum(2, keepdim=True) == 0)
    return torch.einsum("bkl,bcl->bkc", weight / weight.sum(2, keepdim=True), flat)


def fine_loss(sounds: Tensor, pictures: Tensor, heard: Tensor, seen: Tensor, margin: float) -> Fine:
    """Unit vectors (N, K, D) of each clip's categories; only those heard and seen (N, K) count.

    The same clip's same category is pulled together, all else is pushed apart up to `margin`. Only active rows are
    compared: with 309 categories, a batch of 128 has 39,552 of them, and 1.6e9 pairs.
    """
    a, v = heard.flatten().nonzero()[:, 0], seen.flatten().nonzero()[:, 0]
    squares = 2 - 2 * sounds.flatten(0, 1)[a] @ pictures.flatten(0, 1)[v].T
    same = a[:, None] == v[None, :]
    # The root has no gradient at 0, and rounding goes below it; a masked infinity would still be NaN.
    beyond = (margin - squares.clamp(min=1e-8).sqrt()).relu().square()
    pairs = same.sum()
    return Fine((squares * same).sum() / pairs.clamp(min=1), (beyond * ~same).sum() / (~same).sum().clamp(min=1), pairs)


def combined(cosines: Tensor, probability: Tensor, active: float) -> tuple[Tensor, Tensor]:
    """Maps (B, h, w), native and dense, from each category's cosines (B, K, h, w) and its probability (B, K).

    Categories above `active`, and the likeliest in any case, are averaged by their probability. Native is the paper's:
    relu first, divided by its maximum afterwards. Dense is the same undivided; NOTE: where it is 0 because no active
    category is there, the averaged cosine itself, which is negative, takes its place, so that no plateau remains.
    """
    best = torch.zeros_like(probability, dtype=torch.bool).scatter_(1, probability.argmax(1, keepdim=True), True)
    weight = probability.clamp(min=1e-30) * ((probability > active) | best)  # the likeliest may be 0 to the last digit
    weight = weight / weight.sum(1, keepdim=True)
    there = torch.einsum("bk,bkhw->bhw", weight, cosines.relu())
    dense = torch.where(there > 0, there, torch.einsum("bk,bkhw->bhw", weight, cosines))
    top = there.amax((1, 2), keepdim=True)
    return there / torch.where(top > 0, top, 1.0), dense
