"""The overlay video: every frame of the original with the map of its moment, moving smoothly from one to the next.

Frames stay the planes that they are stored as (YUV 4:2:0), and as the map changes less often than the frame, one
drawing serves many frames.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from fractions import Fraction
from functools import partial
from pathlib import Path

import numpy as np

from earsight.localize.regions import source_boxes
from earsight.localize.settings import Settings
from earsight.localize.timeline import BRIGHT
from earsight.localize.view import View, caption_lines, heat_steps
from earsight.media.planes import STILL, iter_planes
from earsight.media.read import MediaInfo
from earsight.media.write import VideoWriter
from earsight.overlay import Overlay, PixelBox
from earsight.types import F32

_SOONEST = 1e-4  # seconds between two frames; broken files have closer ones, which no video can hold
_CHANGES = 10  # times a second that the map moves, which looks smooth; frames in between share their drawing
_SLOWEST = 2  # frames a second; a video with fewer is one of stills


class Film:
    """A video's frames, each with the drawing of its moment.

    Args:
        to: the file to write.
        info: the original video.
        sound: the file whose sound is heard.
        settings: which part, and how it is drawn.
        notes: what stands over the verdict in every frame.
    """

    def __init__(self, to: Path, info: MediaInfo, sound: Path, settings: Settings, notes: tuple[str, ...] = ()) -> None:
        self.to, self.info, self.sound, self.settings, self.notes = to, info, sound, settings, notes
        self._parts = max(1, round(settings.every * _CHANGES))
        self._drawn: tuple[int, int] | None = None
        self._drawing = Overlay(0, 0, yuv=True)

    def write(
        self, views: Iterator[View], held: ExitStack, stop: Callable[[], bool], report: Callable[[float], None]
    ) -> None:
        """Write every frame with what was found every `settings.every` seconds, and the sound.

        All of the film is on disk at the end of this, and appears when `held` closes without an error: by then its
        answers are written too. Nothing is written where nothing was found.

        The original is read a second time here, some moments behind the model. To hold its frames until the model has
        seen them would take room that grows with the step and the size, and reading is a small part of the work.
        """
        first = next(views, None)
        if first is None:
            return
        self._views, self._place = views, 0
        self._now, self._next = first, next(views, first)
        info, start, end, own = self.info, self.settings.begin, self.settings.end, self.sound == self.info.path
        fps = min(info.fps or Fraction(25), Fraction(1000))
        even = fps >= _CHANGES
        fps = fps if fps >= _SLOWEST else Fraction(25)
        # Another file's sound may go on when the pictures have ended; their own belongs to them.
        until = end if end is not None or own else info.duration
        writer = VideoWriter(self.to, info.width, info.height, fps, self.sound, start, until, info.aspect, even)
        held.enter_context(writer)
        again = min(max(self.settings.every, 1 / _CHANGES), STILL)
        last = -1.0
        for time, planes in iter_planes(info.path, info.height, info.width, start, end, again, float(1 / fps)):
            time = max(time, start)  # the first frame may have begun before
            if time < last + _SOONEST:
                continue
            drawing = self._at((time - start) / self.settings.every)
            if stop() and last >= 0:  # what was found may end here; but a film has at least one frame
                writer.cut()
                break
            last = time
            writer.fill(partial(drawing.into, planes), time)
            report(time)
        if not own and until is None:
            writer.cut()
        writer.finish()

    def _at(self, place: float) -> Overlay:
        """The drawing `place` moments after the first; places must go up."""
        while place >= self._place + 1 and self._next is not self._now:
            self._place += 1
            self._now, self._next = self._next, next(self._views, self._next)
        part = int(min(max(0.0, place - self._place), 1.0) * self._parts + 1e-6) if self._next is not self._now else 0
        if self._drawn != (self._place, part):
            self._drawn = self._place, part
            self._drawing = self._draw(self._now.towards(self._next, part / self._parts))
        return self._drawing

    def _draw(self, view: View) -> Overlay:
        settings, moment = self.settings, view.moment
        drawing = Overlay(self.info.height, self.info.width, yuv=True)
        levels = view.levels(-(-drawing.height // 2), -(-drawing.width // 2))
        drawing.heat(heat_steps(levels), settings.overlay * view.strength)
        if moment.boxes:
            for box in _boxes(levels, settings.boxes):
                drawing.frame(box, BRIGHT[moment.verdict])
        drawing.caption(caption_lines(moment, self.notes))
        return drawing


def _boxes(levels: F32, most: int) -> tuple[PixelBox, ...]:
    """Boxes for drawing around the peaks of half-sized levels, found on a grid that is as fine as the eye."""
    step = max(1, min(levels.shape) // 180)
    found = source_boxes(np.ascontiguousarray(levels[::step, ::step]), 0, 1, most)
    return tuple((2 * step * x0, 2 * step * y0, 2 * step * x1, 2 * step * y1) for x0, y0, x1, y1 in found)
