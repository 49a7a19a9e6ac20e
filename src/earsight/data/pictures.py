"""Pictures resized, cut and mirrored in one go: one at a time on a CPU, many at once on a GPU.

Both resize as torchvision does with antialiasing: along the rows first, then along the columns, whole levels between.
"""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor

from earsight.types import U8

REACH = 2
"""Pixels to each side that the bicubic filter sees; when it makes a picture smaller, as many times more."""

LINES = 8
"""Rows of a picture that a GPU makes at a time."""


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


def needed(size: int, resized: int, begin: int, side: int) -> tuple[int, int]:
    """Of a row or column of `size` pixels, the part (from, to) that is looked at for what is seen of it: `side` pixels
    from `begin` on once it is `resized`. A little more than the filter reaches, because kernels read on to its right.

    >>> needed(256, 246, 10, 224), needed(400, 800, 0, 300)
    ((5, 249), (0, 155))
    """
    scale = size / resized
    reach = REACH * max(scale, 1) + 3
    return max(0, math.floor(scale * begin - reach)), min(size, math.ceil(scale * (begin + side) + reach))


def places_of(pictures: list[Tensor]) -> Tensor:
    """Where pictures lie on a GPU, as `cut_pictures` asks for it."""
    return torch.tensor([(one.data_ptr(), one.stride(0), one.stride(2), one.stride(1)) for one in pictures])


def cut_pictures(places: Tensor, sizes: Tensor, views: Tensor, side: int, device: torch.device) -> Tensor:
    """The same of many pictures on a GPU by one kernel: between the large kernels of a training step, every small one
    has to wait its turn. Nothing waits for the device.

    Args:
        places: int64 (B, 4), where the first byte of each picture lies on the device, or would lie if all of it were
            there, and how many bytes lie between its colours, its pixels and its rows: the colours of a picture may be
            apart, as a GPU decodes them, or side by side, as a CPU does.
        sizes: int64 (B, 2), their heights and widths.
        views: int64 (B, 5), height and width that each is resized to, left and top of the square, 1 where mirrored.
        side: of the square.
        device: the GPU.

    Returns:
        uint8 (B, 3, side, side), at most 2 levels from what `cut_and_resized` gives, whose weights are rounded.
    """
    from earsight.data import picture_kernels  # which needs a GPU's compiler

    out = torch.empty((len(places), 3, side, side), dtype=torch.uint8, device=device)
    if device.type == "cuda":
        places = places.pin_memory()
    given = [x.to(device, non_blocking=True) for x in (places, sizes, views)]
    programs = len(places) * -(-side // LINES)
    picture_kernels.see[(programs,)](*given, out, side, LINES, 1 << (side - 1).bit_length())
    return out
