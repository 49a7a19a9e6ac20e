"""The overlay video: every frame of the original with the map of its moment, moving smoothly from one to the next."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from fractions import Fraction
from functools import partial
from pathlib import Path

import numpy as np

from earsight.heatmap import line_width
from earsight.localize.draw import opacity, tint, words
from earsight.localize.paint import Paint
from earsight.localize.seen import Seen
from earsight.localize.settings import Settings
from earsight.media.planes import STILL, iter_planes
from earsight.media.read import MediaInfo
from earsight.media.write import VideoWriter
from earsight.protocols import Protocol
from earsight.regions import PixelBox, boxes_of
from earsight.types import U8

_SOONEST = 1e-4  # seconds between two frames; broken files have closer ones, which no video can hold
_CHANGES = 10  # times a second that the map moves, which looks smooth; frames in between share their paint
_SLOWEST = 2  # frames a second; a video with fewer is one of stills


def write_film(
    to: Path,
    path: Path,
    info: MediaInfo,
    seen: Iterator[Seen],
    protocol: Protocol,
    settings: Settings,
    *,
    sound: Path,
    held: ExitStack,
    stop: Callable[[], bool],
    tell: Callable[[float], None],
) -> None:
    """Write the frames of `path` with what was seen every `settings.every` seconds, and the sound of the file `sound`.

    All of the film is on disk at the end of this, and appears when `held` closes without an error: by then its answers
    are written too. Nothing is written where nothing was seen.

    The original is read a second time here, some moments behind the model. To hold its frames until the model has seen
    them would take room that grows with the step and the size, and reading is a small part of the work.
    """
    first = next(seen, None)
    if first is None:
        return
    fps = min(info.fps or Fraction(25), Fraction(1000))
    even = fps >= _CHANGES
    fps = fps if fps >= _SLOWEST else Fraction(25)
    brush = _Brush(first, seen, protocol, settings, info.height, info.width)
    start, end = settings.start, settings.end
    # Another file's sound may go on when the pictures have ended; their own belongs to them.
    heard_until = end if end is not None or sound == path else info.duration
    writer = VideoWriter(to, info.width, info.height, fps, sound, start, heard_until, info.aspect, even)
    film = held.enter_context(writer)
    again = min(max(settings.every, 1 / _CHANGES), STILL)
    last = -1.0
    for time, planes in iter_planes(path, info.height, info.width, start, end, again, float(1 / fps)):
        time = max(time, start)  # the first frame may have begun before
        if time < last + _SOONEST:
            continue
        paint = brush.at((time - start) / settings.every)
        if stop() and last >= 0:  # what was seen may end here; but a film has at least one frame
            film.cut()
            break
        last = time
        film.fill(partial(paint.over, planes), time)
        tell(time)
    if sound != path and heard_until is None:
        film.cut()
    film.finish()


class _Brush:
    """The paint for each time, out of moments that come one after another."""

    def __init__(
        self, first: Seen, rest: Iterator[Seen], protocol: Protocol, settings: Settings, height: int, width: int
    ) -> None:
        self._now = self._next = first
        self._place, self._rest = 0, rest
        self._protocol, self._drawing = protocol, settings.drawing
        self._height, self._width = height, width
        self._thick = line_width(np.broadcast_to(np.uint8(0), (3, height, width)))
        self._parts = max(1, round(settings.every * _CHANGES))
        self._painted: tuple[int, int] | None = None
        self._paint = Paint(0, 0)
        self._advance()

    def at(self, place: float) -> Paint:
        """The paint `place` moments after the first; places must go up."""
        while place >= self._place + 1 and self._next is not self._now:
            self._place += 1
            self._advance()
        part = int(min(max(0.0, place - self._place), 1.0) * self._parts + 1e-6) if self._next is not self._now else 0
        if self._painted != (self._place, part):
            self._painted = self._place, part
            self._paint = self._draw(self._now.towards(self._next, part / self._parts))
        return self._paint

    def _advance(self) -> None:
        self._now = self._next
        self._next = next(self._rest, self._now)

    def _draw(self, seen: Seen) -> Paint:
        height, width = self._height + self._height % 2, self._width + self._width % 2
        heat = seen.heat(height // 2, width // 2, self._protocol)
        paint = Paint(height, width)
        color = tint(seen.moment)
        paint.heat(heat, opacity(seen, self._drawing))
        if seen.moment.boxes:
            for box in _boxes(heat, self._drawing.boxes):
                paint.frame(box, color, self._thick)
        paint.caption(words(seen.moment), color, self._height, self._width)
        return paint


def _boxes(heat: U8, most: int) -> tuple[PixelBox, ...]:
    """Boxes for drawing around the hot parts of half-sized heat, found on a grid that is as fine as the eye."""
    step = max(1, min(heat.shape) // 180)
    found = boxes_of(np.ascontiguousarray(heat[::step, ::step] > 127), most=most)
    return tuple((2 * step * x0, 2 * step * y0, 2 * step * x1, 2 * step * y1) for x0, y0, x1, y1 in found)
