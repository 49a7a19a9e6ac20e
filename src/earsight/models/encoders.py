"""The pair of encoders a method is built on, chosen by settings."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Literal

from torch import nn

from earsight.config import check_choices, check_most, need
from earsight.models.audio import ResNetAudio, SmallAudio
from earsight.models.image import ResNetImage, SmallImage
from earsight.models.weights import load_image_weights


@dataclass(frozen=True)
class Encoders:
    """Which networks see and hear."""

    kind: Literal["resnet18", "small"] = "resnet18"
    """ResNet-18 for both, as in the paper, or a small pair for demonstrations on a CPU."""
    layer4_stride: int = 2
    """ResNet-18 only: 2 gives 7x7 maps at 224 px, 1 gives 14x14."""
    weights: str = "imagenet"
    """Start of the picture encoder: "imagenet", "random", or a file. The small pair always starts at random."""
    width: int = 24
    """Small pair only: a quarter of its output channels."""

    def __post_init__(self) -> None:
        check_choices(self)
        need(self.layer4_stride in (1, 2), "layer4_stride 1 or 2", self.layer4_stride)
        need(self.width >= 4, "width of at least 4", self.width)
        check_most(self, width=256)
        if self.kind == "small":  # so that what is stored says how the network began
            known = self.weights in ("imagenet", "random")
            need(known, "weights 'random' for encoders of kind small, which always start there", self.weights)
            object.__setattr__(self, "weights", "random")


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


_start = ContextVar("start", default=True)


@contextmanager
def no_start_weights() -> Iterator[None]:
    """Build models without fetching start weights, because a checkpoint is about to replace them."""
    token = _start.set(False)
    try:
        yield
    finally:
        _start.reset(token)


def make_encoders(settings: Encoders, *, pooled: bool = True) -> tuple[nn.Module, nn.Module, int]:
    """Picture encoder, sound encoder, and their number of output channels.

    Without `pooled`, the sound encoder gives its places (B, C, f, t) and not the largest value of each channel.
    """
    image: ResNetImage | SmallImage
    audio: ResNetAudio | SmallAudio
    if settings.kind == "small":
        image, audio = SmallImage(settings.width), SmallAudio(settings.width, pooled)
        init_like_published(image)
    else:
        image, audio = ResNetImage(settings.layer4_stride), ResNetAudio(settings.layer4_stride, pooled)
        image.start = load_image_weights(image, settings.weights if _start.get() else "random")
    init_like_published(audio)
    return image, audio, image.channels


def starts_of(model: nn.Module) -> list[str]:
    """What the ResNet-18 picture encoders of a model were filled with, in words, each once.

    >>> starts_of(ResNetImage())
    ['random weights']
    """
    return list(dict.fromkeys(part.start for part in model.modules() if isinstance(part, ResNetImage)))
