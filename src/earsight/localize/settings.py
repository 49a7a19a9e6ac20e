"""How a video is looked at and what is drawn, checked once before any work begins."""

from __future__ import annotations

from dataclasses import dataclass

from earsight.config import need
from earsight.localize.files import USUAL, check_formats

OVERLAY, BOXES, SMOOTH = 0.65, 5, 0.5


@dataclass(frozen=True)
class Drawing:
    """How answers are drawn over pictures."""

    overlay: float = OVERLAY
    """How opaque the heat is where it is hottest, from 0 (none) to 1."""
    boxes: int = BOXES
    """Most boxes to draw, largest first."""

    def __post_init__(self) -> None:
        need(0 <= self.overlay <= 1, "an overlay between 0 and 1", self.overlay)
        need(self.boxes >= 0, "boxes of at least 0", self.boxes)


@dataclass(frozen=True)
class Settings:
    """How a video is looked at. Times are seconds."""

    every: float = 0.2
    """Between two answers."""
    window: float | None = None
    """Of sound heard around each time; None for what the model hears."""
    smooth: float = SMOOTH
    """Over which maps, confidences and verdicts are steadied; 0 for not at all."""
    start: float = 0.0
    end: float | None = None
    formats: tuple[str, ...] = USUAL
    drawing: Drawing = Drawing()
    batch_size: int = 8
    """Moments that go through the model together."""

    def __post_init__(self) -> None:
        need(0.01 <= self.every < float("inf"), "every of at least 0.01 seconds", self.every)
        need(0 <= self.smooth <= 60, "smooth from 0 to 60 seconds", self.smooth)
        need(0 <= self.start < float("inf"), "a start of at least 0 seconds", self.start)
        need(self.end is None or self.end > self.start, f"an end after the start ({self.start:g} s)", self.end)
        need(self.batch_size >= 1, "a batch_size of at least 1", self.batch_size)
        object.__setattr__(self, "formats", check_formats(self.formats))

    def heard(self, seconds: float) -> float:
        """Seconds of sound around each time, for a model that hears `seconds`.

        Less sound is repeated to fill what the model hears; more would have to be thrown away, which no answer may
        hide.
        """
        ok = self.window is None or 0.05 <= self.window <= seconds
        do = "Leave --window out to hear all of that."
        need(ok, f"a window from 0.05 up to the {seconds:g} s the model hears", self.window, do)
        return seconds if self.window is None else self.window
