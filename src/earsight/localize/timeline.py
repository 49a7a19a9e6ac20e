"""The answer over time: one moment per step, as JSON that later programs can rely on."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from earsight.regions import PixelBox
from earsight.types import Localization

VERSION = 1
"""Of the JSON; goes up when a key changes its meaning or goes away."""
VISIBLE, NOT_VISIBLE, NOT_CALIBRATED = "visible source", "no visible source", "not calibrated"


@dataclass(frozen=True)
class Moment:
    """The answer at one time.

    Args:
        time: seconds from the start of the file; for a picture with a sound, from the start of the sound.
        confidence: higher means surer that the source is visible.
        verdict: "visible source", "no visible source", or "not calibrated" when the weights carry no threshold.
        silent: nothing is heard around this time, so there is no source to see, whatever the confidence.
        boxes: (x0, y0, x1, y1) in the picture's own pixels, largest first; empty when there is no visible source.
    """

    time: float
    confidence: float
    verdict: str
    silent: bool
    boxes: tuple[PixelBox, ...]

    @classmethod
    def of(cls, time: float, answer: Localization, silent: bool) -> Moment:
        """A localization at a time. Silence has no visible source, even if the model sees one."""
        if silent:
            return cls(time, answer.confidence, NOT_VISIBLE, True, ())
        return cls(time, answer.confidence, answer.verdict, False, answer.boxes)

    @property
    def label(self) -> str:
        """What a caption says."""
        return "silent" if self.silent else self.verdict


@dataclass(frozen=True)
class Timeline:
    """Everything that was found in one video, or in one picture with its sound.

    Args:
        source: the video or picture.
        sound: the file that was heard.
        weights: the weights that answered.
        protocol: name of the protocol that made confidences of maps.
        threshold: confidence from which on a source is called visible, or None.
        every: seconds between the moments, or None for a single picture.
        window: seconds of sound heard around each moment.
        width: of the picture that the boxes are in.
        height: likewise.
        items: the moments, in order.
        files: what was written.
    """

    source: str
    sound: str
    weights: str
    protocol: str
    threshold: float | None
    every: float | None
    window: float
    width: int
    height: int
    items: tuple[Moment, ...]
    files: tuple[Path, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Plain values: times in seconds, boxes in whole pixels."""
        values = {key: value for key, value in vars(self).items() if key not in ("items", "files")}
        items = [{**asdict(item), "boxes": [list(box) for box in item.boxes]} for item in self.items]
        return {"version": VERSION, **values, "items": items}
