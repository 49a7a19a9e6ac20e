"""DMC: places and sounds are clustered clip by clip, and a clip's clusters of both kinds must lie near each other.

Hu, Nie and Li, "Deep Multimodal Clustering for Unsupervised Audiovisual Learning", CVPR 2019. The default form is the
authors' simplified version (DTaoo/Simplified_DMC), which the SLAVC paper compares with: a soft k-means that gradients
pass through parts each picture into source and rest, and the centre nearest to the sound's is pulled to it. The form
"original" is the model of the CVPR paper: routing in K shared spaces and a hinge on sums of cosines.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import cosine_similarity, normalize, one_hot

from earsight import distributed
from earsight.config import Inputs, Optim, check_choices, check_most, need
from earsight.encoders.base import Encoders, make_encoders
from earsight.losses import partners
from earsight.methods.base import Features, Preset, TwoTower, gather
from earsight.types import Batch, Maps, Step

Start = Literal["raster", "farthest"]
"""Centres start at evenly spaced places, or at vectors far from each other, wherever they are."""


def _encoders(weights: str = "imagenet") -> Encoders:
    return Encoders(layer4_stride=1, weights=weights)


@dataclass(frozen=True)
class Config:
    """Settings of DMC. The defaults are the simplified version's, from ImageNet weights."""

    encoders: Encoders = field(default_factory=_encoders)
    form: Literal["simplified", "original"] = "simplified"
    """The authors' simplified version, or the model of the CVPR paper."""
    visual_clusters: int = 2
    """Simplified: clusters of a picture, one more than `audio_clusters` for the background."""
    audio_clusters: int = 1
    """Simplified: clusters of a sound, one for each source in a clip."""
    rounds: int = 4
    """Simplified: rounds of soft k-means."""
    sharpness: float = 30.0
    """Simplified: times this, distances become assignments; it and the margin assume features of a certain length."""
    margin: float = 5.0
    """Simplified: distance from which on another clip's picture no longer counts."""
    start: Start = "raster"
    """Simplified: where centres start, at evenly spaced places (published, so a mirrored picture may be clustered
    differently), or at vectors far from each other, wherever they are."""
    spaces: int = 10
    """Original: shared spaces, each with one cluster of the picture and one of the sound; the margin is the same."""
    dim: int = 16
    """Original: dimensions of each space."""
    routings: int = 3
    """Original: rounds of routing."""

    def __post_init__(self) -> None:
        check_choices(self)
        need(self.audio_clusters >= 1, "audio_clusters of at least 1", self.audio_clusters)
        need(self.visual_clusters > self.audio_clusters, f"more visual_clusters than audio_clusters "
             f"({self.audio_clusters})", self.visual_clusters, "One is for the background.")  # fmt: skip
        need(self.rounds >= 1, "rounds of at least 1", self.rounds)
        need(self.sharpness > 0, "a positive sharpness", self.sharpness)
        need(self.margin > 0, "a positive margin", self.margin)
        need(self.spaces >= 2, "spaces of at least 2", self.spaces, "With one there is nothing to tell apart.")
        need(self.dim >= 1, "dim of at least 1", self.dim)
        check_most(self, visual_clusters=32, rounds=100, spaces=100, dim=1024, routings=100)
        need(self.routings >= 2, "routings of at least 2", self.routings, "The first assigns everything equally.")


# Clustering that gradients pass through, each clip alone. Shapes: B clips of N vectors with C channels, K clusters.


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


def reach(seen: Tensor, heard: Tensor) -> Tensor:
    """Squared distance of picture and sound, (B, K, C) and (B, M, C) -> (B,): each sound centre to its nearest, added.

    >>> reach(torch.tensor([[[0.0], [4.0]]]), torch.tensor([[[3.0]]])).tolist()
    [1.0]
    """
    return distance(seen, heard).min(1).values.square().sum(1)


def contrast(near: Tensor, far: Tensor, margin: float) -> Tensor:
    """Both losses of each clip (B, 2), from squared distances (B,) to its own picture and to another one.

    >>> contrast(torch.tensor([1.0]), torch.tensor([1.0]), 5.0).tolist()
    [[0.5, 8.0]]
    """
    return 0.5 * torch.stack((near, (margin - (far + 1e-9).sqrt()).relu().square()), 1)


