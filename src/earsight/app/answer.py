"""An answer as the page holds it: checked, because the process that it comes from has opened a stranger's file."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from earsight.app.work import film_name, frame_name, timeline_name
from earsight.localize.timeline import NOT_CALIBRATED, NOT_VISIBLE, SILENT, VISIBLE

VERDICTS = (VISIBLE, NOT_VISIBLE, SILENT, NOT_CALIBRATED)
_MOST_NOTES, _LONGEST_NOTE = 4, 200


@dataclass(frozen=True)
class Point:
    """One moment of the timeline."""

    time: float
    verdict: str
    confidence: float


@dataclass(frozen=True)
class Answer:
    """What one model said of a clip, and where its files lie."""

    folder: Path
    model: int
    threshold: float | None
    points: tuple[Point, ...]
    cut: float = 0.0
    """Seconds after which the page stopped looking, or 0 when it saw the clip to its end."""
    notes: tuple[str, ...] = ()
    """What else there is to know of the clip, in plain words."""

    @classmethod
    def of(cls, folder: Path, model: int, values: dict[str, Any]) -> Answer:
        """Take over what the work on a clip said; a ValueError when it makes no sense."""
        limit = None if values["threshold"] is None else _number(values["threshold"])
        points = []
        for time, verdict, confidence, _ in values["items"]:
            if verdict not in VERDICTS:
                raise ValueError(f"Expected a verdict, but got {verdict!r:.40}.")
            points.append(Point(_number(time), verdict, _number(confidence)))
        if not points:
            raise ValueError("Expected at least one moment, but got none.")
        notes = tuple(str(one)[:_LONGEST_NOTE] for one in list(values["notes"])[:_MOST_NOTES])
        return cls(folder, model, limit, tuple(points), _number(values["cut"]), notes)

    @property
    def film(self) -> Path:
        return self.folder / film_name(self.model)

    @property
    def timeline(self) -> Path:
        return self.folder / timeline_name(self.model)

    def frame(self, at: int) -> Path:
        """The picture of a moment."""
        return self.folder / frame_name(self.model, min(max(0, at), len(self.points) - 1))

    @property
    def verdict(self) -> str:
        """The verdict of most moments; what is silent counts only where all is."""
        counts = Counter(point.verdict for point in self.points if point.verdict != SILENT)
        return counts.most_common(1)[0][0] if counts else SILENT

    def share(self, verdict: str) -> float:
        return sum(point.verdict == verdict for point in self.points) / len(self.points)


def _number(value: Any) -> float:
    number = float(value)
    if not math.isfinite(number):
        raise ValueError(f"Expected a finite number, but got {number}.")
    return number
