"""GPU kernels of encoders/stem_ops.py. Pictures lie channels-last: (batch, height, width, channels)."""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def moments(x, means, spreads, counts, places, share, channels: tl.constexpr, block: tl.constexpr):
    """Mean and sum of squared distances from it, over a program's share of the places."""
    program = tl.program_id(0)
    channel = tl.arange(0, channels)
    first = program * share
    last = tl.minimum(first + share, places)
    mean = tl.zeros((channels,), tl.float32)
    spread = tl.zeros((channels,), tl.float32)
    count = 0.0
    for begin in range(first, last, block):
        place = begin + tl.arange(0, block)
        here = (place < last)[:, None]
        value = tl.load(x + place[:, None].to(tl.int64) * channels + channel[None, :], here, 0.0).to(tl.float32)
        n = tl.minimum(last - begin, block).to(tl.float32)
        own = tl.sum(value, 0) / n
        apart = tl.where(here, value - own[None, :], 0.0)
        away = own - mean
        whole = count + n
        spread += tl.sum(apart * apart, 0) + away * away * (count * n / whole)
        mean += away * (n / whole)
        count = whole
    tl.store(means + program * channels + channel, mean)
    tl.store(spreads + program * channels + channel, spread)
    tl.store(counts + program, count)


@triton.jit
def joined_moments(
    means, spreads, counts, mean, var, programs, places, channels: tl.constexpr, some: tl.constexpr, block: tl.constexpr
):
    """The moments of all places from those of the shares, for some of the channels."""
    channel = tl.program_id(0) * some + tl.arange(0, some)
    total = tl.zeros((some,), tl.float32)
    for begin in range(0, programs, block):
        one = begin + tl.arange(0, block)
        n = tl.load(counts + one, one < programs, 0.0)[:, None]
        at = one[:, None] * channels + channel[None, :]
        total += tl.sum(tl.load(means + at, (one < programs)[:, None], 0.0) * n, 0)
    middle = total / places
    spread = tl.zeros((some,), tl.float32)
    for begin in range(0, programs, block):
        one = begin + tl.arange(0, block)
        there = (one < programs)[:, None]
        n = tl.load(counts + one, one < programs, 0.0)[:, None]
        at = one[:, None] * channels + channel[None, :]
        away = tl.load(means + at, there, 0.0) - middle[None, :]
        spread += tl.sum(tl.load(spreads + at, there, 0.0) + away * away * n, 0)
    tl.store(mean + channel, middle)
    tl.store(var + channel, spread / places)


@triton.jit
def pool(
    x, mean, var, weight, bias, y, winner, top, high, wide, rows, columns, eps, channels: tl.constexpr,
    block: tl.constexpr,
):  # fmt: skip
    """Normalise nine places, keep the largest, and remember which it was (9 where none is above zero) and its x."""
    line = tl.program_id(0)
    picture, row = line // rows, line % rows
    column = tl.program_id(1) * block + tl.arange(0, block)
    channel = tl.arange(0, channels)
    scale = tl.load(weight + channel) * tl.rsqrt(tl.load(var + channel) + eps)
    shift = tl.load(bias + channel) - tl.load(mean + channel) * scale
    best = tl.full((block, channels), float("-inf"), tl.float32)
    raw = tl.zeros((block, channels), tl.float32)
    which = tl.zeros((block, channels), tl.int32)
    for i in tl.static_range(3):
        up = 2 * row + i - 1
        for j in tl.static_range(3):
            left = 2 * column + j - 1
            here = ((up >= 0) & (up < high) & (left >= 0) & (left < wide) & (column < columns))[:, None]
            at = ((picture * high + up).to(tl.int64) * wide + left)[:, None] * channels + channel[None, :]
            value = tl.load(x + at, here, 0.0).to(tl.float32)
            normal = tl.where(here, value * scale[None, :] + shift[None, :], float("-inf"))
            better = (normal > best) | (normal != normal)  # what is no number is not hidden
            best = tl.where(better, normal, best)
            raw = tl.where(better, value, raw)
            which = tl.where(better, 3 * i + j, which)
    there = (column < columns)[:, None]
    out = (line.to(tl.int64) * columns + column)[:, None] * channels + channel[None, :]
    tl.store(y + out, tl.where(best <= 0, 0.0, best).to(y.dtype.element_ty), there)
    tl.store(winner + out, tl.where(best > 0, which, 9).to(tl.uint8), there)
    tl.store(top + out, raw.to(top.dtype.element_ty), there)


@triton.jit
def gradient_sums(
    grad, winner, top, mean, var, plain, weighted, places, share, eps, channels: tl.constexpr, block: tl.constexpr
):
    """Sums of the gradient, and of gradient times normalised value, over a program's share of the pooled places."""
    program = tl.program_id(0)
    channel = tl.arange(0, channels)
    middle = tl.load(mean + channel)[None, :]
    rstd = tl.rsqrt(tl.load(var + channel) + eps)[None, :]
    one = tl.zeros((channels,), tl.float32)
    two = tl.zeros((channels,), tl.float32)
    last = tl.minimum(program * share + share, places)
    for begin in range(program * share, last, block):
        place = begin + tl.arange(0, block)
        here = (place < last)[:, None]
        at = place[:, None].to(tl.int64) * channels + channel[None, :]
        won = tl.load(winner + at, here, 9) < 9
        g = tl.where(won, tl.load(grad + at, here, 0.0).to(tl.float32), 0.0)
        one += tl.sum(g, 0)
        two += tl.sum(g * (tl.load(top + at, here, 0.0).to(tl.float32) - middle) * rstd, 0)
    tl.store(plain + program * channels + channel, one)
    tl.store(weighted + program * channels + channel, two)


@triton.jit
def gradient(
    x, grad, winner, mean, var, weight, plain, weighted, dx, high, wide, rows, columns, count, eps,
    channels: tl.constexpr, block: tl.constexpr,
):  # fmt: skip
    """The gradient at every place: from the windows in which it won, through ReLU and batch norm."""
    line = tl.program_id(0)
    picture, up = line // high, line % high
    left = tl.program_id(1) * block + tl.arange(0, block)
    channel = tl.arange(0, channels)
    back = tl.zeros((block, channels), tl.float32)
    for a in tl.static_range(2):
        row = (up + a) // 2  # an even row is in one window, an odd one in two
        row_there = (row < rows) & ((a == 0) | (up % 2 == 1))
        for b in tl.static_range(2):
            column = (left + b) // 2
            there = (row_there & (column < columns) & ((b == 0) | (left % 2 == 1)))[:, None]
            place = (3 * (up - 2 * row + 1) + left - 2 * column + 1)[:, None]
            at = ((picture * rows + row).to(tl.int64) * columns + column)[:, None] * channels + channel[None, :]
            won = tl.load(winner + at, there, 9).to(tl.int32) == place
            back += tl.where(won, tl.load(grad + at, there, 0.0).to(tl.float32), 0.0)
    here = (left < wide)[:, None]
    at = (line.to(tl.int64) * wide + left)[:, None] * channels + channel[None, :]
    rstd = tl.rsqrt(tl.load(var + channel) + eps)
    normal = (tl.load(x + at, here, 0.0).to(tl.float32) - tl.load(mean + channel)[None, :]) * rstd[None, :]
    rest = (tl.load(plain + channel)[None, :] + normal * tl.load(weighted + channel)[None, :]) / count
    scale = (tl.load(weight + channel) * rstd)[None, :]
    tl.store(dx + at, (scale * (back - rest)).to(dx.dtype.element_ty), here)
