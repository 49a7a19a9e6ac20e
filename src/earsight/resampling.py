"""Maps and pictures at other sizes and scales, in numpy alone, with torch's arithmetic."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import TYPE_CHECKING, Literal, TypeVar

import numpy as np
import numpy.typing as npt

from earsight.protocols import Protocol
from earsight.types import F32, I64, U8, Bounds

if TYPE_CHECKING:
    from torch import Tensor

Values = TypeVar("Values", F32, "Tensor")
Ints = npt.NDArray[np.int32]
Reals = npt.NDArray[np.floating]
_Band = tuple[slice, slice, F32]  # new values (n), old values (m) that they are made of, and the weights (n, m)
_TOGETHER = 4  # lines of a picture that are made at once
_OLD = 5  # old values that a band is made of at most, where it has more than one new value
_MAPS, _PICTURES = -0.75, -0.5  # sharpness of torch's bicubic filters, without and with antialiasing


def upsampled(maps: F32, height: int, width: int, protocol: Protocol, out: F32 | None = None) -> F32:
    """Maps (..., h, w) at a size (..., height, width), as the protocol upsamples; in `out` where that is given.

    The weights are those of torch's `interpolate`. Rows and columns are treated alike, which is many times faster than
    interpolating every pixel, in few and long calls. No BLAS is asked, whose sums depend on the processor and whose
    threads keep a core busy long after they are done.

    >>> upsampled(np.array([[0.0, 4.0]], np.float32), 1, 4, Protocol("wide", upsample="bilinear")).tolist()
    [[0.0, 1.0, 3.0, 4.0]]
    """
    if out is None:
        out = np.empty((*maps.shape[:-2], height, width), np.float32)
    if maps.shape == out.shape:
        out[:] = maps
        return out
    flat, large = maps.reshape(-1, *maps.shape[-2:]), out.reshape(-1, height, width)
    wide: F32 = np.empty((len(flat), maps.shape[-2], width), np.float32)
    with np.errstate(invalid="ignore", over="ignore"):  # what is not finite, others refuse
        for new, old, weights in _bands(maps.shape[-1], width, protocol.upsample, protocol.align_corners):
            np.einsum("bij,jx->bix", flat[:, :, old], np.ascontiguousarray(weights.T), out=wide[:, :, new])
        for new, old, weights in _bands(maps.shape[-2], height, protocol.upsample, protocol.align_corners):
            np.einsum("yi,bix->byx", weights, wide[:, old], out=large[:, new])
    return out


@lru_cache(maxsize=32)
def _bands(count: int, to: int, mode: Literal["bicubic", "bilinear"], align_corners: bool) -> list[_Band]:
    """How torch's `interpolate` makes `to` values of `count`, in bands that are made of a few old ones each."""
    f = np.float32
    at = np.arange(to, dtype=f)
    if align_corners:
        place = at * (f(count - 1) / f(to - 1) if to > 1 else f(0))
    else:
        place = _fused(at + f(0.5), f(count) / f(to), -0.5)
    if mode == "bilinear":
        place = np.maximum(place, f(0))
    first = np.floor(place).astype(np.int64)
    t = place - first.astype(f)
    taps = {0: 1 - t, 1: t}
    if mode == "bicubic":
        a = _MAPS
        inner = [_fused(_fused(a + 2, x, -a - 3) * x, x, 1) for x in (t, 1 - t)]
        outer = [_fused(_fused(_fused(a, x, -5 * a), x, 8 * a), x, -4 * a) for x in (t + 1, 1 - t + 1)]
        taps = {-1: outer[0], 0: inner[0], 1: inner[1], 2: outer[1]}
    places = {step: np.clip(first + step, 0, count - 1) for step in taps}
    weights: F32 = np.zeros((to, count), f)
    for step, weight in taps.items():
        np.add.at(weights, (np.arange(to), places[step]), weight)
    lowest, highest = places[min(taps)], places[max(taps)]
    bands, begin = [], 0
    while begin < to:
        # Many old values for many new ones would be mostly zeros; few new ones at a time would be many calls.
        end = max(begin + 1, int(np.searchsorted(highest, lowest[begin] + _OLD, side="left")))
        old = slice(int(lowest[begin]), int(highest[end - 1]) + 1)
        bands.append((slice(begin, end), old, np.ascontiguousarray(weights[begin:end, old])))
        begin = end
    return bands


def _fused(value: F32 | float, factor: F32 | np.float32, more: float) -> F32:
    """value * factor + more, rounded once at the end, as a processor does it in one step."""
    return (np.asarray(value, np.float64) * factor + more).astype(np.float32)


