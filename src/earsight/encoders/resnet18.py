"""torchvision's ResNet-18 for pictures, and the same with one input channel for spectrograms, as in the paper."""

from __future__ import annotations

from typing import Any, cast

import torchvision
from torch import Tensor, nn

from earsight.config import Inputs
from earsight.encoders.base import Encoder, Encoders
from earsight.encoders.frontend import Pixels, Spectrogram
from earsight.encoders.start_weights import load_image_weights
from earsight.encoders.stem import stem


class _ResNet18(Encoder):
    """The layers up to the last feature map, without pooling and classifier."""

    channels = 512
    channels_last = True

    def __init__(self, layer4_stride: int) -> None:
        super().__init__()
        net = torchvision.models.resnet18(weights=None)
        self.conv1, self.bn1 = net.conv1, net.bn1
        self.layer1, self.layer2, self.layer3, self.layer4 = net.layer1, net.layer2, net.layer3, net.layer4
        if layer4_stride == 1:  # layer 4 keeps layer 3's resolution; the weights stay as they are
            block: Any = self.layer4[0]
            block.conv1.stride = block.downsample[0].stride = (1, 1)

    def forward(self, x: Tensor) -> Tensor:
        x = stem(self.conv1, self.bn1, x)
        return cast(Tensor, self.layer4(self.layer3(self.layer2(self.layer1(x)))))


class Image(_ResNet18):
    """224 px give 7x7 places, or 14x14 with `layer4_stride` 1."""

    start = "random weights"

    def __init__(self, settings: Encoders, inputs: Inputs) -> None:
        super().__init__(settings.layer4_stride)
        self.preprocess = Pixels()

    def initialize(self, weights: str) -> None:
        """torchvision's ImageNet weights, a file's, or torchvision's random start."""
        self.start = load_image_weights(self, weights)


class Audio(_ResNet18):
    """The log spectrogram of all methods, (B, 1, F, T) -> (B, 512, f, t)."""

    def __init__(self, settings: Encoders, inputs: Inputs) -> None:
        super().__init__(settings.layer4_stride)
        self.conv1 = nn.Conv2d(1, 64, 7, 2, 3, bias=False)
        self.preprocess = Spectrogram(inputs)
