"""Clustering that gradients pass through, each clip alone: soft k-means, and routing in several spaces.

Shapes: B clips of N vectors with C channels, K clusters.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import normalize

Start = Literal["raster", "farthest"]
"""Centres start at evenly spaced places, or at vectors far from each other, wherever they are."""


class Clusters(NamedTuple):
    """Centres (B, K, D) of N vectors, and the logits (B, K, N) whose softmax over K was the last assignment."""

    centres: Tensor
    logits: Tensor


def distance(a: Tensor, b: Tensor) -> Tensor:
    """Euclidean distances of vectors (B, K, C) and (B, N, C), at least 1e-5: (B, K, N).

    Differences are squared as they are: |a|^2 - 2ab + |b|^2, as published, loses its digits where a is near b.
    """
    return (a[:, :, None] - b[:, None]).square().sum(-1).clamp(min=1e-10).sqrt()


def starts(vectors: Tensor, clusters: int, how: Start) -> Tensor:
    """The vectors (B, K, C) of (B, N, C) at which centres start.

    NOTE: where two published starts are the same vector, as in the black bars of a film, both centres would stay
    together for ever. The later one then starts at the vector farthest from the earlier ones.

    >>> starts(torch.tensor([[[0.0], [1.0], [0.0], [7.0]]]), 2, "raster").flatten().tolist()
    [0.0, 7.0]
    """
    points, step = vectors.detach(), vectors.shape[1] // clusters
    from_mean = (points - points.mean(1, keepdim=True)).square().sum(-1)
    at = [torch.zeros_like(from_mean[:, 0], dtype=torch.int64) if how == "raster" else from_mean.argmax(1)]
    nearest = torch.full_like(from_mean, torch.inf)
    for k in range(1, clusters):
        last = _at(points, at[-1][:, None])
        nearest = torch.minimum(nearest, (points - last).square().sum(-1))
        farthest = nearest.argmax(1)
        at.append(torch.where(nearest[:, k * step] == 0, farthest, k * step) if how == "raster" else farthest)
    return _at(vectors, torch.stack(at, 1))


def _at(vectors: Tensor, places: Tensor) -> Tensor:
    """The vectors (B, K, C) of (B, N, C) at places (B, K)."""
    return vectors.gather(1, places[:, :, None].expand(-1, -1, vectors.shape[2]))


def soft_kmeans(vectors: Tensor, clusters: int, rounds: int = 4, sharpness: float = 30.0,
                start: Start = "raster") -> Clusters:  # fmt: skip
    """Soft k-means of vectors (B, N, C), each clip alone, with gradient through all rounds.

    >>> found = soft_kmeans(torch.tensor([[[0.0], [0.0], [4.0], [4.0]]]), 2)
    >>> found.centres.flatten().tolist(), found.logits.softmax(1)[0, 1].tolist()
    ([0.0, 4.0], [0.0, 0.0, 1.0, 1.0])
    """
    centres = starts(vectors, clusters, start)
    for _ in range(rounds if clusters > 1 else 1):  # one cluster is the mean, whatever it starts from
        logits = -sharpness * distance(centres, vectors)
        # Weights s / sum(s), by logarithms: assignments to a centre that has lost all its vectors add up to 0.
        centres = logits.log_softmax(1).softmax(2) @ vectors
    return Clusters(centres, logits)


def squash(vectors: Tensor) -> Tensor:
    """Vectors of any length as vectors of length tanh(10 |u|), which is nearly 1."""
    length = (vectors.square().sum(-1, keepdim=True) + 1e-7).sqrt()
    return vectors * torch.tanh(10 * length) / length


def route(vectors: Tensor, rounds: int = 3) -> Clusters:
    """Routing of vectors in K spaces (B, K, N, D): each vector goes to the space whose centre it agrees with most.

    Centres are weighted sums, not means. The published code squashes them in the end, which no cosine sees.
    """
    logits = torch.zeros_like(vectors[..., 0])
    for at in range(rounds):
        centres = torch.einsum("bkn,bknd->bkd", logits.softmax(1), vectors)
        if at < rounds - 1:
            logits = torch.einsum("bkd,bknd->bkn", normalize(centres, dim=-1), vectors)
    return Clusters(centres, logits)


def log_odds(logits: Tensor, chosen: Tensor) -> Tensor:
    """Logarithm of s / (1 - s), s a vector's share in the clusters chosen, bool (B, K): (B, K, N) -> (B, N)."""
    inside = logits.masked_fill(~chosen[:, :, None], -torch.inf).logsumexp(1)
    return inside - logits.masked_fill(chosen[:, :, None], -torch.inf).logsumexp(1)
