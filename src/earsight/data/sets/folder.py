"""A folder of your own: photos (or videos) and sounds, paired in pairs_<split>.csv, with boxes in boxes.csv.

The folder holds:

    pairs_train.csv, pairs_val.csv, pairs_test.csv   columns image, audio, start, cls, kind
    boxes.csv                                        columns image, cls, xc, yc, w, h (optional for training)

`image` and `audio` are paths inside the folder; `image` may be a video, of which the frame in the middle of the sound
is taken. `start` is where the sound begins, in seconds. `kind` is `single` or `multi` for a pair whose source can be
seen (alone, or among other things that could sound), and `neg_...` where it cannot; the rest then names the kind.
Boxes are fractions of the picture: centre, width and height. A pair's truth is the boxes of its image and its class.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from pathlib import Path, PurePath

from earsight.data.boxes_csv import number, read_boxes, read_lines
from earsight.data.clips import ClipSet
from earsight.data.lists import some
from earsight.errors import DataError, UsageError
from earsight.media.read import read_pair
from earsight.types import POSITIVE, Clip, Row

SPLITS = ("train", "val", "test")
DEFAULTS = {"train": "train", "val": "val", "test": "test"}

_PAIR_COLUMNS = ("image", "audio", "start", "cls", "kind")
_POSITIVE_KINDS = ("single", "multi", POSITIVE)


@dataclass(frozen=True)
class _Pair:
    image: Path
    audio: Path
    start: float


class Folder(ClipSet):
    """The pairs of one split."""

    def __init__(self, name: str, rows: list[Row], pairs: list[_Pair]) -> None:
        super().__init__(name, rows)
        self._pairs = tuple(pairs)

    def read(self, index: int, rate: int, seconds: float, draw: int = 0) -> Clip:
        pair = self._pairs[index]
        return read_pair(pair.image, pair.audio, pair.start, rate, seconds, self.rows[index].id)

    def files(self, index: int) -> tuple[Path, Path]:
        """The files of a clip's picture and sound, whether they are there or not."""
        return self._pairs[index].image, self._pairs[index].audio


def open(split: str, data: Path | None) -> ClipSet:
    """The pairs of `split` in the folder `data`."""
    if data is None:
        raise UsageError("Expected the folder of the set, but got none. Pass --data DIR with pairs_<split>.csv in it.")
    if not data.is_dir():
        raise DataError(f"Expected a folder of pairs, but got {data}, which is not there. Check --data.")
    lines = read_lines(data / f"pairs_{split}.csv", _PAIR_COLUMNS)
    boxes = read_boxes(data / "boxes.csv")
    rows: list[Row] = []
    pairs: list[_Pair] = []
    seen: Counter[str] = Counter()
    for where, line in lines:
        image, audio = (_inside(data, line[name], where) for name in ("image", "audio"))
        pair = _Pair(image, audio, number(where, "start", line["start"], 0, math.inf))
        id = f"{image.stem}+{audio.stem}@{line['start']}"
        seen[id] += 1
        if seen[id] > 1:
            id = f"{id}#{seen[id]}"
        kind = _kind(where, line["kind"])
        truth = boxes[line["image"], line["cls"]] if kind == POSITIVE else ()
        rows.append(Row(id, line["cls"], kind, tuple(truth)))
        pairs.append(pair)
    if not rows:
        raise DataError(f"Expected at least one pair, but got none in {data / f'pairs_{split}.csv'}.")
    _check_truth(f"folder:{split}", rows, needed=split != "train")
    return Folder(f"folder:{split}", rows, pairs)


def _inside(data: Path, text: str, where: str) -> Path:
    """The file of the folder that a line names. A list comes with the data, and must not reach anything else."""
    path = PurePath(text)
    if path.is_absolute() or ".." in path.parts or "\0" in text:
        raise DataError(
            f"Expected a path inside the folder in {where}, but got {text!r}. "
            f"Put the file into {data}, and name it from there."
        )
    return data / path


def _kind(where: str, text: str) -> str:
    if text in _POSITIVE_KINDS:
        return POSITIVE
    if text.startswith("neg") and text.removeprefix("neg").strip("_"):
        return text.removeprefix("neg").strip("_")
    raise DataError(f"Expected kind single, multi or neg_<kind> in {where}, but got {text}. Correct that line.")


def _check_truth(name: str, rows: list[Row], *, needed: bool) -> None:
    bare = [row.id for row in rows if row.positive and not row.boxes]
    if bare and needed:
        positives = sum(row.positive for row in rows)
        raise DataError(
            f"Expected a box for every positive pair of {name}, but got none for {len(bare)} of {positives}: "
            f"{some(bare)}. Add them to boxes.csv, or mark the pairs neg_<kind>."
        )
