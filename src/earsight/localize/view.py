"""One moment as it is shown: its map at any size, the range of it that counts, and how both are drawn."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from PIL import Image

from earsight.localize.regions import source_boxes, spread
from earsight.localize.settings import DEFAULT, Settings
from earsight.localize.smoothing import Answer
from earsight.localize.timeline import BRIGHT, NOT_VISIBLE, SILENT, Moment
from earsight.overlay import WHITE, Overlay
from earsight.protocols import Protocol
from earsight.resampling import upsampled
from earsight.types import F32, U8

FAINT = 0.3
"""How much of the heat is left where nothing visible sounds; in silence there is none."""
_STRENGTH = {NOT_VISIBLE: FAINT, SILENT: 0.0}
_QUALITY = 82


@dataclass(frozen=True)
class View:
    """What a picture of a moment needs.

    Args:
        moment: the answer.
        score: float32 (h, w), the map on the method's own grid.
        low: score that is nowhere special, shown as nothing.
        high: the highest score, shown hottest.
        strength: share of the heat that is left; between two moments something in between.
        protocol: how maps are made larger.
    """

    moment: Moment
    score: F32
    low: float
    high: float
    strength: float
    protocol: Protocol

    @classmethod
    def of(cls, moment: Moment, score: F32, protocol: Protocol) -> View:
        """A moment with its map."""
        low, high = _range(score, protocol)
        return cls(moment, score, low, high, _STRENGTH.get(moment.verdict, 1.0), protocol)

    @classmethod
    def of_answer(cls, answer: Answer, protocol: Protocol, height: int, width: int) -> View:
        """An answer with its peak and its boxes in a picture of that size."""
        low, high = _range(answer.score, protocol)
        score = upsampled(answer.score, height, width, protocol)
        boxes = () if answer.verdict in (NOT_VISIBLE, SILENT) else source_boxes(score, low, high)
        y, x = divmod(int(score.argmax()), width)
        moment = Moment(answer.time, answer.verdict, answer.confidence, answer.momentary, (x, y), boxes)
        return cls(moment, answer.score, low, high, _STRENGTH.get(answer.verdict, 1.0), protocol)

    def towards(self, other: View, share: float) -> View:
        """The picture on the way to another moment; words and verdict are those of the nearer one."""
        if share == 0:
            return self

        def mix(a: float, b: float) -> float:
            return a + (b - a) * share

        return View(
            self.moment if share < 0.5 else other.moment,
            self.score + (other.score - self.score) * np.float32(share),
            mix(self.low, other.low),
            mix(self.high, other.high),
            mix(self.strength, other.strength),
            self.protocol,
        )

    def levels(self, height: int, width: int) -> F32:
        """The map at a size, with 0 where nothing is special and 1 at the peak; a flat map is 0 everywhere."""
        if self.high <= self.low:
            return np.zeros((height, width), np.float32)
        small: F32 = (self.score - np.float32(self.low)) / np.float32(self.high - self.low)
        return upsampled(small, height, width, self.protocol)


def _range(score: F32, protocol: Protocol) -> tuple[float, float]:
    """What is nowhere special in a map, and its peak, at the protocol's own size, whatever that of the picture is."""
    return spread(upsampled(score, protocol.size, protocol.size, protocol))


def heat_steps(levels: F32) -> U8:
    """Levels of 0 to 1 as steps of the heat's colours, uint8."""
    steps: U8 = np.clip(levels * np.float32(255), 0, 255).astype(np.uint8)
    return steps


def drawn(picture: U8, view: View, settings: Settings = DEFAULT, caption: Sequence[str] | None = None) -> U8:
    """A picture uint8 (3, H, W) with its answer: heat, and boxes when there is a visible source.

    With `caption`, these notes and the verdict stand along the lower edge.
    """
    drawing = Overlay(picture.shape[1], picture.shape[2])
    levels = view.levels(drawing.height, drawing.width)
    drawing.heat(heat_steps(levels), settings.overlay * view.strength)
    if view.moment.boxes:
        for box in source_boxes(levels, 0, 1, settings.boxes):
            drawing.frame(box, BRIGHT[view.moment.verdict])
    if caption is not None:
        drawing.caption(caption_lines(view.moment, caption))
    return drawing.over(picture)


def caption_lines(moment: Moment, notes: Sequence[str]) -> list[tuple[str, tuple[int, int, int]]]:
    """The lines of a caption, and their colours."""
    return [*((note, WHITE) for note in notes), (moment.words, BRIGHT[moment.verdict])]


def jpeg(picture: U8) -> bytes:
    """The bytes of a JPEG file of a picture (3, H, W)."""
    file = io.BytesIO()
    Image.fromarray(np.ascontiguousarray(picture.transpose(1, 2, 0))).save(file, "JPEG", quality=_QUALITY)
    return file.getvalue()
