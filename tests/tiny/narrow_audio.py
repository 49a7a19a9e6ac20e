"""An audio encoder from outside the package, of a width and with a preprocessing of its own."""

from __future__ import annotations

from typing import cast

import torch
from torch import Tensor, nn

from earsight.config import Inputs
from earsight.encoders.base import Encoder, Encoders
from earsight.encoders.frontend import Spectrogram


class Bands(nn.Module):
    """The log spectrogram in half as many bands of frequencies."""

    def __init__(self, inputs: Inputs) -> None:
        super().__init__()
        self.spectrogram = Spectrogram(inputs)

    def forward(self, sounds: Tensor) -> Tensor:
        spectra: Tensor = self.spectrogram(sounds)
        return torch.nn.functional.avg_pool2d(spectra, (2, 1))


class Audio(Encoder):
    channels = 12

    def __init__(self, settings: Encoders, inputs: Inputs) -> None:
        super().__init__()
        self.preprocess = Bands(inputs)
        self.layers = nn.Sequential(
            nn.Conv2d(1, 8, 5, 4, 2, bias=False), nn.BatchNorm2d(8), nn.ReLU(),
            nn.Conv2d(8, self.channels, 3, 2, 1, bias=False), nn.BatchNorm2d(self.channels), nn.ReLU(),
        )  # fmt: skip

    def forward(self, x: Tensor) -> Tensor:
        return cast(Tensor, self.layers(x))
