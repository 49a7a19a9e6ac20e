"""How a picture becomes what a model sees: resized, cut to a square, perhaps mirrored."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache

import numpy as np
import torch
from torch import Tensor
from torchvision.transforms.v2 import InterpolationMode
from torchvision.transforms.v2.functional import resize

from earsight.config import Inputs
from earsight.types import U8

REACH = 2
"""Pixels to each side that the bicubic filter sees; when it makes a picture smaller, as many times more."""


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

    def apply(self, frame: U8) -> Tensor:
        """uint8 (3, H, W) -> uint8 (3, side, side)."""
        return cut_and_resized(frame, self.height, self.width, self.left, self.top, self.side, self.flip)


def cut_and_resized(frame: U8, height: int, width: int, left: int, top: int, side: int, flip: bool = False) -> Tensor:
    """The square at (left, top) of a picture resized to (height, width), uint8 (3, H, W) -> uint8 (3, side, side).

    What torchvision's resize gives, cut and mirrored, to the level (of tiny pictures to one level); but only what lies
    above the square's lower edge and left of its right one is computed, and the colours of a pixel stay side by side in
    memory, as decoders leave them: that takes half the time.

    >>> tuple(cut_and_resized(np.zeros((3, 40, 60), np.uint8), 20, 30, 5, 2, 16).shape)
    (3, 16, 16)
    """
    pixels = frame.transpose(1, 2, 0)
    if not pixels.flags.c_contiguous:
        pixels = np.stack(list(frame), axis=-1)
    high, wide, _ = pixels.shape
    below, right = top + side, left + side
    picture = torch.from_numpy(pixels).unsqueeze(0).permute(0, 3, 1, 2)
    if (high, wide) != (height, width):
        scale = high / height
        needed = min(high, math.ceil(scale * below + REACH * max(scale, 1)) + 1)
        # A side that comes out as long as it goes in is left alone, whatever the scale: then one more is computed.
        rows = below + (below == needed and height != high)
        columns = right + (right == wide and width != wide)
        # What interpolate() calls; it takes a size or a scale, and the first part of a resized picture has both.
        picture = torch.ops.aten._upsample_bicubic2d_aa(
            picture[:, :, :needed], [rows, columns], False, height / high, width / wide
        )
    cut: Tensor = picture[0, :, top:below, left:right]
    return cut.flip(-1) if flip else cut


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
