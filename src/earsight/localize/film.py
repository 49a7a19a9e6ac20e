"""The overlay video: every frame of the original with the map of its moment, moving smoothly from one to the next."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from pathlib import Path

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from earsight.data.loading import resized
from earsight.localize.draw import captioned, heated, strength, tint
from earsight.localize.timeline import Moment
from earsight.media.read import MediaInfo, iter_frames
from earsight.media.write import VideoWriter
from earsight.protocols import Protocol
from earsight.regions import PixelBox, boxes_of
from earsight.types import F32, U8, Mask

_SOONEST = 1e-4  # seconds between two frames; broken files have closer ones, which no video can hold


@dataclass(frozen=True)
class Seen:
    """What a picture of a moment needs: the method's small map (h, w), and the range of it that is shown."""

    moment: Moment
    score: Tensor
    low: float
    high: float
    opacity: float

    @classmethod
    def of(cls, moment: Moment, score: Tensor, low: float, high: float) -> Seen:
        return cls(moment, score, low, high, strength(moment))

    def towards(self, other: Seen, share: float) -> Seen:
        """The picture on the way to another moment; words and verdict are those of the nearer one."""

        def mix(a: float, b: float) -> float:
            return a + (b - a) * share

        return Seen(
            self.moment if share < 0.5 else other.moment,
            self.score.lerp(other.score, share),
            mix(self.low, other.low),
            mix(self.high, other.high),
            mix(self.opacity, other.opacity),
        )

    def draw(self, frame: U8, protocol: Protocol) -> U8:
        """The frame (3, H, W) with heat, and with boxes when there is a visible source."""
        score = self._upsampled(frame.shape[1], frame.shape[2], protocol)
        boxes = _boxes(score > (self.low + self.high) / 2) if self.moment.boxes else ()
        return heated(frame, score, self.low, self.high, self.opacity, boxes, tint(self.moment))

    def _upsampled(self, height: int, width: int, protocol: Protocol) -> F32:
        down, across = (_stretching(n, to, protocol) for n, to in zip(self.score.shape, (height, width), strict=True))
        score: F32 = (down @ self.score @ across.T).numpy()
        return score


@lru_cache(maxsize=8)
def _stretching(count: int, to: int, protocol: Protocol) -> Tensor:
    """The matrix (to, count) that upsamples a column as the protocol does.

    Upsampling is linear and treats rows and columns alike, so two small products do what interpolating every pixel of
    every frame does, many times faster.
    """
    lines, corners = torch.eye(count)[None, None], protocol.align_corners
    return F.interpolate(lines, size=(to, count), mode=protocol.upsample, align_corners=corners)[0, 0]


def write_film(
    to: Path,
    path: Path,
    info: MediaInfo,
    seen: Sequence[Seen],
    protocol: Protocol,
    *,
    every: float,
    start: float,
    end: float | None,
    tell: Callable[[float], None],
) -> None:
    """Write the frames of `path` between `start` and `end` with what was seen every `every` seconds from `start` on."""
    fps = min(info.fps or Fraction(25), Fraction(1000))
    with VideoWriter(to, info.width, info.height, fps, path, start, end) as film:
        last = -1.0
        for time, frame in iter_frames(path, None, start, end):
            time = max(time, start)  # the first frame may have begun before
            if time < last + _SOONEST:
                continue
            last = time
            if frame.shape[1:] != (info.height, info.width):  # a stream may change its size on the way
                frame = resized(frame, info.height, info.width).numpy()
            at = min(max(0.0, (time - start) / every), len(seen) - 1.0)
            first = int(at)
            shown = seen[first].towards(seen[min(first + 1, len(seen) - 1)], at - first)
            film.write(captioned(shown.draw(frame, protocol), shown.moment), time)
            tell(time)


def _boxes(mask: Mask) -> tuple[PixelBox, ...]:
    """Boxes for drawing: on large frames found on a grid of every few pixels, which is all that the eye can tell."""
    step = max(1, min(mask.shape) // 240)
    height, width = mask.shape
    found = boxes_of(np.ascontiguousarray(mask[::step, ::step]))
    return tuple((x0 * step, y0 * step, min(x1 * step, width), min(y1 * step, height)) for x0, y0, x1, y1 in found)