def agreement(seen: Tensor, heard: Tensor) -> Tensor:
    """Sum over K spaces of the cosines of both centres, (B, K, D) twice -> (B,) in [-K, K].

    NOTE: the published layer cuts the wrong axis in half and compares spaces 0-4 with 5-9; this is the intended sum,
    which stands beside it as a comment.
    """
    return cosine_similarity(seen, heard, dim=-1).sum(1)


def hinge(right: Tensor, wrong: Tensor, margin: float) -> Tensor:
    """relu(margin + wrong - right), meant over clips.

    >>> float(hinge(torch.tensor([1.5]), torch.tensor([1.0]), 2))
    1.5
    """
    return (margin + wrong - right).relu().mean()


class Simplified(nn.Module):
    """Soft k-means behind one linear layer for pictures and one for sounds."""

    def __init__(self, config: Config, image_channels: int, audio_channels: int) -> None:
        super().__init__()
        self.config, self.scale = config, config.sharpness
        self.image, self.audio = nn.Linear(image_channels, image_channels), nn.Linear(audio_channels, image_channels)

    def picture(self, vectors: Tensor) -> Features:
        u, c = self.image(vectors), self.config
        found = soft_kmeans(u, c.visual_clusters, c.rounds, c.sharpness, c.start)
        return {"centres": found.centres, "logits": found.logits, "norm": u.norm(dim=2).mean(1)}

    def sound(self, vectors: Tensor) -> Features:
        w, c = self.audio(vectors), self.config
        found = soft_kmeans(w, c.audio_clusters, c.rounds, c.sharpness, c.start)
        return {"centres": found.centres, "norm": w.norm(dim=2).mean(1)}

    def source(self, image: Features, audio: Features) -> Tensor:
        """Which clusters of the picture are the source: the nearest to each of the sound's, bool (B, K)."""
        nearest = distance(image["centres"], audio["centres"]).argmin(1)
        return one_hot(nearest, self.config.visual_clusters).any(1)

    def loss(self, pictures: Tensor, sounds: Tensor, partner: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
        near, far = reach(pictures, sounds), reach(pictures[partner], sounds)
        logs = {"near": near.sqrt().mean(), "far": far.sqrt().mean()}
        return contrast(near, far, self.config.margin).mean(), logs

    def confidence(self, pictures: Tensor, sounds: Tensor) -> Tensor:
        return -reach(pictures, sounds).sqrt()


class Original(nn.Module):
    """Routing in spaces that pictures and sounds share, the CVPR paper's model behind ResNet-18 features.

    NOTE: its own encoders are VGG-16 and VGGish without weights, the latter on 64 mel bands. One projection serves both
    where they have one width, as published; otherwise sounds have one of their own.
    """

    scale = 1.0

    def __init__(self, config: Config, image_channels: int, audio_channels: int) -> None:
        super().__init__()
        self.config = config
        self.project = nn.Linear(image_channels, config.spaces * config.dim, bias=False)
        nn.init.xavier_uniform_(self.project.weight)
        if audio_channels != image_channels:
            self.project_audio = nn.Linear(audio_channels, config.spaces * config.dim, bias=False)
            nn.init.xavier_uniform_(self.project_audio.weight)

    def picture(self, vectors: Tensor) -> Features:
        found = route(self.in_spaces(self.project, vectors), self.config.routings)
        return {"centres": found.centres, "logits": found.logits, "norm": vectors.norm(dim=2).mean(1)}

    def sound(self, vectors: Tensor) -> Features:
        w = self.in_spaces(getattr(self, "project_audio", self.project), vectors)
        found = route(w, self.config.routings)
        return {"centres": found.centres, "mean": w.mean(2), "norm": vectors.norm(dim=2).mean(1)}

    def source(self, image: Features, audio: Features) -> Tensor:
        """The space in which both centres agree most, bool (B, K)."""
        # NOTE: to localize, the paper averages the sound to one centre and has two centres for the picture, source and
        # rest. Here the picture has the centres it was trained with: the one nearest to the sound, and the others.
        best = cosine_similarity(image["centres"], audio["mean"], dim=-1).argmax(1)
        return one_hot(best, self.config.spaces).bool()

    def in_spaces(self, project: nn.Module, vectors: Tensor) -> Tensor:
        """Vectors (B, N, C) in each space, (B, K, N, D)."""
        projected: Tensor = project(squash(vectors))
        return projected.view(*vectors.shape[:2], self.config.spaces, -1).transpose(1, 2)

    def loss(self, pictures: Tensor, sounds: Tensor, partner: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
        right, wrong = agreement(pictures, sounds), agreement(pictures, sounds[partner])
        return hinge(right, wrong, self.config.spaces), {"right": right.mean(), "wrong": wrong.mean()}

    def confidence(self, pictures: Tensor, sounds: Tensor) -> Tensor:
        return agreement(pictures, sounds)


class Model(TwoTower):
    def __init__(self, config: Config, inputs: Inputs) -> None:
        super().__init__(inputs)
        self.config = config
        self.image, self.audio = make_encoders(config.encoders, inputs)
        form = Simplified if config.form == "simplified" else Original
        self.clustering = form(config, self.image.channels, self.audio.channels)

    def project_image(self, encoded: Tensor) -> Features:
        # Distances times 30, four times over, need float32.
        with torch.autocast(encoded.device.type, enabled=False):
            found = self.clustering.picture(encoded.float().flatten(2).transpose(1, 2))
            return {**found, "logits": found["logits"].view(*found["logits"].shape[:2], *encoded.shape[2:])}

    def project_audio(self, encoded: Tensor) -> Features:
        with torch.autocast(encoded.device.type, enabled=False):
            return self.clustering.sound(encoded.float().flatten(2).transpose(1, 2))

    def compare(self, image: Features, audio: Features) -> Maps:
        with torch.autocast(image["logits"].device.type, enabled=False):
            # Assignments are almost binary, so whole regions are tied; their log-odds have the same order and no ties.
            logits = image["logits"]
            odds = log_odds(logits.flatten(2), self.clustering.source(image, audio)).view(-1, *logits.shape[2:])
            confidence = self.clustering.confidence(image["centres"], audio["centres"])
            dense = odds / self.clustering.scale  # in the simplified form a difference of two distances
            return Maps(odds.sigmoid(), dense, confidence=confidence, native_bounds=(0.0, 1.0))

    def loss(self, batch: Batch, counts: list[int]) -> Step:
        image, audio = self.embed_images(batch.frames), self.embed_sounds(batch.waveforms)
        pictures, sounds = gather(image, counts), gather(audio, counts)
        n = len(pictures["centres"])
        shift = int(torch.randint(1, max(n, 2), ()))
        partner = partners(distributed.gather(batch.index, counts), shift)
        # One other clip for each: its picture in the simplified form, its sound in the original one.
        loss, logs = self.clustering.loss(pictures["centres"], sounds["centres"], partner)
        loss = loss * (n > 1)  # a clip that is alone would be pushed from itself; it teaches nothing
        # Margin and sharpness assume the length of features, which nothing fixes, so it is worth watching.
        logs = {**logs, "picture_norm": pictures["norm"].mean(), "sound_norm": sounds["norm"].mean()}
        maps = None if batch.truth is None else self.compare(image, audio)
        return Step(loss, {name: x.detach() for name, x in logs.items()}, maps)


def official() -> Preset:
    """The published simplified version (DTaoo/Simplified_DMC): 1 s of sound at 16 kHz, random weights, 100 epochs.

    NOTE: its spectrogram is 64 mel bands in decibels, and it varies brightness and colour of training pictures, which
    it squeezes to 256x256; here the spectrogram is that of all methods, and the shorter side becomes 256. Its other
    picture is any clip's of the set, here any of the batch.
    """
    inputs = Inputs(resize=256, rate=16000, seconds=1.0, window=160, hop=80)
    optim = Optim(epochs=100, batch_size=32, weight_decay=1e-4)
    return Preset(Config(encoders=_encoders("random")), inputs, optim, "official")


def paper() -> Preset:
    """The CVPR paper's model as its code (DTaoo/DMC) has it: 5 s at 16 kHz, 256 px, 8x8 places, ten spaces.

    NOTE: ten videos a batch there have several frames each, here one. There are no weights to start from.
    """
    inputs = Inputs(image_size=256, resize=256, flip=False, rate=16000, seconds=5.0, window=1280, hop=800)
    config = Config(form="original", encoders=Encoders(layer4_stride=2, weights="random"))
    return Preset(config, inputs, Optim(epochs=100, batch_size=10), "paper")


PRESETS = {"official": official, "paper": paper}
