"""Picture encoders: (B, 3, S, S) -> (B, channels, h, w)."""

from __future__ import annotations

from typing import Any, cast

import torchvision
from torch import Tensor, nn

from earsight.models.stem import stem


class ResNetImage(nn.Module):
    """torchvision's ResNet-18 without its pooling and classifier; 224 px give 7x7, or 14x14 with `layer4_stride` 1."""

    channels = 512
    start = "random weights"
    """What it was filled with before training, in words."""

    def __init__(self, layer4_stride: int = 2) -> None:
        super().__init__()
        net = torchvision.models.resnet18(weights=None)
        self.conv1, self.bn1 = net.conv1, net.bn1
        self.layer1, self.layer2, self.layer3, self.layer4 = net.layer1, net.layer2, net.layer3, net.layer4
        if layer4_stride == 1:
            undo_layer4_stride(self.layer4)

    def forward(self, x: Tensor) -> Tensor:
        x = stem(self.conv1, self.bn1, x)
        return cast(Tensor, self.layer4(self.layer3(self.layer2(self.layer1(x)))))


def undo_layer4_stride(layer4: nn.Sequential) -> None:
    """Keep layer 4 at layer 3's resolution; the weights stay as they are."""
    block: Any = layer4[0]
    block.conv1.stride = (1, 1)
    block.downsample[0].stride = (1, 1)


def conv_block(before: int, after: int, stride: int | tuple[int, int] = 2, kernel: int = 3) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(before, after, kernel, stride, kernel // 2, bias=False), nn.BatchNorm2d(after), nn.ReLU(inplace=True)
    )


class SmallImage(nn.Module):
    """Four strided convolutions and two more that widen the view, for demonstrations on a CPU; 112 px give 7x7."""

    def __init__(self, width: int = 24) -> None:
        super().__init__()
        self.channels = 4 * width
        self.layers = nn.Sequential(
            conv_block(3, width // 2, 2, 5),
            conv_block(width // 2, 2 * width),
            conv_block(2 * width, 4 * width),
            conv_block(4 * width, 4 * width),
            conv_block(4 * width, 4 * width, 1),
            conv_block(4 * width, 4 * width, 1),
        )

    def forward(self, x: Tensor) -> Tensor:
        return cast(Tensor, self.layers(x))
