"""Attention10k: a sound asks where it is, and what is seen there must lie nearer to it than to another sound.

Senocak et al., "Learning to Localize Sound Source in Visual Scenes", CVPR 2018 (longer: TPAMI 2020). The sound becomes
a query, its cosines with the places become attention, and the attended picture is embedded beside the sound. The loss
compares two distances: to the picture's own sound, and to one other. With ground truth (--supervision.weight 1), the
attention of annotated clips is pulled to where the source is.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import adaptive_avg_pool2d, pairwise_distance

from earsight import distributed
from earsight.config import Form, Inputs, Optim, check_choices
from earsight.encoders.base import Encoders, global_max_pool, make_encoders
from earsight.losses import paired, partners
from earsight.methods.base import Features, Preset, TwoTower
from earsight.types import Batch, Maps, Step


def _encoders() -> Encoders:
    return Encoders(layer4_stride=1)


@dataclass(frozen=True)
class Config:
    """Settings of Attention10k, moved to trained ResNet-18 encoders; all else is as in the published code.

    NOTE: the original has frozen networks, VGG-16 for pictures and SoundNet for sounds. Here both are trained.
    """

    encoders: Encoders = field(default_factory=_encoders)
    relu: bool = True
    """Whether negative cosines count as 0 before the softmax over places."""
    entries: Literal["mean", "sum"] = "mean"
    """How the two equal squares of the loss become one: their mean (published code) or their sum (paper)."""

    def __post_init__(self) -> None:
        check_choices(self)


class Attended(NamedTuple):
    """Of a picture and its own sound: cosines and attention (B, h, w), embedded picture and sound (B, C)."""

    cosine: Tensor
    attention: Tensor
    picture: Tensor
    sound: Tensor


def attend(cosine: Tensor, relu: bool = True) -> Tensor:
    """Softmax over the places of (B, h, w), without temperature.

    >>> [round(x, 5) for x in attend(torch.tensor([[[1.0, 0.0]]])).flatten().tolist()]
    [0.73106, 0.26894]
    """
    return torch.softmax((cosine.relu() if relu else cosine).flatten(1), 1).view_as(cosine)


def distance_ratio(near: Tensor, far: Tensor) -> Tensor:
    """Mean of ((p, 1 - p) - (0, 1))^2 over clips and both entries; (p, 1 - p) is the softmax of two distances (B,).

    Both entries are equal, so this is the mean of sigmoid(near - far)^2.

    >>> float(distance_ratio(torch.tensor([2.0]), torch.tensor([2.0])))
    0.25
    """
    return torch.sigmoid(near - far).square().mean()


def attention_loss(attention: Tensor, truth: Tensor) -> Tensor:
    """Cross-entropy -sum g ln(attention) of (n, h, w) with ground truth (n, S, S) that is meant over each place.

    NOTE: the ground truth is made to add up to 1, as attention does; whether the original's did is not known. A clip of
    whose source the crop shows nothing adds 0. The mean runs over annotated clips, where the published code's runs over
    all of the batch.

    >>> round(float(attention_loss(attend(torch.tensor([[[1.0, 0.0]]])), torch.tensor([[[1.0, 0.0]]]))), 5)
    0.31326
    """
    goal = adaptive_avg_pool2d(truth, (attention.shape[1], attention.shape[2]))
    goal = goal / goal.sum((1, 2), keepdim=True).clamp_min(1e-6)
    return -(goal * attention.clamp_min(1e-12).log()).sum((1, 2)).mean()


class Model(TwoTower):
    def __init__(self, config: Config, inputs: Inputs) -> None:
        super().__init__(inputs)
        self.config = config
        self.image, self.audio = make_encoders(config.encoders, inputs)
        self.query = _two_layers(self.audio.channels, self.image.channels)
        self.embed = _two_layers(self.image.channels, self.audio.channels)

    def project_audio(self, encoded: Tensor) -> Features:
        # NOTE: sounds are pooled by their maximum over time, as in the DSOL authors' port; SoundNet's are averaged.
        sound = global_max_pool(encoded)
        return {"query": self.query(sound), "sound": sound.float()}

    def attended(self, image: Features, audio: Features) -> Attended:
        """One by one: the sound that asks is the picture's own, whatever the loss compares it with."""
        places = image["places"]
        cosine = paired(places, audio["query"])
        attention = attend(cosine, self.config.relu)
        with torch.autocast(places.device.type, enabled=False):  # distances need float32
            mean = torch.einsum("bchw,bhw->bc", places.float(), attention)  # values are not normalised, keys are
            return Attended(cosine, attention, self.embed(mean), audio["sound"])

    def loss(self, batch: Batch, counts: list[int]) -> Step:
        own = self.attended(self.embed_images(batch.frames), self.embed_sounds(batch.waveforms))
        picture, sound = distributed.gather(own.picture, counts), distributed.gather(own.sound, counts)
        # A clip that is alone meets itself: the distances are equal, and the gradient is 0.
        shift = int(torch.randint(1, max(len(picture), 2), ()))
        partner = partners(distributed.gather(batch.index, counts), shift)
        near, far = pairwise_distance(picture, sound), pairwise_distance(picture, sound[partner])
        loss = distance_ratio(near, far) * (2 if self.config.entries == "sum" else 1)
        # Longer vectors alone make the loss smaller, so their norms are worth watching.
        norms = {"picture_norm": picture.norm(dim=1).mean(), "sound_norm": sound.norm(dim=1).mean()}
        logs = {"near": near.mean(), "far": far.mean(), **norms}
        return Step(loss, {name: value.detach() for name, value in logs.items()}, self.maps(own))

    def compare(self, image: Features, audio: Features) -> Maps:
        return self.maps(self.attended(image, audio))

    def maps(self, own: Attended) -> Maps:
        # The attention is tied wherever the cosine is negative, and nearly flat elsewhere: its largest value is at most
        # e times its smallest. What gets thresholded is therefore the cosine, in the same order.
        confidence = -pairwise_distance(own.picture, own.sound)
        return Maps(own.attention, own.cosine, (-1.0, 1.0), confidence, (0.0, 1.0))

    def supervised_loss(self, maps: Maps, truth: Tensor, form: Form) -> Tensor:
        return attention_loss(maps.native, truth) if form == "own" else super().supervised_loss(maps, truth, form)


def _two_layers(before: int, after: int) -> nn.Sequential:
    return nn.Sequential(nn.ReLU(), nn.Linear(before, after), nn.ReLU(), nn.Linear(after, after))


def _preset(config: Config) -> Preset:
    # Pictures of 320 px and 20x20 places, never mirrored; batches of 30 and 10 epochs.
    inputs = Inputs(image_size=320, resize=320, flip=False)
    return Preset(config, inputs, Optim(epochs=10, batch_size=30), "official")


def official() -> Preset:
    """The authors' published code (ardasnck/learning_to_localize_sound_source) and the command of its README.

    NOTE: its sounds are SoundNet's answers to whole clips; here they are the 3 s of all methods. It squeezes pictures
    to 320x320; here the shorter side becomes 320 and the rest is cropped.
    """
    return _preset(Config())


def paper() -> Preset:
    """The paper's loss, a sum where the published code has a mean; all else as in the published code."""
    return _preset(Config(entries="sum"))


PRESETS = {"official": official, "paper": paper}
