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
from torch.nn.functional import cosine_similarity, one_hot

from earsight import distributed
from earsight.config import Inputs, Optim, check_choices, check_most, need
from earsight.losses import partners
from earsight.methods.base import Method, Preset
from earsight.models.encoders import Encoders, make_encoders
from earsight.models.soft_clusters import Start, distance, log_odds, route, soft_kmeans, squash
from earsight.types import Batch, Maps, Step


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


class Found(NamedTuple):
    """What a picture and its own sound give: both their centres (B, K, D), log-odds of the source (B, N), and lengths.

    `lengths` are the mean lengths of the vectors that were clustered, of pictures and of sounds, (B, 2).
    """

    seen: Tensor
    heard: Tensor
    odds: Tensor
    lengths: Tensor


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

    def __init__(self, config: Config, channels: int) -> None:
        super().__init__()
        self.config, self.scale = config, config.sharpness
        self.see, self.hear = nn.Linear(channels, channels), nn.Linear(channels, channels)

    def forward(self, places: Tensor, times: Tensor) -> Found:
        c, u, w = self.config, self.see(places), self.hear(times)
        seen = soft_kmeans(u, c.visual_clusters, c.rounds, c.sharpness, c.start)
        heard = soft_kmeans(w, c.audio_clusters, c.rounds, c.sharpness, c.start)
        nearest = distance(seen.centres, heard.centres).argmin(1)
        chosen = one_hot(nearest, c.visual_clusters).any(1)
        lengths = torch.stack([x.norm(dim=2).mean(1) for x in (u, w)], 1)
        return Found(seen.centres, heard.centres, log_odds(seen.logits, chosen), lengths)

    def loss(self, seen: Tensor, heard: Tensor, partner: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
        near, far = reach(seen, heard), reach(seen[partner], heard)
        logs = {"near": near.sqrt().mean(), "far": far.sqrt().mean()}
        return contrast(near, far, self.config.margin).mean(), logs

    def confidence(self, seen: Tensor, heard: Tensor) -> Tensor:
        return -reach(seen, heard).sqrt()


class Original(nn.Module):
    """Routing in spaces that pictures and sounds share, the CVPR paper's model behind ResNet-18 features.

    NOTE: its own encoders are VGG-16 and VGGish without weights, the latter on 64 mel bands.
    """

    scale = 1.0

    def __init__(self, config: Config, channels: int) -> None:
        super().__init__()
        self.config = config
        self.project = nn.Linear(channels, config.spaces * config.dim, bias=False)
        nn.init.xavier_uniform_(self.project.weight)

    def forward(self, places: Tensor, times: Tensor) -> Found:
        u, w = self.in_spaces(places), self.in_spaces(times)
        seen, heard = route(u, self.config.routings), route(w, self.config.routings)
        # NOTE: to localize, the paper averages the sound to one centre and has two centres for the picture, source and
        # rest. Here the picture has the centres it was trained with: the one nearest to the sound, and the others.
        chosen = one_hot(cosine_similarity(seen.centres, w.mean(2), dim=-1).argmax(1), self.config.spaces).bool()
        lengths = torch.stack([x.norm(dim=2).mean(1) for x in (places, times)], 1)
        return Found(seen.centres, heard.centres, log_odds(seen.logits, chosen), lengths)

    def in_spaces(self, vectors: Tensor) -> Tensor:
        """Vectors (B, N, C) in each space, (B, K, N, D)."""
        projected: Tensor = self.project(squash(vectors))
        return projected.view(*vectors.shape[:2], self.config.spaces, -1).transpose(1, 2)

    def loss(self, seen: Tensor, heard: Tensor, partner: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
        right, wrong = agreement(seen, heard), agreement(seen, heard[partner])
        return hinge(right, wrong, self.config.spaces), {"right": right.mean(), "wrong": wrong.mean()}

    def confidence(self, seen: Tensor, heard: Tensor) -> Tensor:
        return agreement(seen, heard)


class Model(Method):
    def __init__(self, config: Config, inputs: Inputs) -> None:
        super().__init__(inputs)
        self.config = config
        self.image, self.audio, channels = make_encoders(config.encoders, pooled=False)
        self.clustering = (Simplified if config.form == "simplified" else Original)(config, channels)

    def find(self, frames: Tensor, waveforms: Tensor) -> tuple[Found, Maps]:
        image, sound = self.image(self.front.image(frames)), self.audio(self.front.sound(waveforms))
        # Distances times 30, four times over, need float32.
        with torch.autocast(image.device.type, enabled=False):
            found = self.clustering(*(x.float().flatten(2).transpose(1, 2) for x in (image, sound)))
            # Assignments are almost binary, so whole regions are tied; their log-odds have the same order and no ties.
            odds = found.odds.view(-1, *image.shape[2:])
            confidence = self.clustering.confidence(found.seen, found.heard)
            dense = odds / self.clustering.scale  # in the simplified form a difference of two distances
            return found, Maps(odds.sigmoid(), dense, confidence=confidence, native_bounds=(0.0, 1.0))

    def forward(self, batch: Batch) -> Step:
        counts = distributed.sizes(len(batch))
        mine, maps = self.find(batch.frames, batch.waveforms)
        seen, heard = distributed.gather(mine.seen, counts), distributed.gather(mine.heard, counts)
        shift = int(torch.randint(1, max(len(seen), 2), ()))
        # One other clip for each: its picture in the simplified form, its sound in the original one.
        loss, logs = self.clustering.loss(seen, heard, partners(distributed.gather(batch.index, counts), shift))
        loss = loss * (len(seen) > 1)  # a clip that is alone would be pushed from itself; it teaches nothing
        # Margin and sharpness assume the length of features, which nothing fixes, so it is worth watching.
        lengths = distributed.gather(mine.lengths.detach(), counts).mean(0)
        logs = {**logs, "picture_norm": lengths[0], "sound_norm": lengths[1]}
        return Step(loss, {name: x.detach() for name, x in logs.items()}, None if batch.truth is None else maps)

    def localize(self, frames: Tensor, waveforms: Tensor) -> Maps:
        return self.find(frames, waveforms)[1]

    def compiled(self) -> list[nn.Module]:
        return [self.image, self.audio]


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
