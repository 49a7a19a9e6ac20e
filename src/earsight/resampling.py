"""Maps and pictures at other sizes, in numpy alone, with torch's arithmetic: for whoever localizes without torch."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Literal

import numpy as np
import numpy.typing as npt

from earsight.protocols import Protocol
from earsight.types import F32, U8

Ints = npt.NDArray[np.int32]
Reals = npt.NDArray[np.floating]
_TOGETHER = 4  # lines of a picture that are made at once
_MAPS, _PICTURES = -0.75, -0.5  # sharpness of torch's bicubic filters, without and with antialiasing


def interpolation(count: int, to: int, mode: Literal["bicubic", "bilinear"], align_corners: bool) -> F32:
    """The matrix (to, count) by which torch's `interpolate` makes `to` values of `count`.

    >>> interpolation(2, 4, "bilinear", False).tolist()
    [[1.0, 0.0], [0.75, 0.25], [0.25, 0.75], [0.0, 1.0]]
    """
    f = np.float32
    if count == to:
        return np.eye(count, dtype=f)
    at = np.arange(to, dtype=f)
    if align_corners:
        place = at * (f(count - 1) / f(to - 1) if to > 1 else f(0))
    else:
        place = (at + f(0.5)) * (f(count) / f(to)) - f(0.5)
    if mode == "bilinear":
        place = np.maximum(place, f(0))
    first = np.floor(place).astype(np.int64)
    t = place - first.astype(f)
    if mode == "bilinear":
        taps = {0: 1 - t, 1: t}
    else:
        taps = {-1: _outer(t + 1, _MAPS), 0: _inner(t, _MAPS), 1: _inner(1 - t, _MAPS), 2: _outer(2 - t, _MAPS)}
    matrix = np.zeros((to, count), f)
    for step, weight in taps.items():
        np.add.at(matrix, (np.arange(to), np.clip(first + step, 0, count - 1)), weight.astype(f))
    return matrix


def upsampled(score: F32, height: int, width: int, protocol: Protocol) -> F32:
    """A map (h, w) at a size (height, width), as the protocol upsamples.

    Upsampling is linear and treats rows and columns alike, and of few old values each: that is many times faster than
    interpolating every pixel. It is no matrix product, because the threads that numpy starts for one keep a core busy
    long after it is done.
    """
    rows = _stretched(np.ascontiguousarray(score.T), width, protocol)
    return _stretched(np.ascontiguousarray(rows.T), height, protocol)


def _stretched(score: F32, to: int, protocol: Protocol) -> F32:
    """(n, w) -> (to, w)."""
    (first, weight), *others = _taps(len(score), to, protocol)
    out: F32 = score.take(first, axis=0)
    out *= weight
    for other, weight in others:
        more = score.take(other, axis=0)
        more *= weight
        out += more
    return out


@lru_cache(maxsize=32)
def _taps(count: int, to: int, protocol: Protocol) -> list[tuple[npt.NDArray[np.intp], F32]]:
    """Which old values (to,) each new one is made of, and their weights (to, 1), once for each that it may need."""
    matrix = interpolation(count, to, protocol.upsample, protocol.align_corners)
    most = max(1, int((matrix != 0).sum(axis=1).max()))
    order = np.argsort(-np.abs(matrix), axis=1, kind="stable")[:, :most]
    weights = np.take_along_axis(matrix, order, axis=1)
    return [(np.ascontiguousarray(order[:, k]), np.ascontiguousarray(weights[:, k, None])) for k in range(most)]


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
def _antialiased(count: int, to: int) -> tuple[npt.NDArray[np.int64], Ints, int]:
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
