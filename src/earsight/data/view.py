"""How a picture becomes what a model sees: resized, cut to a square, perhaps mirrored."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np
import torch
from torch import Tensor
from torchvision.transforms.v2 import InterpolationMode
from torchvision.transforms.v2.functional import resize

from earsight.config import Inputs
from earsight.data.pictures import cut_and_resized
from earsight.types import U8


@dataclass(frozen=True)
class View:
    """What is seen of a picture that was resized to (height, width): the square at (left, top), perhaps mirrored."""

    height: int
    width: int
    left: int
    top: int
    side: int
    flip: bool

    @classmethod
    @cache
    def whole(cls, side: int) -> View:
        """All of the picture, squeezed into a square."""
        return cls(side, side, 0, 0, side, False)

    @classmethod
    def draw(cls, height: int, width: int, inputs: Inputs, random: np.random.Generator) -> View:
        """A training view of a picture of this size: a random part of it, once its shorter side has been resized."""
        scale, side = inputs.resize / min(height, width), inputs.image_size
        height, width = max(round(height * scale), inputs.resize), max(round(width * scale), inputs.resize)
        left, top = int(random.integers(width - side + 1)), int(random.integers(height - side + 1))
        return cls(height, width, left, top, side, bool(inputs.flip and random.integers(2)))

    @property
    def numbers(self) -> tuple[int, int, int, int, int]:
        """Height, width, left, top, and 1 where mirrored."""
        return self.height, self.width, self.left, self.top, int(self.flip)

    def apply(self, frame: U8) -> Tensor:
        """uint8 (3, H, W) -> uint8 (3, side, side)."""
        return cut_and_resized(frame, self.height, self.width, self.left, self.top, self.side, self.flip)


def resized(frame: U8, height: int, width: int) -> Tensor:
    """uint8 (3, H, W) -> uint8 (3, height, width), bicubic."""
    picture = torch.from_numpy(np.ascontiguousarray(frame))
    if picture.shape[1:] == (height, width):
        return picture
    out: Tensor = resize(picture, [height, width], InterpolationMode.BICUBIC, antialias=True)
    return out


def eval_picture(frame: U8, inputs: Inputs) -> Tensor:
    """What a model sees of a picture outside training."""
    return View.whole(inputs.image_size).apply(frame)
