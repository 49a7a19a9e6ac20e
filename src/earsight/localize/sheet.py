"""The contact sheet: evenly spaced overlays of a video with their verdicts, above the confidence over time."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw

from earsight.escape import brief
from earsight.localize.chart import FINE, confidence_chart
from earsight.localize.files import write_file
from earsight.localize.settings import Settings
from earsight.localize.timeline import INK, Moment, Still, Timeline
from earsight.localize.view import View, drawn, jpeg
from earsight.overlay import scaled, text_font
from earsight.types import U8

TILES = 12
"""Most pictures of a sheet."""
TILE = 360
"""Most pixels of a tile's longer side."""
STILLS = 6
"""Most pictures of the few that a notebook shows."""
_STILL, _ONLY_STILL = 240, 480  # pixels of their longer side; one alone may be larger
_HELD = 6 * TILES
_WIDTH, _MARGIN, _GAP, _LINE, _CHART = 1300, 18, 10, 22, 220
_TALLEST = 3.0  # times as high as wide is the room of a picture; a still higher one leaves room at its sides
_TITLE, _TEXT = 20, 14
_DARK, _GREY = "#1f2328", "#57606a"


def is_tile(index: int) -> bool:
    """Whether the moment of that number may be shown; a video's length is not known before its end.

    >>> [i for i in range(200) if is_tile(i)][-4:]
    [184, 188, 192, 196]
    """
    return index % _stride(index) == 0


def _stride(index: int) -> int:
    """How far apart the pictures are that are held when so many moments came before."""
    return 1 << max(0, math.ceil(math.log2((index + 1) / _HELD)))


class Tiles:
    """Pictures of some moments, out of a stream of unknown length, with at most twice `_HELD` in memory."""

    def __init__(self) -> None:
        self._views: dict[int, tuple[View, U8]] = {}

    def add(self, index: int, view: View, picture: U8 | None) -> None:
        """A moment; without a picture it is none of those that may be shown."""
        if picture is not None:
            self._views[index] = view, picture
            stride = _stride(index)
            self._views = {i: one for i, one in self._views.items() if i % stride == 0}

    def drawn(self, settings: Settings) -> list[tuple[Moment, U8]]:
        """Evenly spaced pictures with their answers."""
        views = list(self._views.values())
        chosen = np.linspace(0, len(views) - 1, min(TILES, len(views))).round().astype(int)
        return [(views[i][0].moment, drawn(views[i][1], views[i][0], settings)) for i in chosen]


def stills(tiles: Sequence[tuple[Moment, U8]]) -> tuple[Still, ...]:
    """A few of the pictures, evenly spaced."""
    chosen = np.linspace(0, len(tiles) - 1, min(STILLS, len(tiles))).round().astype(int)
    side = _STILL if len(tiles) > 1 else _ONLY_STILL
    return tuple(Still(moment, jpeg(scaled(picture, side))) for moment, picture in (tiles[i] for i in chosen))


def clock(seconds: float) -> str:
    """A time as a player shows it.

    >>> clock(3.25), clock(3725)
    ('0:03.2', '1:02:05.0')
    """
    tenths = math.floor(seconds * 10 + 1e-6)
    minutes, tenths = divmod(tenths, 600)
    hours, minutes = divmod(minutes, 60)
    head = f"{hours}:{minutes:02d}" if hours else f"{minutes}"
    return f"{head}:{tenths // 10:02d}.{tenths % 10}"


def write_sheet(path: Path, tiles: Sequence[tuple[Moment, U8]], timeline: Timeline) -> None:
    """Write the sheet as PNG: tiles of (moment, overlay uint8 (3, H, W)), and the timeline as a chart below them."""
    _, height, width = tiles[0][1].shape
    aspect = min(height / width, _TALLEST)
    columns = min(max(3, len(tiles)), 6 if aspect > 1.1 else 4)
    rows = -(-len(tiles) // columns)
    wide = (_WIDTH - 2 * _MARGIN - (columns - 1) * _GAP) // columns
    tall = max(1, round(wide * aspect))
    top = 2 * _MARGIN + _TITLE
    notes = [f"Note: {brief(note, 180)}" for note in timeline.notes]
    below = top + rows * (tall + _LINE + _GAP) + _GAP
    sheet = Image.new("RGB", (_WIDTH, below + _LINE * (len(notes) + 1) + _CHART + _MARGIN), "white")
    draw = ImageDraw.Draw(sheet)

    def write(x: float, y: float, text: str, color: str, size: int = _TEXT) -> float:
        """A line of text with its middle at `y`; where it ends."""
        letters = text_font(text, size)
        draw.text((x, y), text, color, letters, anchor="lm")
        return x + letters.getlength(text)

    write(_MARGIN, _MARGIN + _TITLE / 2, brief(Path(timeline.source).name, 110), _DARK, _TITLE)
    for i, (moment, picture) in enumerate(tiles):
        x, y = _MARGIN + i % columns * (wide + _GAP), top + i // columns * (tall + _LINE + _GAP)
        after = write(x, y + _LINE / 2, clock(moment.time), _GREY)
        write(after + _GAP, y + _LINE / 2, moment.words, INK[moment.verdict])
        _, height, width = picture.shape
        share = min(wide / width, tall / height)
        size = max(1, round(width * share)), max(1, round(height * share))
        shown = Image.fromarray(np.ascontiguousarray(picture.transpose(1, 2, 0)))
        shown = shown if shown.size == size else shown.resize(size, Image.Resampling.LANCZOS)
        sheet.paste(shown, (x, y + _LINE))
    for k, note in enumerate(notes):
        write(_MARGIN, below + (k + 0.5) * _LINE, note, _DARK)
    below += _LINE * len(notes)
    counts = Counter(item.verdict for item in timeline.items)
    end = write(_MARGIN, below + _LINE / 2, "Confidence", _DARK)
    for verdict in INK:
        if counts[verdict]:
            draw.circle((end + 3 * _GAP, below + _LINE / 2), 4, INK[verdict])
            end = write(end + 4 * _GAP, below + _LINE / 2, f"{verdict} ({counts[verdict]})", INK[verdict])
    if timeline.smooth > 0:
        draw.line((end + 2 * _GAP, below + _LINE / 2, end + 4 * _GAP, below + _LINE / 2), "#c8ccd2", 1)
        write(end + 5 * _GAP, below + _LINE / 2, "each moment alone", _GREY)
    chart = confidence_chart(timeline.items, timeline.threshold, _WIDTH - 2 * _MARGIN, _CHART, _GREY).reduce(FINE)
    sheet.paste(chart, (_MARGIN, below + _LINE), chart)
    write_file(path, lambda beside: sheet.save(beside, "PNG"))
