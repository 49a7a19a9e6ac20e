"""One picture with its answer drawn in: the heat where the map peaks, boxes, and a caption with the verdict."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from earsight.heatmap import Color, draw_text, overlay
from earsight.localize.paint import caption_size
from earsight.localize.seen import Seen
from earsight.localize.settings import Drawing
from earsight.localize.timeline import NOT_VISIBLE, SILENT, VISIBLE, Moment
from earsight.protocols import Protocol
from earsight.regions import boxes_of
from earsight.types import F32, U8

GREEN, RED, GREY, WHITE = (88, 214, 141), (255, 107, 92), (190, 190, 190), (255, 255, 255)
FAINT = 0.3
"""How much of the heat is left where nothing visible sounds."""


def tint(moment: Moment) -> Color:
    """The colour of a verdict; the caption says it in words too."""
    return {VISIBLE: GREEN, NOT_VISIBLE: RED, SILENT: GREY}.get(moment.verdict, WHITE)


def words(moment: Moment) -> str:
    """What a caption says."""
    return moment.verdict if moment.silent else f"{moment.verdict}  {moment.confidence:.2f}"


def opacity(seen: Seen, drawing: Drawing) -> float:
    """How opaque the heat is: faint where nothing visible sounds, none in silence."""
    return drawing.overlay * seen.sounding * (FAINT + (1 - FAINT) * seen.visible)


def drawn(picture: U8, seen: Seen, protocol: Protocol, drawing: Drawing) -> U8:
    """A picture (3, H, W) with heat, and with boxes when there is a visible source."""
    _, height, width = picture.shape
    heat = seen.heat(height, width, protocol)
    score: F32 = heat.astype(np.float32) / np.float32(255)
    boxes = boxes_of(heat > 127, most=drawing.boxes) if seen.moment.boxes else ()
    return overlay(picture, score, boxes=boxes, alpha=opacity(seen, drawing), box_color=tint(seen.moment))


def captioned(frame: U8, moment: Moment, notes: Sequence[str] = ()) -> U8:
    """The frame with a bar along its lower edge: verdict and confidence, and over it what else there is to know.

    The size stays; what has no room is left out.
    """
    out, below = frame, frame.shape[1]
    for text, color in [(words(moment), tint(moment)), *((note, WHITE) for note in reversed(notes))]:
        room = caption_size(text, below, frame.shape[2])
        if room is not None:
            scale, bar = room
            out = out.copy()
            out[:, below - bar : below] //= 4
            out[:, below - bar : below, : 3 * scale] = np.array(color, np.uint8)[:, None, None]
            out = draw_text(out, text, (4 * scale, below - bar + scale), scale, color, plate=0.0)
            below -= bar
    return out
