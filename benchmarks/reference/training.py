"""SLAVC as it was published: fp32, contiguous layout, products of softmaxes, averages and Adam parameter by parameter.

Convolutions run in TF32 and matrix products in fp32, which are torch's defaults on a GPU.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import contextmanager

import torch
import torch.nn.functional as F
import torchvision
from torch import Tensor, nn


def resnet18_pair() -> tuple[nn.Module, nn.Module, int]:
    """torchvision's ResNet-18 for pictures, and one with a single input channel and a max pool for sounds."""
    seen, heard = torchvision.models.resnet18(weights=None), torchvision.models.resnet18(weights=None)
    heard.conv1 = nn.Conv2d(1, 64, 7, 2, 3, bias=False)
    image = nn.Sequential(*list(seen.children())[:-2])
    audio = nn.Sequential(*list(heard.children())[:-2], nn.AdaptiveMaxPool2d(1), nn.Flatten())
    return image, audio, 512


def small_pair(width: int = 24) -> tuple[nn.Module, nn.Module, int]:
    """A few strided convolutions, of the shape that earsight's small pair has, for comparisons on a CPU."""

    def block(before: int, after: int, stride: int = 2, kernel: int = 3) -> list[nn.Module]:
        return [nn.Conv2d(before, after, kernel, stride, kernel // 2, bias=False), nn.BatchNorm2d(after), nn.ReLU()]

    half, two, four = width // 2, 2 * width, 4 * width
    image = [*block(3, half, 2, 5), *block(half, two), *block(two, four), *block(four, four)]
    image += [*block(four, four, 1), *block(four, four, 1)]
    audio = [*block(1, half, 2, 5), *block(half, width), *block(width, two), *block(two, four), *block(four, four)]
    return nn.Sequential(*image), nn.Sequential(*audio, nn.AdaptiveMaxPool2d(1), nn.Flatten()), four


class Branch(nn.Module):
    """Two encoders, each with a projection for places and one for correspondence."""

    def __init__(self, image: nn.Module, audio: nn.Module, channels: int, dim: int) -> None:
        super().__init__()
        self.image, self.audio = image, audio
        self.image_loc, self.audio_loc = nn.Conv2d(channels, dim, 1), nn.Linear(channels, dim)
        self.image_avc, self.audio_avc = nn.Conv2d(channels, dim, 1), nn.Linear(channels, dim)

    def forward(self, image: Tensor, audio: Tensor, dropout: float) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        v = F.dropout(self.image(image), dropout, self.training)
        a = self.audio(audio)
        places = F.normalize(self.image_loc(v), dim=1), F.normalize(self.image_avc(v), dim=1)
        return *places, F.normalize(self.audio_loc(a), dim=1), F.normalize(self.audio_avc(a), dim=1)


class Slavc(nn.Module):
    """The online branch, its slow copy, the loss, and maps."""

    def __init__(
        self,
        pair: tuple[nn.Module, nn.Module, int],
        dim: int = 512,
        temperature: float = 0.03,
        dropout: float = 0.9,
        momentum: float = 0.999,
    ) -> None:
        super().__init__()
        self.temperature, self.dropout, self.momentum = temperature, dropout, momentum
        self.online = Branch(*pair, dim)
        self.target = copy.deepcopy(self.online)
        for parameter in self.target.parameters():
            parameter.requires_grad = False

    def forward(self, image: Tensor, audio: Tensor) -> Tensor:
        """The loss on pictures (B, 3, S, S) and spectrograms (B, 1, F, T)."""
        v_loc, v_avc, a_loc, a_avc = self.online(image, audio, self.dropout)
        with torch.no_grad():
            slow_v_loc, slow_v_avc, slow_a_loc, slow_a_avc = self.target(image, audio, self.dropout)
        hear = self.matched(slow_v_loc, slow_v_avc, a_loc, a_avc)
        see = self.matched(v_loc, v_avc, slow_a_loc, slow_a_avc)
        return hear + see

    def matched(self, v_loc: Tensor, v_avc: Tensor, a_loc: Tensor, a_avc: Tensor) -> Tensor:
        """Cross-entropy of each picture's own sound, from the probability that each sound comes from each place."""
        loc = torch.einsum("nchw,mc->nmhw", v_loc, a_loc).flatten(2) / self.temperature
        avc = torch.einsum("nchw,mc->nmhw", v_avc, a_avc).flatten(2) / self.temperature
        pairs = (torch.softmax(loc, dim=2) * torch.softmax(avc, dim=1)).sum(2)
        return F.cross_entropy(torch.log(pairs), torch.arange(len(pairs), device=pairs.device))

    def maps(self, image: Tensor, audio: Tensor) -> Tensor:
        """The slow copy's cosines (B, h, w), in the range -1 to 1."""
        v_loc, v_avc, a_loc, a_avc = self.target(image, audio, 0.0)
        loc = torch.einsum("nchw,nc->nhw", v_loc, a_loc)
        avc = torch.einsum("nchw,nc->nhw", v_avc, a_avc)
        return (loc + avc) / 2

    @torch.no_grad()
    def follow(self) -> None:
        """Let the slow copy follow, one parameter after the other."""
        for slow, online in zip(self.target.parameters(), self.online.parameters(), strict=True):
            slow.data = slow.data * self.momentum + online.data * (1 - self.momentum)


def make_optimizer(model: Slavc, lr: float = 1e-4) -> torch.optim.Adam:
    """Adam that goes through the parameters in a loop, as it did when the recipe was published."""
    return torch.optim.Adam(model.online.parameters(), lr, foreach=False, fused=False)


def step(model: Slavc, optimizer: torch.optim.Optimizer, image: Tensor, audio: Tensor) -> float:
    """One training step; the loss is read after each, to be shown."""
    loss = model(image, audio)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    model.follow()
    return float(loss.item())


@contextmanager
def torch_defaults() -> Iterator[None]:
    """What torch is set to when nobody asks for more, whatever the code measured beside this has asked for."""
    tuned, precision = torch.backends.cudnn.benchmark, torch.get_float32_matmul_precision()
    torch.backends.cudnn.benchmark = False
    torch.set_float32_matmul_precision("highest")
    try:
        yield
    finally:
        torch.backends.cudnn.benchmark = tuned
        torch.set_float32_matmul_precision(precision)