def scaled(values: Values, bounds: Bounds, out: F32 | None = None) -> Values:
    """Values as shares of their bounds, not clipped; as they are when there are none. Arrays may go to `out`.

    >>> scaled(np.array([1.0, 4.0], np.float32), (0.0, 4.0)).tolist()
    [0.25, 1.0]
    """
    if bounds is None:
        return values
    low, high = bounds
    if out is None:
        return (values - low) / (high - low)
    np.subtract(values, np.float32(low), out=out)
    return np.divide(out, np.float32(high - low), out=out)  # type: ignore[return-value]  # arrays have arrays for out


def centre_disc(size: int) -> F32:
    """The map of the centre prior (size, size): from 1 at the pixel (size/2, size/2) to 0 in the farthest corner.

    NOTE: the paper says nothing about its shape. A disc around the pixel (112, 112) of 224 gives its LocAcc of 34.16 on
    VGG-SS; around (111.5, 111.5), the picture's middle, it would be 34.02, and a square would give 31.8.

    >>> [round(value, 2) for value in centre_disc(4)[2].tolist()]
    [0.29, 0.65, 1.0, 0.65]
    """
    at = np.arange(size, dtype=np.float32) - np.float32(size / 2)
    distance = np.hypot(at[:, None], at)
    disc: F32 = np.float32(1) - distance / distance.max()
    return disc


def squeezed(frame: U8, side: int) -> U8:
    """All of a picture (3, H, W) as a square (3, side, side): level for level what data/view.py's `eval_picture` gives.

    Along the rows first, then along the columns, with whole levels between and weights that are rounded to 16 bits.
    """
    _, height, width = frame.shape
    out = frame
    if width != side:
        columns = np.ascontiguousarray(out.transpose(2, 1, 0)).reshape(width, -1)
        out = _resized(columns, side).reshape(side, height, 3).transpose(2, 1, 0)
    if height != side:
        rows = np.ascontiguousarray(out.transpose(1, 2, 0)).reshape(height, -1)
        out = _resized(rows, side).reshape(side, side, 3).transpose(2, 0, 1)
    return np.ascontiguousarray(out)


def _resized(lines: U8, to: int) -> U8:
    """(n, w) -> (to, w)."""
    first, weights, bits = _antialiased(len(lines), to)
    taps = weights.shape[1]
    out = np.empty((to, lines.shape[1]), np.uint8)
    for at in range(0, to, _TOGETHER):
        begins = first[at : at + _TOGETHER] - first[at]
        # Filters that overlap are one matrix, and their lines are made whole numbers once, near the cache.
        matrix = np.zeros((len(begins), int(begins[-1]) + taps), np.int32)
        for row, begin, weight in zip(matrix, begins, weights[at : at + _TOGETHER], strict=True):
            row[begin : begin + taps] = weight
        near = lines[first[at] : first[at] + matrix.shape[1]].astype(np.int32)
        total = np.einsum("ij,jk->ik", matrix[:, : len(near)], near)  # no BLAS, whose threads stay awake for long
        total += 1 << (bits - 1)
        total >>= bits
        out[at : at + _TOGETHER] = np.clip(total, 0, 255, out=total)
    return out


@lru_cache(maxsize=16)
def _antialiased(count: int, to: int) -> tuple[I64, Ints, int]:
    """Where each new line's filter begins (to,), its weights (to, taps) as whole numbers, and how many bits make 1."""
    scale = count / to
    wide = max(scale, 1.0)
    centre = scale * (np.arange(to) + 0.5)
    first = np.maximum((centre - 2 * wide + 0.5).astype(np.int64), 0)
    behind = np.minimum((centre + 2 * wide + 0.5).astype(np.int64), count)
    taps = math.ceil(2 * wide) * 2 + 1
    place = first[:, None] + np.arange(taps)
    x = np.abs((place - centre[:, None] + 0.5) / wide)
    weight = np.where(x < 1, _inner(x, _PICTURES), np.where(x < 2, _outer(x, _PICTURES), 0.0))
    weight = np.where(place < behind[:, None], weight, 0.0)
    weight /= weight.sum(1, keepdims=True)
    bits = 0
    while bits < 22 and int(0.5 + weight.max() * (1 << (bits + 1))) < 1 << 15:
        bits += 1
    whole = np.trunc(weight * (1 << bits) + np.copysign(0.5, weight)).astype(np.int32)
    return first, whole[:, : int((behind - first).max())], bits


def _inner(x: Reals, a: float) -> Reals:
    """The bicubic filter within a pixel of its middle."""
    value: Reals = ((a + 2) * x - (a + 3)) * x * x + 1
    return value


def _outer(x: Reals, a: float) -> Reals:
    """The bicubic filter between one pixel and two."""
    value: Reals = ((a * x - 5 * a) * x + 8 * a) * x - 4 * a
    return value
