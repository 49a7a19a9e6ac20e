"""A GPU kernel that resizes, cuts and mirrors all pictures of a batch at once, each with its own size and view.

It does what data/pictures.py does with one picture: bicubic with antialiasing, along the rows first, then along the
columns, whole levels between.
"""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def cubic(x):
    """The bicubic filter with a = -1/2."""
    x = tl.abs(x)
    near = (1.5 * x - 2.5) * x * x + 1
    far = ((-0.5 * x + 2.5) * x - 4) * x + 2
    return tl.where(x < 1, near, tl.where(x < 2, far, 0.0))


@triton.jit
def level(x):
    """The nearest whole level."""
    return tl.floor(tl.minimum(tl.maximum(x, 0.0), 255.0) + 0.5)


@triton.jit
def see(pictures, sizes, views, out, side, lines: tl.constexpr, block: tl.constexpr):
    """Some rows of what is seen of one picture, `lines` of them: rows beside each other are made of the same pixels,
    whose own rows are filtered once for all.

    Args:
        pictures: int64 (B, 4), addresses of uint8 pictures; bytes from a colour to the next, from a pixel to the next
            in its row, and from a row to the next.
        sizes: int64 (B, 2), height and width.
        views: int64 (B, 5), height and width that each is resized to, left and top of the square, 1 where mirrored.
        out: uint8 (B, 3, side, side).
    """
    groups = tl.cdiv(side, lines)
    picture, row = tl.program_id(0) // groups, tl.program_id(0) % groups * lines + tl.arange(0, lines)
    data = tl.load(pictures + 4 * picture).to(tl.pointer_type(tl.uint8))
    next_colour, next_pixel = tl.load(pictures + 4 * picture + 1), tl.load(pictures + 4 * picture + 2)
    next_row = tl.load(pictures + 4 * picture + 3)
    high, wide = tl.load(sizes + 2 * picture).to(tl.int32), tl.load(sizes + 2 * picture + 1).to(tl.int32)
    view = views + 5 * picture
    left, top, flip = tl.load(view + 2), tl.load(view + 3), tl.load(view + 4)

    # What each row and each column see: pixels from `first` on, at distances from `middle` over `stretch`.
    scale = high.to(tl.float32) / tl.load(view).to(tl.float32)
    stretch = tl.maximum(scale, 1.0)
    # Rows below the square are not stored, and read what its last one reads: a picture may end there.
    middle = (top + tl.minimum(row, side - 1)).to(tl.float32) * scale + 0.5 * scale
    first = tl.maximum((middle - 2 * stretch + 0.5).to(tl.int32), 0)
    last = tl.minimum((middle + 2 * stretch + 0.5).to(tl.int32), high)

    at = tl.arange(0, block)
    column = (left + tl.where(flip > 0, side - 1 - at, at)).to(tl.float32)
    scale = wide.to(tl.float32) / tl.load(view + 1).to(tl.float32)
    stretch_x = tl.maximum(scale, 1.0)
    middle_x = column * scale + 0.5 * scale
    first_x = tl.maximum((middle_x - 2 * stretch_x + 0.5).to(tl.int32), 0)
    taps = (4 * stretch_x + 2).to(tl.int32)

    total_x = tl.zeros((block,), tl.float32)
    for tap in range(taps):
        pixel = first_x + tap
        weight = cubic((pixel.to(tl.float32) + 0.5 - middle_x) / stretch_x)
        total_x += tl.where(pixel < wide, weight, 0.0)

    total = tl.zeros((lines,), tl.float32)
    red = tl.zeros((lines, block), tl.float32)
    green = tl.zeros((lines, block), tl.float32)
    blue = tl.zeros((lines, block), tl.float32)
    for up in range(tl.min(first), tl.max(last)):
        line = data + up * next_row
        r = tl.zeros((block,), tl.float32)
        g = tl.zeros((block,), tl.float32)
        b = tl.zeros((block,), tl.float32)
        for tap in range(taps):
            pixel = first_x + tap
            here = (pixel < wide) & (at < side)
            weight = cubic((pixel.to(tl.float32) + 0.5 - middle_x) / stretch_x)
            place = line + pixel * next_pixel
            r += weight * tl.load(place, here, 0).to(tl.float32)
            g += weight * tl.load(place + next_colour, here, 0).to(tl.float32)
            b += weight * tl.load(place + 2 * next_colour, here, 0).to(tl.float32)
        share = tl.where((up >= first) & (up < last), cubic((up + 0.5 - middle) / stretch), 0.0)
        total += share
        red += share[:, None] * level(r / total_x)[None, :]
        green += share[:, None] * level(g / total_x)[None, :]
        blue += share[:, None] * level(b / total_x)[None, :]

    place = out + (picture * 3).to(tl.int64) * side * side + row[:, None] * side + at[None, :]
    seen = (row < side)[:, None] & (at < side)[None, :]
    tl.store(place, level(red / total[:, None]).to(tl.uint8), seen)
    tl.store(place + side * side, level(green / total[:, None]).to(tl.uint8), seen)
    tl.store(place + 2 * side * side, level(blue / total[:, None]).to(tl.uint8), seen)
