"""One moment as it is shown: its map at any size, the range of it that counts, and the boxes around its peaks."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from earsight.localize.localizer import region, spread
from earsight.localize.steady import Glance
from earsight.localize.timeline import NOT_VISIBLE, SILENT, Moment
from earsight.protocols import Protocol
from earsight.regions import boxes_of
from earsight.resampling import upsampled as upsampled
from earsight.types import F32, U8


@dataclass(frozen=True)
class Seen:
    """What a picture of a moment needs.

    Args:
        moment: the answer.
        score: float32 (h, w), the small map.
        low: score that is nowhere special, shown as nothing.
        high: the highest score, shown hottest.
        visible: 1, or 0 when nothing visible sounds; between two moments something in between.
        sounding: likewise 1, or 0 in silence.
    """

    moment: Moment
    score: F32
    low: float
    high: float
    visible: float
    sounding: float

    @classmethod
    def of(cls, glance: Glance, protocol: Protocol, height: int, width: int) -> Seen:
        """A glance with its verdict, in a picture of that size."""
        low, high = spread(upsampled(glance.score, protocol.size, protocol.size, protocol))
        score = upsampled(glance.score, height, width, protocol)
        unseen = glance.verdict in (NOT_VISIBLE, SILENT)
        boxes = () if unseen else boxes_of(region(score, low, high), score)
        y, x = divmod(int(score.argmax()), width)
        moment = Moment(glance.time, glance.verdict, glance.confidence, glance.momentary, (x, y), boxes)
        return cls(moment, glance.score, low, high, float(not unseen), float(not glance.silent))

    def towards(self, other: Seen, share: float) -> Seen:
        """The picture on the way to another moment; words and verdict are those of the nearer one."""
        if share == 0:
            return self

        def mix(a: float, b: float) -> float:
            return a + (b - a) * share

        return Seen(
            self.moment if share < 0.5 else other.moment,
            self.score + (other.score - self.score) * np.float32(share),
            mix(self.low, other.low),
            mix(self.high, other.high),
            mix(self.visible, other.visible),
            mix(self.sounding, other.sounding),
        )

    def heat(self, height: int, width: int, protocol: Protocol) -> U8:
        """The map at a size, from 0 for `low` to 255 for `high`, uint8 (height, width); over 127 is inside the boxes.

        A flat map is 0 everywhere.
        """
        if self.high <= self.low:
            return np.zeros((height, width), np.uint8)
        stretched: F32 = (self.score - np.float32(self.low)) * np.float32(255 / (self.high - self.low))
        wide = upsampled(stretched, height, width, protocol)
        return np.clip(wide, 0, 255, out=wide).astype(np.uint8)
