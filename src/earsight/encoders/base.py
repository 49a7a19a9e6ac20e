"""What an encoder is, and how a method gets its two: one for pictures and one for sounds, each chosen by name.

A file in encoders/ is a family with a class `Image`, a class `Audio`, or both, built as `Image(settings, inputs)`.
A dotted name is a module of the user's own that defines the same.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from earsight import registry
from earsight.config import Inputs, check_most, need
from earsight.errors import UsageError


@dataclass(frozen=True)
class Encoders:
    """Which networks encode pictures and sounds."""

    image: str = "resnet18"
    """Network for pictures: resnet18 as in the paper, small for demonstrations on a CPU (earsight list encoders), or a
    module of your own."""
    audio: str = "resnet18"
    """Network for sounds, likewise; its width need not be that of the picture's."""
    layer4_stride: int = 2
    """ResNets only: 2 gives 7x7 maps at 224 px, 1 gives 14x14."""
    weights: str = "imagenet"
    """Start of the picture encoder: "imagenet", "random", or a file. Small encoders always start at random."""
    width: int = 24
    """Small encoders only: a quarter of their output channels."""
    audio_weights: str = "random"
    """Start of the sound encoder: "random", or what an encoder of your own understands."""

    def __post_init__(self) -> None:
        need(self.layer4_stride in (1, 2), "layer4_stride 1 or 2", self.layer4_stride)
        need(self.width >= 4, "width of at least 4", self.width)
        check_most(self, width=256)
        if self.image == "small":  # so that what is stored says how the network began
            known = self.weights in ("imagenet", "random")
            need(known, "weights 'random' for a small picture encoder, which always starts there", self.weights)
            object.__setattr__(self, "weights", "random")


class Encoder(nn.Module):
    """A network together with the preprocessing that it was made for.

    Of pictures, `preprocess` takes uint8 (B, 3, S, S) and `forward` gives (B, channels, h, w). Of sounds, `preprocess`
    takes float32 (B, N) in [-1, 1] and `forward` gives (B, channels, f, t), which methods pool as they like.
    """

    channels: int
    """Width of what `forward` gives."""
    preprocess: nn.Module
    """From pictures or sounds as a batch holds them to what `forward` takes; has no parameters."""
    start = ""
    """What it was filled with before training, in words; empty for a random start."""
    channels_last = False
    """Whether it is faster on a CPU with a pixel's channels side by side."""
    labels_seen = ""
    """Which labels its start weights have learned from; empty for none."""

    def initialize(self, weights: str) -> None:
        """Fill with start weights: "random", which is the published code's start, or what this encoder understands."""
        need(weights == "random", f"weights 'random' for {type(self).__module__}, which has no others", weights)
        init_like_published(self)


def init_like_published(module: nn.Module) -> None:
    """The published code's start for all that is not ImageNet: Kaiming convolutions, BN near 1, small linears."""
    for part in module.modules():
        if isinstance(part, nn.Conv2d):
            nn.init.kaiming_normal_(part.weight, mode="fan_out", nonlinearity="relu")
        elif isinstance(part, nn.Linear):
            nn.init.trunc_normal_(part.weight, std=0.01)
        elif isinstance(part, nn.BatchNorm2d):
            nn.init.normal_(part.weight, 1, 0.02)
            nn.init.zeros_(part.bias)


_load_start = ContextVar("load_start", default=True)


@contextmanager
def no_start_weights() -> Iterator[None]:
    """Build models without fetching start weights, because a checkpoint is about to replace them."""
    token = _load_start.set(False)
    try:
        yield
    finally:
        _load_start.reset(token)


def make_encoders(settings: Encoders, inputs: Inputs) -> tuple[Encoder, Encoder]:
    """The picture encoder and the sound encoder that the settings name, with their start weights."""
    image, audio = _make("Image", settings.image, settings, inputs), _make("Audio", settings.audio, settings, inputs)
    image.initialize(settings.weights if _load_start.get() else "random")
    audio.initialize(settings.audio_weights if _load_start.get() else "random")
    return image, audio


def make_image_encoder(settings: Encoders, inputs: Inputs) -> Encoder:
    """The picture encoder alone."""
    image = _make("Image", settings.image, settings, inputs)
    image.initialize(settings.weights if _load_start.get() else "random")
    return image


def _make(kind: Literal["Image", "Audio"], name: str, settings: Encoders, inputs: Inputs) -> Encoder:
    module = registry.load("encoder", name)
    if not hasattr(module, kind):
        known = [one for one in registry.names("encoder") if hasattr(registry.load("encoder", one), kind)]
        raise UsageError(
            f"Expected an encoder of {'pictures' if kind == 'Image' else 'sounds'} (a class {kind}) in '{name}', but "
            f"it has none. Known: {', '.join(known)}."
        )
    encoder = getattr(module, kind)(settings, inputs)
    if not isinstance(encoder, Encoder):
        raise UsageError(f"Expected {name}.{kind} to be an earsight.encoders.base.Encoder, but got {type(encoder)}.")
    return encoder


def starts_of(model: nn.Module) -> list[str]:
    """What the encoders of a model were filled with before training, in words, each once."""
    return list(dict.fromkeys(part.start for part in model.modules() if isinstance(part, Encoder) and part.start))


def global_max_pool(x: Tensor) -> Tensor:
    """The largest value over the last two dimensions: (B, C, f, t) -> (B, C).

    NOTE: not amax, whose gradient goes to the places that equal the maximum; compiled in bfloat16 it compares rounded
    with unrounded values, finds none, and divides by zero. Pooling remembers the place, and so does max, which is used
    where only repeatable kernels are allowed: on a GPU the gradient of this pooling is not one.
    """
    if torch.are_deterministic_algorithms_enabled():
        return x.flatten(2).max(2).values
    return nn.functional.adaptive_max_pool2d(x, 1).flatten(1)
