"""What a protocol makes of maps: scores, masks and confidences. Each map is treated alone. No torch is needed here.

`judged` takes numpy arrays, for whoever localizes; `masking.predict` does the same with torch's maps.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

import numpy as np
import numpy.typing as npt

from earsight import ranks
from earsight.config import need
from earsight.errors import UsageError
from earsight.levels import levels, need_finite, needed
from earsight.protocols import Protocol
from earsight.resampling import upsampled
from earsight.types import F32, I64, Mask

if TYPE_CHECKING:
    from torch import Tensor

Bounds = tuple[float, float] | None
Size = tuple[int, int]
T = TypeVar("T")
Values = TypeVar("Values", F32, "Tensor")


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
    """What a protocol makes of B maps.

    Args:
        score: float32 (B, H, W), (map - low) / (high - low), not clipped; the raw map when it has no bounds.
        mask: bool (B, H, W), the pixels that the protocol keeps.
        confidence: float32 (B,), the same whatever size was asked for.
    """

    score: F32
    mask: Mask
    confidence: F32


def pairs(pictures: int, sounds: int, picture: npt.ArrayLike | None, sound: npt.ArrayLike | None) -> tuple[I64, I64]:
    """Which of so many pictures and sounds each pair has, int64 (B,) and (B,): as said, or each with its own.

    >>> pairs(2, 2, None, None), pairs(1, 2, [0, 0], [0, 1])
    ((array([0, 1]), array([0, 1])), (array([0, 0]), array([0, 1])))
    """
    if picture is None or sound is None:
        need(pictures == sounds, "as many sounds as pictures", f"{sounds} for {pictures}",
             "Say which goes with which: picture=..., sound=...")  # fmt: skip
        picture = sound = np.arange(pictures)
    seen, heard = np.asarray(picture, np.int64), np.asarray(sound, np.int64)
    need(seen.shape == heard.shape, "a picture and a sound for each pair", [seen.shape, heard.shape])
    return seen, heard


def judged(found: Found, protocol: Protocol, size: Size | None = None) -> Judged:
    """Turn maps into scores, masks and confidences at `size` (H, W), by default the protocol's own.

    The confidence always comes from the protocol's own size, so that a threshold calibrated there holds for pictures of
    any size. The policy `adaptive` needs a ground truth, which only `scoring.score` has.

    >>> maps = np.array([[[0.0, 1.0], [2.0, 3.0]]], np.float32)
    >>> out = judged(Found(maps, maps, bounds=(0.0, 4.0)), Protocol("tiny", size=2))
    >>> out.mask.tolist(), out.confidence.tolist()
    ([[[False, False], [True, True]]], [0.75])
    """
    native = protocol.map == "native"
    raw, bounds = (found.native, found.native_bounds) if native else (found.dense, found.bounds)

    def at(size: Size) -> F32:
        return scaled(upsampled(raw, *size, protocol), bounds)

    highest: F32 = raw.max(axis=(1, 2))
    need_finite((raw.min(axis=(1, 2)), highest))
    square = (protocol.size, protocol.size)
    score = at(size or square)
    flat = score.reshape(len(score), -1)
    ranked = ranks.Ranked(flat, cuts=needed([protocol], flat.shape[1])[0])
    mask: Mask = (flat >= levels(ranked, protocol)[:, None]).reshape(score.shape)
    if protocol.confidence == "native":
        return Judged(score, mask, need_own(found.confidence))
    if protocol.confidence == "max":
        return Judged(score, mask, scaled(highest, bounds))
    measured = score if score.shape[1:] == square else at(square)
    flat = measured.reshape(len(score), -1)
    if protocol.confidence == "peak":
        return Judged(score, mask, flat.max(axis=1))
    return Judged(score, mask, ranks.Ranked(flat, top=needed([protocol], flat.shape[1])[1]).top_mean)


def scaled(values: Values, bounds: Bounds) -> Values:
    """Values as shares of their bounds.

    >>> scaled(np.array([1.0, 4.0], np.float32), (0.0, 4.0)).tolist()
    [0.25, 1.0]
    """
    return values if bounds is None else (values - bounds[0]) / (bounds[1] - bounds[0])


def need_own(confidence: T | None) -> T:
    """A method's own confidence; refused where it has none."""
    if confidence is None:
        raise UsageError(
            "Expected a method with a confidence of its own, but got maps without one. "
            "Use a protocol with confidence 'max' or 'top_quarter_mean'."
        )
    return confidence
