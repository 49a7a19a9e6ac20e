"""Small strided convolutions for pictures and for spectrograms, for demonstrations on a CPU."""

from __future__ import annotations

from typing import cast

from torch import Tensor, nn

from earsight.config import Inputs
from earsight.encoders.base import Encoder, Encoders
from earsight.encoders.frontend import Pixels, Spectrogram


class _Small(Encoder):
    layers: nn.Sequential

    def forward(self, x: Tensor) -> Tensor:
        return cast(Tensor, self.layers(x))


class Image(_Small):
    """Four strided convolutions and two more that widen the view; 112 px give 7x7."""

    def __init__(self, settings: Encoders, inputs: Inputs) -> None:
        super().__init__()
        width = settings.width
        self.channels = 4 * width
        self.preprocess = Pixels()
        self.layers = nn.Sequential(
            _block(3, width // 2, 2, 5),
            _block(width // 2, 2 * width),
            _block(2 * width, 4 * width),
            _block(4 * width, 4 * width),
            _block(4 * width, 4 * width, 1),
            _block(4 * width, 4 * width, 1),
        )


class Audio(_Small):
    """Five strided convolutions over the log spectrogram."""

    def __init__(self, settings: Encoders, inputs: Inputs) -> None:
        super().__init__()
        width = settings.width
        self.channels = 4 * width
        self.preprocess = Spectrogram(inputs)
        self.layers = nn.Sequential(
            _block(1, width // 2, 2, 5),
            _block(width // 2, width),
            _block(width, 2 * width),
            _block(2 * width, 4 * width),
            _block(4 * width, 4 * width),
        )


def _block(before: int, after: int, stride: int = 2, kernel: int = 3) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(before, after, kernel, stride, kernel // 2, bias=False), nn.BatchNorm2d(after), nn.ReLU(inplace=True)
    )
