"""Maps beside their ground truth where they were made, on a GPU: the numbers that looks.py finds on a CPU, to the bit.

Each map is sorted once, and its ground truth with it. Sums of the truth along that order say what lies inside any mask
"from this value upward". Sums of weights are exact in double precision, whatever their order. Only the mean of the
highest quarter is a rounded sum, which could differ in the last digit of single precision, in one map of very many.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from earsight.judging import Bounds
from earsight.looks import Look, Truth
from earsight.metrics.base import F64
from earsight.protocols import Protocol
from earsight.ranks import Around, Orders
from earsight.resampling import taps, upsampled
from earsight.types import F32, I64

PIXELS = 2**24
"""Most pixels that are sorted at a time; they take some 40 to 70 bytes each."""


def looks(
    grids: Tensor,
    bounds: Bounds,
    protocol: Protocol,
    cuts: Sequence[int],
    top: int,
    truths_at: Callable[[int], list[Truth]],
) -> Iterator[Look]:
    """Some of the maps (B, h, w) at a time, at the size of the protocol."""
    each, truths = max(1, PIXELS // protocol.size**2), truths_at(protocol.size)
    for i in range(0, len(grids), each):
        flat = scaled(enlarged(grids[i : i + each], protocol), bounds).flatten(1).contiguous()
        yield There(flat, cuts, top, truths[i : i + each])


def enlarged(grids: Tensor, protocol: Protocol) -> Tensor:
    """Maps (B, h, w) as `upsampled` enlarges them, bit for bit."""
    side = protocol.size
    if grids.shape[1:] == (side, side):
        return grids
    if max(grids.shape[1:]) > side:  # to make maps smaller is rare, and adds in another order
        return torch.from_numpy(upsampled(grids.cpu().numpy(), side, side, protocol)).to(grids.device)
    found = grids
    for dim in (2, 1):
        places, weights = _taps(grids.shape[dim], protocol, grids.device)
        made = None
        for at, weight in zip(places, weights if dim == 2 else weights[..., None], strict=True):
            one = found.index_select(dim, at) * weight  # two operations, so that each is rounded
            made = one if made is None else made.add_(one)
        found = made if made is not None else found
    return found


def _taps(count: int, protocol: Protocol, device: torch.device) -> tuple[Tensor, Tensor]:
    """`taps` on a device, (k, size) each."""
    return _taps_there(count, protocol.size, protocol.upsample, protocol.align_corners, device)


@lru_cache(maxsize=32)
def _taps_there(
    count: int, to: int, mode: Literal["bicubic", "bilinear"], align_corners: bool, device: torch.device
) -> tuple[Tensor, Tensor]:
    places, weights = (torch.from_numpy(x.T.copy()).to(device) for x in taps(count, to, mode, align_corners))
    return places, weights


def scaled(maps: Tensor, bounds: Bounds) -> Tensor:
    """Values as shares of their bounds, as numpy makes them."""
    if bounds is None:
        return maps
    # By a tensor, since torch multiplies a GPU's values with the inverse of a number, which rounds in another way.
    return (maps - bounds[0]) / maps.new_tensor(bounds[1] - bounds[0])


class There(Look):
    """Scores (B, n) of square maps on a device, row by row."""

    def __init__(self, flat: Tensor, cuts: Sequence[int], top: int, truths: Sequence[Truth]) -> None:
        self._ordered, place = flat.sort(dim=1)
        super().__init__(_Sorted(flat, self._ordered, cuts, top), truths)
        weight = drawn(truths, math.isqrt(flat.shape[1]), flat.device).flatten(1).gather(1, place)
        self._weight = weight.cumsum(1, dtype=torch.float64)
        whole = all(truth.consensus == 1 for truth in truths)
        self._covered = self._weight if whole else (weight > 0).cumsum(1, dtype=torch.float64)

    def inside(self, levels: F32) -> F64:
        below = torch.searchsorted(self._ordered, _sent(levels.T, self._ordered))
        last = (below - 1).clamp(min=0)

        def above(sums: Tensor) -> Tensor:
            return sums[:, -1:] - sums.gather(1, last) * (below > 0)

        total = (self._ordered.shape[1] - below).double()
        found: F64 = torch.stack((above(self._weight), above(self._covered), total)).cpu().numpy()
        return found.transpose(0, 2, 1)


class _Sorted(Orders):
    """The order of scores (B, n) that were sorted on a device."""

    def __init__(self, flat: Tensor, ordered: Tensor, cuts: Sequence[int], top: int) -> None:
        self._flat, self._ordered = flat, ordered
        n = flat.shape[1]
        at = torch.cat((ordered[:, list(cuts)], ordered[:, -1:]), 1)  # the highest as one of them
        first, behind = torch.searchsorted(ordered, at), torch.searchsorted(ordered, at, right=True)
        infinite = torch.full_like(at, torch.inf)
        below = torch.where(first > 0, ordered.gather(1, (first - 1).clamp(min=0)), -infinite)
        above = torch.where(behind < n, ordered.gather(1, behind.clamp(max=n - 1)), infinite)
        told = torch.stack([x.double() for x in (below, at, above, n - first, n - behind)])
        rest = torch.stack((ordered[:, 0].double(), ordered[:, n - top :].mean(1, dtype=torch.float64)))
        # All at once, since whoever asks a device waits for it.
        both: F64 = torch.cat((told.flatten(), rest.flatten())).cpu().numpy()
        values, (lowest, top_mean) = both[: told.numel()].reshape(told.shape), both[told.numel() :].reshape(2, -1)
        around = [
            Around(*(x.astype(np.float32) for x in one[:3]), *(x.astype(np.int64) for x in one[3:]))
            for one in values.transpose(2, 0, 1)
        ]
        super().__init__(
            (len(flat), n),
            dict(zip(cuts, around, strict=False)),
            lowest.astype(np.float32),
            around[-1].at,
            around[-1].from_at,
            top_mean.astype(np.float32),
        )

    def row(self, i: int) -> F32:
        found: F32 = self._flat[i].cpu().numpy()
        return found

    def statistics(self, index: I64) -> F32:
        found: F32 = self._ordered.gather(1, _sent(index[:, None], self._ordered))[:, 0].cpu().numpy()
        return found


def drawn(truths: Sequence[Truth], size: int, device: torch.device) -> Tensor:
    """The weights of ground truths, float32 (B, size, size), as `truth_map` has them."""
    most = max(len(truth.cells) for truth in truths)
    cells = np.zeros((len(truths), most, 4), np.int64)
    for mine, truth in zip(cells, truths, strict=True):
        mine[: len(truth.cells)] = truth.cells or 0
    x0, y0, x1, y1 = torch.from_numpy(cells).to(device)[..., None].unbind(2)  # (B, most, 1) each
    at = torch.arange(size, device=device)
    rows, columns = (at >= y0) & (at < y1), (at >= x0) & (at < x1)
    count = torch.zeros(len(truths), size, size, device=device)
    for k in range(most):
        count += rows[:, k, :, None] & columns[:, k, None, :]
    consensus = torch.tensor([truth.consensus for truth in truths], dtype=torch.float32).to(device)
    return (count / consensus[:, None, None]).clamp(max=1)


def _sent(values: F32 | I64, beside: Tensor) -> Tensor:
    return torch.from_numpy(np.ascontiguousarray(values)).to(beside.device)
