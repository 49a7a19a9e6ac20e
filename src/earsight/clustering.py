"""k-means on the device where the points lie, and how far two labelings of the same clips agree.

Everything is a function of the points and the seed, so that each of several processes may cluster for itself.
"""

from __future__ import annotations

import torch
from torch import Tensor

from earsight.config import need

_AT_ONCE = 1 << 22
"""Distances held at a time: 16 MB, however many points there are."""


def kmeans(points: Tensor, k: int, seed: int = 0, rounds: int = 50) -> tuple[Tensor, Tensor]:
    """Labels int64 (n,) and centres float32 (k, d) of points (n, d): k-means++, then at most `rounds` rounds of Lloyd.

    Centres are the means of their points. A cluster that loses all its points starts again at the point that is
    farthest from its own centre. Rows with NaN, which stand for clips that cannot be read, get the label -1.

    >>> labels, centres = kmeans(torch.tensor([[0.0], [1.0], [10.0], [float("nan")]]), 2)
    >>> sorted(centres.flatten().tolist()), bool(labels[0] == labels[1] != labels[2]), int(labels[3])
    ([0.5, 10.0], True, -1)
    """
    need(k >= 1, "at least 1 cluster", k)
    need(rounds >= 1, "at least 1 round of k-means", rounds)
    need(points.ndim == 2, "points (n, d)", tuple(points.shape))
    given, good = points.float(), ~points.isnan().any(1)
    if not bool(good.all()):
        given = given[good]
    need(k <= len(given), f"at least {k} points for {k} clusters", len(given), "Ask for fewer clusters, or add clips.")
    with torch.no_grad(), torch.autocast(points.device.type, enabled=False):
        # Around the origin, because squared distances as differences of squares lose digits far from it.
        middle = given.mean(0)
        found, centres = _lloyd(given - middle, k, seed, rounds)
        labels = torch.full((len(points),), -1, dtype=torch.int64, device=points.device)
        labels[good] = found
        return labels, centres + middle


def means(points: Tensor, labels: Tensor, before: Tensor) -> Tensor:
    """Mean of the points (n, d) of each label (n,), (k, d) like `before`, whose rows stay where a label has no points.

    >>> means(torch.tensor([[1.0], [3.0], [7.0]]), torch.tensor([0, 0, 2]), torch.zeros(3, 1)).flatten().tolist()
    [2.0, 0.0, 7.0]
    """
    k = len(before)
    names = torch.arange(k, device=points.device)
    sums = torch.zeros_like(before)
    # Products with 0 and 1 instead of scattered additions, whose order, and so whose last bits, vary on a GPU.
    for part, own in zip(_chunks(points, k), _chunks(labels, k), strict=True):
        sums += (own[None, :] == names[:, None]).to(points.dtype) @ part
    counts = torch.bincount(labels, minlength=k)[:, None]
    return torch.where(counts > 0, sums / counts.clamp(min=1), before)


def nmi(a: Tensor, b: Tensor) -> float:
    """Normalised mutual information of two labelings (n,): 1 when one is the other renamed, 0 when they are unrelated.

    2 I(a; b) / (H(a) + H(b)); 1 when both have a single label. Clips without a label (-1) in either are left out.

    >>> nmi(torch.tensor([0, 0, 1, 1]), torch.tensor([5, 5, 3, 3]))
    1.0
    >>> nmi(torch.tensor([0, 0, 1, 1]), torch.tensor([0, 1, 0, 1]))
    0.0
    """
    need(a.shape == b.shape and a.ndim == 1, "two labelings (n,) of one length", f"{tuple(a.shape)}, {tuple(b.shape)}")
    a, b = a.cpu(), b.cpu()
    both = (a >= 0) & (b >= 0)
    if not bool(both.any()):
        return 0.0
    x, y = (torch.unique(labels[both], return_inverse=True)[1] for labels in (a, b))
    width = int(y.max()) + 1
    joint = _entropy(torch.bincount(x * width + y))
    apart = _entropy(torch.bincount(x)) + _entropy(torch.bincount(y))
    return min(max(2 * (apart - joint) / apart, 0.0), 1.0) if apart > 0 else 1.0


def _entropy(counts: Tensor) -> float:
    share = counts[counts > 0].double() / counts.sum()
    return float(-(share * share.log()).sum())


def _lloyd(points: Tensor, k: int, seed: int, rounds: int) -> tuple[Tensor, Tensor]:
    centres = _spread(points, k, torch.Generator().manual_seed(seed))
    labels = torch.empty(0, dtype=torch.int64, device=points.device)
    for _ in range(rounds):
        found = _assigned(points, centres)
        if torch.equal(found, labels):
            break
        labels = found
        centres = means(points, labels, centres)
    return labels, centres


def _spread(points: Tensor, k: int, random: torch.Generator) -> Tensor:
    """k-means++: each new centre is a point, drawn by its squared distance to the nearest centre so far."""
    squares = _squares(points)
    draws = torch.rand(k, generator=random, dtype=torch.float64)
    at = [int(draws[0] * len(points))]
    away = torch.full_like(squares, torch.inf)
    for draw in draws[1:]:
        centre = points[at[-1]]
        away = torch.minimum(away, (squares - 2 * (points @ centre) + centre.square().sum()).clamp_(min=0))
        away[at[-1]] = 0
        # On the CPU, where running sums are the same every time.
        upto = away.cpu().double().cumsum(0)
        place = torch.searchsorted(upto, draw * upto[-1], right=True) if upto[-1] > 0 else draw * len(points)
        at.append(min(int(place), len(points) - 1))
    return points[torch.tensor(at, device=points.device)]


def _assigned(points: Tensor, centres: Tensor) -> Tensor:
    """The nearest centre of every point; a centre without points takes the point that is farthest from its own."""
    size = _squares(centres)
    parts = [torch.addmm(size, part, centres.T, alpha=-2).min(1) for part in _chunks(points, len(centres))]
    labels = torch.cat([part.indices for part in parts])
    counts = torch.bincount(labels, minlength=len(centres))
    empty = (counts == 0).nonzero().flatten().tolist()
    if empty:
        away = torch.cat([part.values for part in parts]) + _squares(points)
        for cluster in empty:
            farthest = int(torch.where(counts[labels] > 1, away, -torch.inf).argmax())
            if away[farthest] <= 0:  # fewer different points than clusters
                break
            counts[labels[farthest]] -= 1
            counts[cluster] += 1
            labels[farthest], away[farthest] = cluster, 0
    return labels


def _squares(x: Tensor) -> Tensor:
    """Squared lengths of rows (n, d) -> (n,), without a second copy of all the numbers."""
    lengths: Tensor = torch.linalg.vector_norm(x, dim=1)
    return lengths.square()


def _chunks(x: Tensor, k: int) -> tuple[Tensor, ...]:
    return torch.split(x, max(_AT_ONCE // k, 1))
