"""One frame with its answer drawn in: the heat where the map peaks, boxes, and a caption with the verdict."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from earsight.heatmap import Color, draw_text, overlay, stretch, text_size
from earsight.localize.timeline import NOT_VISIBLE, VISIBLE, Moment
from earsight.regions import PixelBox
from earsight.types import F32, U8

GREEN, RED, GREY, WHITE = (88, 214, 141), (255, 107, 92), (190, 190, 190), (255, 255, 255)


def tint(moment: Moment) -> Color:
    """The colour of a verdict; the caption says it in words too."""
    if moment.silent:
        return GREY
    return {VISIBLE: GREEN, NOT_VISIBLE: RED}.get(moment.verdict, WHITE)


def strength(moment: Moment) -> float:
    """How opaque the heat is: faint where nothing visible sounds, none in silence."""
    if moment.silent:
        return 0.0
    return 0.2 if moment.verdict == NOT_VISIBLE else 0.65


def heated(
    frame: U8, score: F32, low: float, high: float, opacity: float, boxes: Iterable[PixelBox], color: Color = GREEN
) -> U8:
    """A frame (3, H, W) with the part of the score (H, W) between `low` (clear) and `high` (hottest), and boxes."""
    return overlay(frame, stretch(score, low, high), boxes=boxes, alpha=opacity, box_color=color)


def captioned(frame: U8, moment: Moment) -> U8:
    """The frame with a bar along its lower edge: verdict and confidence; the size stays."""
    _, height, width = frame.shape
    text = f"{moment.label}  {moment.confidence:.2f}"
    narrow = text_size(text)[0] + 3
    scale = max(1, min(round(min(height, width) / 270), width // narrow))
    bar = text_size(text, scale)[1] + 2 * scale
    if bar > height // 3:  # a thumbnail has no room for a caption
        return frame
    out = frame.copy()
    out[:, height - bar :] = out[:, height - bar :] // 4
    out[:, height - bar :, : 3 * scale] = np.array(tint(moment), np.uint8)[:, None, None]
    return draw_text(out, text, (4 * scale, height - bar + scale), scale, tint(moment), plate=0.0)
