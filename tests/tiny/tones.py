"""A set made in no time: a bright square in noise, a tone by its colour, and some clips that are torn."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from earsight.data.clips import ClipSet
from earsight.errors import MediaError
from earsight.types import POSITIVE, Clip, Row

SPLITS = ("train", "val", "torn", "shreds")
DEFAULTS = {"train": "train", "val": "val", "test": "val"}
TORN = {"torn": (3, 17), "shreds": tuple(range(0, 64, 3))}


class Tones(ClipSet):
    def __init__(self, split: str) -> None:
        self.split = split
        boxes = [tuple(float(v) for v in (x, y, x + 0.3, y + 0.3)) for x, y in self._random(0).uniform(0, 0.7, (64, 2))]
        kinds = ["easy" if split == "val" and i % 4 in (1, 2) else POSITIVE for i in range(64)]
        rows = [Row(f"{split}-{i}", kind=k, boxes=(boxes[i],) if k == POSITIVE else ()) for i, k in enumerate(kinds)]  # type: ignore[arg-type]
        super().__init__(f"tiny.tones:{split}", rows)

    def _random(self, *seed: int) -> np.random.Generator:
        return np.random.default_rng((SPLITS.index(self.split), *seed))

    def read(self, index: int, rate: int, seconds: float, draw: int = 0) -> Clip:
        if index in TORN.get(self.split, ()):
            raise MediaError(self.rows[index].id, "the file is torn.", "Record it again.")
        random = self._random(1, index)
        frame = random.integers(0, 100, (3, 48, 48)).astype(np.uint8)
        for x0, y0, x1, y1 in self.rows[index].boxes:
            frame[index % 3, int(48 * y0) : int(48 * y1), int(48 * x0) : int(48 * x1)] = 250
        time = np.arange(round(rate * seconds)) / rate
        wave = 0.5 * np.sin(2 * np.pi * (300 + 700 * (index % 3)) * time) + 0.01 * random.standard_normal(len(time))
        return Clip(self.rows[index].id, frame, wave.astype(np.float32), rate, seconds / 2)


def open(split: str, data: Path | None = None) -> ClipSet:
    return Tones(split)
