"""What a protocol makes of maps: scores, masks and confidences. Each map is treated alone. No torch is needed here."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from earsight.config import need
from earsight.errors import UsageError
from earsight.protocols import Protocol
from earsight.resampling import scaled, upsampled
from earsight.thresholds import OrderStatistics, need_finite, needed, rank, thresholds
from earsight.types import F32, I64, MapArrays, Maps, Mask

T = TypeVar("T")


@dataclass(frozen=True)
class Prediction:
    """What a protocol makes of B maps.

    Args:
        score: float32 (B, H, W), (map - low) / (high - low), not clipped; the raw map when it has no bounds.
        mask: bool (B, H, W), the pixels that the protocol keeps.
        confidence: float32 (B,), the same whatever size was asked for.
    """

    score: F32
    mask: Mask
    confidence: F32


def predict(maps: Maps | MapArrays, protocol: Protocol, size: tuple[int, int] | None = None) -> Prediction:
    """Turn maps into scores, masks and confidences at `size` (H, W), by default the protocol's own.

    The confidence always comes from the protocol's own size, so that a threshold calibrated there holds for pictures of
    any size. The policy `adaptive` needs a ground truth, which only `scoring.score` has.

    >>> maps = np.array([[[0.0, 1.0], [2.0, 3.0]]], np.float32)
    >>> out = predict(MapArrays(maps, maps, bounds=(0.0, 4.0)), Protocol("tiny", size=2))
    >>> out.mask.tolist(), out.confidence.tolist()
    ([[[False, False], [True, True]]], [0.75])
    """
    maps = maps.arrays()
    raw, bounds = maps.which(protocol.map)
    need_finite(raw.min(axis=(1, 2)), raw.max(axis=(1, 2)))
    square = (protocol.size, protocol.size)

    def ranked_at(size: tuple[int, int]) -> tuple[F32, OrderStatistics]:
        score = scaled(upsampled(raw, *size, protocol), bounds)
        flat = score.reshape(len(score), -1)
        cuts, top = needed([protocol], flat.shape[1])
        return score, rank(flat, cuts=cuts, top=top if size == square else 0)

    score, ranked = ranked_at(size or square)
    mask: Mask = score >= thresholds(ranked, protocol)[:, None, None]
    if score.shape[1:] != square and protocol.confidence in ("peak", "top_quarter_mean"):
        ranked = ranked_at(square)[1]
    return Prediction(score, mask, confidences(maps, protocol, ranked))


def confidences(maps: MapArrays, protocol: Protocol, ranked: OrderStatistics) -> F32:
    """How sure a source is visible in each map, (B,); `ranked` are the scores at the protocol's size.

    For `max` and `native`, that may be any size.
    """
    raw, bounds = maps.which(protocol.map)
    if protocol.confidence == "native":
        return need_own(maps.confidence)
    if protocol.confidence == "max":
        return scaled(raw.max(axis=(1, 2)), bounds)
    return ranked.highest if protocol.confidence == "peak" else ranked.top_mean


def need_own(confidence: T | None) -> T:
    """A method's own confidence; refused where it has none."""
    if confidence is None:
        raise UsageError(
            "Expected a method with a confidence of its own, but got maps without one. "
            "Use a protocol with confidence 'max' or 'top_quarter_mean'."
        )
    return confidence


def pairs(pictures: int, sounds: int, picture: npt.ArrayLike | None, sound: npt.ArrayLike | None) -> tuple[I64, I64]:
    """Which of so many pictures and sounds each pair has, int64 (B,) and (B,): as said, or each with its own.

    >>> pairs(2, 2, None, None), pairs(1, 2, [0, 0], [0, 1])
    ((array([0, 1]), array([0, 1])), (array([0, 0]), array([0, 1])))
    """
    if picture is None or sound is None:
        sizes, do = f"{sounds} for {pictures}", "Say which goes with which: picture=..., sound=..."
        need(pictures == sounds, "as many sounds as pictures", sizes, do)
        picture = sound = np.arange(pictures)
    whose, whom = np.asarray(picture, np.int64), np.asarray(sound, np.int64)
    need(whose.shape == whom.shape, "a picture and a sound for each pair", [whose.shape, whom.shape])
    return whose, whom
