"""How videos and pictures are localized, what is written and how it is drawn; checked before any work begins."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from earsight.config import need
from earsight.errors import UsageError
from earsight.overlay import OPACITY

FORMATS = ("mp4", "png", "json", "npz")
"""An overlay video, a contact sheet (of a single picture: its overlay), the timeline, and the maps."""


@dataclass(frozen=True)
class Settings:
    """How to localize, what to write and how to draw it. Times are seconds."""

    every: float = 0.2
    """Between two answers of a video."""
    window: float | None = None
    """Of sound heard around each time of a video; None for what the model hears."""
    smooth: float = 0.5
    """Over which maps, confidences and verdicts of a video are steadied; 0 for not at all."""
    start: float | None = None
    """Where in a video to begin. For a picture, where in its sound it belongs; None for a loud stretch."""
    end: float | None = None
    """Where in a video to end."""
    formats: str | Sequence[str] = ("mp4", "png", "json")
    """What to write, also as one text ("mp4,json")."""
    overlay: float = OPACITY
    """How opaque the heat is where it is hottest, from 0 (none) to 1."""
    boxes: int = 5
    """Most boxes to draw, largest first; the timeline has the five largest."""
    batch_size: int = 8
    """Moments that go through the model together; it does not change the answers."""
    force: bool = False
    """Replace files that are there."""

    def __post_init__(self) -> None:
        need(0.01 <= self.every < float("inf"), "every of at least 0.01 seconds", self.every)
        need(0 <= self.smooth <= 60, "smooth from 0 to 60 seconds", self.smooth)
        need(0 <= self.begin < float("inf"), "a start of at least 0 seconds", self.start)
        need(self.end is None or self.end > self.begin, f"an end after the start ({self.begin:g} s)", self.end)
        need(0 <= self.overlay <= 1, "an overlay between 0 and 1", self.overlay)
        need(self.boxes >= 0, "boxes of at least 0", self.boxes)
        need(self.batch_size >= 1, "a batch_size of at least 1", self.batch_size)
        object.__setattr__(self, "formats", _formats(self.formats))

    @property
    def begin(self) -> float:
        """Where in a video to begin."""
        return self.start or 0.0

    def heard(self, seconds: float) -> float:
        """Seconds of sound around each time, for a model that hears `seconds`.

        Less sound is repeated to fill what the model hears; more would have to be thrown away, which no answer may
        hide.
        """
        ok = self.window is None or 0.05 <= self.window <= seconds
        do = "Leave --window out to hear all of that."
        need(ok, f"a window from 0.05 up to the {seconds:g} s the model hears", self.window, do)
        return seconds if self.window is None else self.window

    def refuse_span(self) -> None:
        """Refuse settings that only a video can follow."""
        do = "Leave them out for a picture with a sound; --start says where in the sound it belongs."
        alone = self.end is None and self.window is None
        need(alone, "--end and --window with videos only", "them with a picture", do)


def _formats(formats: str | Sequence[str]) -> tuple[str, ...]:
    """The formats to write, each once.

    >>> _formats("mp4, json"), _formats(["json", "json"])
    (('mp4', 'json'), ('json',))
    """
    if isinstance(formats, str):
        formats = [one.strip() for one in formats.split(",") if one.strip()]
    unknown = [one for one in formats if one not in FORMATS]
    if unknown or not formats:
        got = f"'{unknown[0]}'" if unknown else "none"
        known = ", ".join(FORMATS)
        raise UsageError(f"Expected formats out of {known}, but got {got}. Name at least one of them.")
    return tuple(dict.fromkeys(formats))


DEFAULT = Settings()
"""What is done unless something else is asked for."""
