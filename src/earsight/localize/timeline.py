"""The answer over time: one moment per step, as JSON that later programs can rely on (docs/localize.md)."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

from earsight.overlay import WHITE, Color, PixelBox

VERSION = 2
"""Of the JSON; goes up when a key changes its meaning or goes away."""
VISIBLE, NOT_VISIBLE, SILENT, NOT_CALIBRATED = "visible source", "no visible source", "silent", "not calibrated"
INK = {VISIBLE: "#12925a", NOT_VISIBLE: "#d1422f", SILENT: "#7a7f87", NOT_CALIBRATED: "#3d6fd9"}
"""Colours of the verdicts, which read on white and on black."""
BRIGHT: dict[str, Color] = {
    VISIBLE: (88, 214, 141),
    NOT_VISIBLE: (255, 107, 92),
    SILENT: (190, 190, 190),
    NOT_CALIBRATED: WHITE,
}
"""Colours of the verdicts on pictures; the caption says them in words too."""
SILENCE_DB = -60.0
"""Sound whose peak stays below this level, in decibels of full scale, counts as silence."""


def verdict_of(confidence: float, threshold: float | None, silent: bool) -> str:
    """What to call a confidence.

    >>> verdict_of(0.6, 0.5, silent=False), verdict_of(0.6, None, silent=False), verdict_of(0.6, 0.5, silent=True)
    ('visible source', 'not calibrated', 'silent')
    """
    if silent:
        return SILENT
    if threshold is None:
        return NOT_CALIBRATED
    return VISIBLE if confidence >= threshold else NOT_VISIBLE


@dataclass(frozen=True)
class Moment:
    """The answer at one time.

    Args:
        time: seconds from the start of the file; for a picture with a sound, from the start of the sound.
        verdict: "visible source", "no visible source", "silent" when nothing is heard around this time, or "not
            calibrated" when the weights carry no threshold.
        confidence: higher means surer that the source is visible; the mean over the moments around, which the verdict
            rests on.
        momentary: the confidence of this moment alone, the number that evaluation gives for its picture and sound.
        peak: (x, y) of the map's highest place, in the picture's own pixels.
        boxes: (x0, y0, x1, y1) in the same pixels, largest first; empty when there is no visible source.
    """

    time: float
    verdict: str
    confidence: float
    momentary: float
    peak: tuple[int, int]
    boxes: tuple[PixelBox, ...]

    @property
    def silent(self) -> bool:
        return self.verdict == SILENT

    @property
    def words(self) -> str:
        """What a caption says."""
        return self.verdict if self.silent else f"{self.verdict}  {self.confidence:.2f}"


class Still(NamedTuple):
    """A moment, and a small picture of it with its answer drawn in, as the bytes of a JPEG file."""

    moment: Moment
    jpeg: bytes


@dataclass(frozen=True, repr=False)
class Timeline:
    """Everything that was found in one video, or in one picture with its sound. A notebook shows it as a picture.

    Args:
        source: the video or picture.
        sound: the file that was heard.
        weights: the weights that answered.
        protocol: name of the protocol that made confidences of maps.
        threshold: confidence from which on a source is called visible, or None.
        every: seconds between the moments, or None for a single picture.
        window: seconds of sound heard around each moment.
        smooth: seconds over which maps, confidences and verdicts are steadied.
        width: of the picture that the boxes are in.
        height: likewise.
        items: the moments, in order.
        files: what was written.
        partial: whether the work was stopped before the end.
        notes: what else there is to know, in plain words: that the video is cut off, or which sound track was heard.
        stills: some evenly spaced moments to look at; no part of the JSON.
    """

    source: str
    sound: str
    weights: str
    protocol: str
    threshold: float | None
    every: float | None
    window: float
    smooth: float
    width: int
    height: int
    items: tuple[Moment, ...]
    files: tuple[Path, ...] = ()
    partial: bool = False
    notes: tuple[str, ...] = ()
    stills: tuple[Still, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Plain values: times in seconds, boxes in whole pixels."""
        values = {key: value for key, value in vars(self).items() if key not in ("items", "files", "stills")}
        items = [
            {**asdict(item), "peak": list(item.peak), "boxes": [list(box) for box in item.boxes]} for item in self.items
        ]
        values["notes"] = list(self.notes)
        return {"version": VERSION, **values, "silence_db": SILENCE_DB, "items": items}

    def __repr__(self) -> str:
        counts = Counter(item.verdict for item in self.items)
        verdicts = ", ".join(f"{verdict} {count}" for verdict, count in counts.items())
        return f"Timeline({Path(self.source).name!r}, {len(self.items)} moments: {verdicts or 'none'})"

    def _repr_html_(self) -> str:
        from earsight.localize.notebook import timeline_html

        return timeline_html(self)
