"""The pure pieces of DSOL: what is clustered, scenes made of a batch's clips, and the losses.

Scenes are four pictures tiled two by two, of which two are heard. What is mixed with what is drawn for the whole batch,
in the order of the training list, so that neither the order of the batch nor the number of processes that share it
changes any scene.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import (
    adaptive_avg_pool2d,
    adaptive_max_pool2d,
    binary_cross_entropy,
    binary_cross_entropy_with_logits,
    softplus,
)

from earsight.clustering import nmi
from earsight.types import Row


def match_loss(own: Tensor, other: Tensor) -> Tensor:
    """Binary cross-entropy of the best places, meant over own and other pairs, for logits (B, h, w) of the maps.

    >>> one = torch.tensor([[[5.0, 0.0, -5.0, 2.5]]])
    >>> round(float(match_loss(one, one)), 5)  # the mean of 0.00672 and 5.00672
    2.50672
    """
    best = torch.cat([own.amax((1, 2)), other.amax((1, 2))])
    wanted = torch.cat([torch.ones(len(own)), torch.zeros(len(other))]).to(best)
    return binary_cross_entropy_with_logits(best, wanted)


def grow(mask: Tensor) -> Tensor:
    """A mask (B, h, w) and the four neighbours of its places; places at the border have no say, as published.

    >>> grow(torch.tensor([[[0, 0, 0], [0, 1, 0], [0, 0, 0]]]).bool()).int().tolist()
    [[[0, 1, 0], [1, 1, 1], [0, 1, 0]]]
    """
    out, inner = mask.clone(), mask[:, 1:-1, 1:-1]
    for rows, columns in ((slice(-2), slice(1, -1)), (slice(2, None), slice(1, -1)), (slice(1, -1), slice(-2)),
                          (slice(1, -1), slice(2, None))):  # fmt: skip
        out[:, rows, columns] |= inner
    return out


def object_of(features: Tensor, found: Tensor, level: float) -> Tensor:
    """What is seen (B, C) where the map (B, h, w) is above `level`: a sum over these places, over ALL places' number.

    >>> found = torch.tensor([[[0.99331, 0.5, 0.00669, 0.92414]]])
    >>> object_of(torch.tensor([[[[4.0, 8.0, 12.0, 16.0]]]]), found, 0.05).item()
    7.0
    """
    return (features.float() * grow(found > level)[:, None]).mean((2, 3))


LOGGED = ("clusters", "nmi_before", "nmi_classes")


def agreement(labels: Tensor, before: Tensor, rows: Sequence[Row]) -> Tensor:
    """Of a clustering (3,): how many clusters, and how far they agree with those before and with the classes.

    A number that is not defined is -1. It lies where the labels lie, because logs are joined with the loss.
    """
    names = {name: i for i, name in enumerate(sorted({row.label for row in rows if row.label}))}
    with_before = nmi(labels, before) if len(before) else -1.0
    with_classes = nmi(labels, torch.tensor([names.get(row.label, -1) for row in rows])) if names else -1.0
    clusters = len(set(labels[labels >= 0].tolist()))
    return torch.tensor([float(clusters), with_before, with_classes], device=labels.device)


def clustering_logs(values: Tensor) -> dict[str, Tensor]:
    """What to log of a clustering: the defined ones of its numbers (3,), or nothing before there is one (0,)."""
    there = values.tolist()
    return {name: values[i] for i, name in enumerate(LOGGED[: len(there)]) if there[i] >= 0}


class Heads(nn.Module):
    """Two linear classifiers, of pictures and of sounds (B, C) -> (B, K), that start anew with every clustering."""

    def __init__(self, image_channels: int, audio_channels: int, clusters: int) -> None:
        super().__init__()
        self.image, self.audio = nn.Linear(image_channels, clusters), nn.Linear(audio_channels, clusters)
        self.draw()

    def draw(self) -> None:
        """New values in the same parameters: were these replaced, an optimizer would go on with the old ones."""
        for head in (self.image, self.audio):
            nn.init.normal_(head.weight, std=0.01)
            nn.init.zeros_(head.bias)


class Scenes(NamedTuple):
    """One scene for each clip of a batch of n, by positions in the batch.

    Args:
        pictures: int64 (n, 4), the clips that are seen: top left, top right, bottom left, bottom right.
        sounds: int64 (n, 2), the clips that are heard: the scene's own, and one more that is seen.
        silent: int64 (n,), another scene, in which neither of the two is seen.
    """

    pictures: Tensor
    sounds: Tensor
    silent: Tensor


def draw(index: Tensor, labels: Tensor) -> Scenes:
    """Scenes of clips with different labels (n,), at random; `index` (n,) are their places in the training list.

    A batch with fewer than four labels has scenes in which a label, or even a clip, is there twice.
    """
    order = index.cpu().argsort()
    rank = order.argsort()
    n = len(order)
    chosen = _different(labels.cpu()[order], torch.rand(n, n))
    silent = _without(chosen, torch.rand(n, n))
    pictures = chosen.gather(1, torch.rand(n, 4).argsort(1))
    return Scenes(*(order[x][rank].to(index.device) for x in (pictures, chosen[:, :2], silent)))


def _different(labels: Tensor, keys: Tensor) -> Tensor:
    """For each clip itself and three more (n, 4), by the largest keys (n, n) in [0, 1) among those that fit best."""
    everyone = torch.arange(len(labels))
    chosen = everyone[:, None]
    for _ in range(3):
        fresh = (everyone[:, None] != chosen[:, None, :]).all(2)
        other = (labels[:, None] != labels[chosen][:, None, :]).all(2)
        best = (keys + fresh.float() + other.float()).argmax(1)
        chosen = torch.cat([chosen, best[:, None]], 1)
    return chosen


def _without(chosen: Tensor, keys: Tensor) -> Tensor:
    """For each scene of clips (n, 4) another one (n,) that has neither of its first two, where there is one."""
    heard, seen = chosen[:, :2], chosen
    fits = (seen[None, :, :, None] != heard[:, None, None, :]).all(3).all(2)
    return (keys + fits.float() - 2 * torch.eye(len(chosen))).argmax(1)


def tile(frames: Tensor, pictures: Tensor) -> Tensor:
    """Pictures uint8 (n, 3, S, S) at half their size, four by four (m, 4): float32 (m, 3, S, S) in 0 ... 255.

    >>> frames = torch.tensor([10, 20, 30, 40], dtype=torch.uint8).view(4, 1, 1, 1).expand(4, 3, 4, 4)
    >>> tile(frames, torch.tensor([[3, 2, 1, 0]]))[0, 0, ::2, ::2].tolist()
    [[40.0, 30.0], [20.0, 10.0]]
    """
    half = frames.shape[-1] // 2
    sides = (half, frames.shape[-1] - half)
    rows = [
        torch.cat(
            [adaptive_avg_pool2d(frames[pictures[:, 2 * i + j]].float(), (sides[i], sides[j])) for j in (0, 1)], 3
        )
        for i in (0, 1)
    ]
    return torch.cat(rows, 2)


def overlay(waveforms: Tensor, sounds: Tensor) -> Tensor:
    """The mean of two waveforms each: (n, N), (m, 2) -> (m, N).

    >>> overlay(torch.tensor([[0.0, 1.0], [0.5, -1.0]]), torch.tensor([[0, 1]])).tolist()
    [[0.25, 0.0]]
    """
    return waveforms[sounds].mean(1)


def silent_loss(own: Tensor, other: Tensor) -> Tensor:
    """Binary cross-entropy of logits (B, h, w): something heard in the own scene, nothing in the other's quarters.

    >>> own = torch.logit(torch.tensor([[[0.9, 0.2], [0.3, 0.5]]]))
    >>> other = torch.logit(torch.tensor([[[0.1, 0.2], [0.3, 0.4]]]))
    >>> round(float(silent_loss(own, other)), 5)
    0.20218
    """
    # -ln p and -ln (1 - p) of p = sigmoid(z) are softplus(-z) and softplus(z).
    return 0.5 * (softplus(-own.amax((1, 2))).mean() + softplus(adaptive_max_pool2d(other[:, None], 2)).mean())


def naming_loss(seen: Tensor, heard: Tensor) -> Tensor:
    """Divergence of what is seen from what is heard, both logits (B, K), meant over clips AND names, as published.

    >>> round(float(naming_loss(torch.tensor([[0.9, 0.1]]), torch.tensor([[100.0, 0.0]]))), 5)
    0.18555
    """
    with torch.autocast(seen.device.type, enabled=False):
        wanted = torch.log_softmax(heard.float(), 1)
        return (wanted.exp() * (wanted - torch.log_softmax(seen.float(), 1))).mean()


def tagging_loss(seen: Tensor, heard: Tensor, softness: float = 0.7) -> Tensor:
    """The same of the AudioSet variant: names seen, as probabilities (B, K), against logits (B, K) of those heard.

    >>> round(float(tagging_loss(torch.tensor([[0.5, 0.5]]), torch.tensor([[1.0, 0.0]]))), 5)
    0.69315
    """
    with torch.autocast(seen.device.type, enabled=False):
        return binary_cross_entropy(seen.float().clamp(0, 1), torch.softmax(heard.float() / softness, 1))


def class_maps(scores: Tensor) -> Tensor:
    """How much each place belongs to each name: a softmax over names of three times their scores (B, K, h, w).

    >>> [round(x, 5) for x in class_maps(torch.tensor([1.8, 0.0]).view(1, 2, 1, 1)).flatten().tolist()]
    [0.9955, 0.0045]
    """
    return torch.softmax(3 * scores, 1)
