"""Sound encoders: log spectrogram (B, 1, F, T) -> (B, channels), the largest value over time and frequency.

Without pooling they give all places of the spectrogram, (B, channels, f, t).
"""

from __future__ import annotations

import torch
import torchvision
from torch import Tensor, nn
from torch.nn.functional import adaptive_max_pool2d

from earsight.models.image import conv_block, undo_layer4_stride
from earsight.models.stem import stem


def loudest(x: Tensor) -> Tensor:
    """The largest value over time and frequency: (B, C, F, T) -> (B, C).

    NOTE: not amax, whose gradient looks for the places that equal the maximum; compiled in bfloat16 it compares rounded
    with unrounded values, finds none, and divides by zero. Pooling remembers the place, and so does max, which is used
    where only repeatable kernels are allowed: on a GPU the gradient of this pooling is not one.
    """
    if torch.are_deterministic_algorithms_enabled():
        return x.flatten(2).max(2).values
    return adaptive_max_pool2d(x, 1).flatten(1)


class ResNetAudio(nn.Module):
    """torchvision's ResNet-18 with one input channel and a global max pool instead of the average."""

    channels = 512

    def __init__(self, layer4_stride: int = 2, pooled: bool = True) -> None:
        super().__init__()
        self.pooled = pooled
        net = torchvision.models.resnet18(weights=None)
        self.conv1 = nn.Conv2d(1, 64, 7, 2, 3, bias=False)
        self.bn1 = net.bn1
        self.layer1, self.layer2, self.layer3, self.layer4 = net.layer1, net.layer2, net.layer3, net.layer4
        if layer4_stride == 1:
            undo_layer4_stride(self.layer4)

    def forward(self, x: Tensor) -> Tensor:
        x = stem(self.conv1, self.bn1, x)
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        return loudest(x) if self.pooled else x


class SmallAudio(nn.Module):
    """Five strided convolutions, for demonstrations on a CPU."""

    def __init__(self, width: int = 24, pooled: bool = True) -> None:
        super().__init__()
        self.pooled = pooled
        self.channels = 4 * width
        self.layers = nn.Sequential(
            conv_block(1, width // 2, 2, 5),
            conv_block(width // 2, width),
            conv_block(width, 2 * width),
            conv_block(2 * width, 4 * width),
            conv_block(4 * width, 4 * width),
        )

    def forward(self, x: Tensor) -> Tensor:
        x = self.layers(x)
        return loudest(x) if self.pooled else x
