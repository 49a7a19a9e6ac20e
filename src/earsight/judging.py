"""What a protocol makes of maps that are numpy arrays: masking.py's `predict` for whoever localizes. No torch here."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from earsight import ranks
from earsight.errors import UsageError
from earsight.levels import levels, need_finite, needed
from earsight.protocols import Protocol
from earsight.resampling import upsampled
from earsight.types import F32, Mask

Bounds = tuple[float, float] | None


@dataclass(frozen=True)
class Found:
    """A model's answers for B pairs, as `types.Maps` has them, in numpy.

    Args:
        dense: float32 (B, h, w), what gets thresholded unless a protocol says native.
        native: float32 (B, h, w), the map that the method's paper draws.
        bounds: lowest and highest value of `dense`, or None.
        native_bounds: likewise of `native`.
        confidence: float32 (B,), the method's own, or None.
    """

    dense: F32
    native: F32
    bounds: Bounds = None
    native_bounds: Bounds = None
    confidence: F32 | None = None

    def __len__(self) -> int:
        return len(self.dense)

    def one(self, i: int) -> Found:
        """The answer for one of the pairs, (1, h, w)."""
        own = None if self.confidence is None else self.confidence[i : i + 1]
        return Found(self.dense[i : i + 1], self.native[i : i + 1], self.bounds, self.native_bounds, own)


@dataclass(frozen=True)
class Judged:
    """Scores float32 (B, H, W), masks bool (B, H, W) and confidences float32 (B,), as masking.py defines them."""

    score: F32
    mask: Mask
    confidence: F32


def judged(found: Found, protocol: Protocol, size: tuple[int, int] | None = None) -> Judged:
    """Turn maps into scores, masks and confidences at `size` (H, W), by default the protocol's own.

    >>> maps = np.array([[[0.0, 1.0], [2.0, 3.0]]], np.float32)
    >>> out = judged(Found(maps, maps, bounds=(0.0, 4.0)), Protocol("tiny", size=2))
    >>> out.mask.tolist(), out.confidence.tolist()
    ([[[False, False], [True, True]]], [0.75])
    """
    native = protocol.map == "native"
    raw, bounds = (found.native, found.native_bounds) if native else (found.dense, found.bounds)
    need_finite((raw.min(axis=(1, 2)), raw.max(axis=(1, 2))))
    square = (protocol.size, protocol.size)
    score = _at(raw, bounds, protocol, size or square)
    flat = score.reshape(len(score), -1)
    ranked = ranks.Ranked(flat, cuts=needed([protocol], flat.shape[1])[0])
    mask: Mask = (flat >= levels(ranked, protocol)[:, None]).reshape(score.shape)
    if protocol.confidence == "native":
        return Judged(score, mask, _own(found))
    if protocol.confidence == "max":
        return Judged(score, mask, _scaled(raw.max(axis=(1, 2)), bounds))
    measured = score if score.shape[1:] == square else _at(raw, bounds, protocol, square)
    flat = measured.reshape(len(score), -1)
    if protocol.confidence == "peak":
        return Judged(score, mask, flat.max(axis=1))
    return Judged(score, mask, ranks.Ranked(flat, top=needed([protocol], flat.shape[1])[1]).top_mean)


def _at(raw: F32, bounds: Bounds, protocol: Protocol, size: tuple[int, int]) -> F32:
    """Maps (B, h, w) at a size, as shares of their bounds."""
    return _scaled(np.stack([upsampled(one, *size, protocol) for one in raw]), bounds)


def _scaled(values: F32, bounds: Bounds) -> F32:
    if bounds is None:
        return values
    shares: F32 = (values - np.float32(bounds[0])) / np.float32(bounds[1] - bounds[0])
    return shares


def _own(found: Found) -> F32:
    if found.confidence is None:
        raise UsageError(
            "Expected a method with a confidence of its own, but got maps without one. "
            "Use a protocol with confidence 'max' or 'top_quarter_mean'."
        )
    return found.confidence
