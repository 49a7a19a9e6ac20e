"""A folder of your own: photos (or videos) and sounds, paired in pairs_<split>.csv, with boxes in boxes.csv.

The folder holds:

    pairs_train.csv, pairs_val.csv, pairs_test.csv   columns image, audio, start, cls, kind
    boxes.csv                                        columns image, cls, xc, yc, w, h (optional for training)

`image` and `audio` are paths inside the folder; `image` may be a video, of which the frame in the middle of the sound
is taken. `start` is where the sound begins, in seconds. `kind` is `single` or `multi` for a pair whose source can be
seen (alone, or among other things that could sound), and `neg_...` where it cannot; the rest then names the kind.
Boxes are fractions of the picture: centre, width and height. A pair's truth is the boxes of its image and its class.

A clip is called IMAGE+AUDIO@START: both paths as the list has them, without their endings. Where two pictures (or two
sounds) of a list differ in nothing but the ending they keep it, and a + in the path of a picture is written %2B, so
that whatever stands before the first + is one picture. The order of the lines plays no part. Audits tell pictures by
their paths, endings included.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path, PurePath, PurePosixPath

from earsight.data.boxes_csv import number, read_boxes, read_lines
from earsight.data.clips import ClipSet
from earsight.data.lists import some
from earsight.errors import DataError, UsageError
from earsight.media.accept import CLIPS, PICTURES
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
    """The pairs of one split; `within` is the folder that their names begin in."""

    def __init__(self, name: str, rows: list[Row], pairs: list[_Pair], within: Path) -> None:
        super().__init__(name, rows)
        self._pairs, self.within = tuple(pairs), within

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
    images, sounds = ([_inside(data, line[name], where) for where, line in lines] for name in ("image", "audio"))
    seen, heard = _short(images), _short(sounds)
    rows: list[Row] = []
    pairs: list[_Pair] = []
    first: dict[tuple[str, str, float], str] = {}
    for (where, line), image, sound in zip(lines, images, sounds, strict=True):
        pair = _Pair(data / image, data / sound, number(where, "start", line["start"], 0, math.inf))
        _need_new(first, (image, sound, pair.start), where)
        kind = _kind(where, line["kind"])
        truth = boxes[line["image"], line["cls"]] if kind == POSITIVE else ()
        id = f"{_quoted(seen[image])}+{heard[sound]}@{line['start']}"
        rows.append(Row(id, line["cls"], kind, tuple(truth), picture=_quoted(image), sound=_quoted(sound)))
        pairs.append(pair)
    if not rows:
        raise DataError(f"Expected at least one pair, but got none in {data / f'pairs_{split}.csv'}.")
    _check_truth(f"folder:{split}", rows, needed=split != "train")
    return Folder(f"folder:{split}", rows, pairs, data)


def video_of(id: str) -> str:
    """The picture of a clip, which may be a video, by the name of the clip or of the picture's file.

    >>> video_of("dog/001+dog/001@0.5"), video_of("dog/001.jpg"), video_of("dog/001")
    ('dog/001', 'dog/001', 'dog/001')
    """
    picture = id.partition("+")[0]
    start, dot, ending = picture.rpartition(".")
    return start if dot + ending.lower() in CLIPS | PICTURES else picture


def file_of(picture: str, within: Path) -> Path:
    """The file of a picture by its name in rows."""
    return within / picture.replace("%2B", "+")


def _quoted(path: str) -> str:
    return path.replace("+", "%2B")


def _inside(data: Path, text: str, where: str) -> str:
    """The path of a file in the folder that a line names. A list comes with the data, and must reach nothing else."""
    path = PurePath(text)
    if path.is_absolute() or ".." in path.parts or "\0" in text:
        raise DataError(
            f"Expected a path inside the folder in {where}, but got {text!r}. "
            f"Put the file into {data}, and name it from there."
        )
    return path.as_posix()


def _short(paths: Iterable[str]) -> dict[str, str]:
    """Each path without its ending, where that still tells it from the others.

    >>> _short(["cat/1.jpg", "dog/1.jpg", "dog/2.jpg", "dog/2.png"])
    {'cat/1.jpg': 'cat/1', 'dog/1.jpg': 'dog/1', 'dog/2.jpg': 'dog/2.jpg', 'dog/2.png': 'dog/2.png'}
    """
    short = {path: (PurePosixPath(path).parent / PurePosixPath(path).stem).as_posix() for path in paths}
    count = Counter(short.values())
    return {path: name if count[name] == 1 and name not in short else path for path, name in short.items()}


def _need_new(first: dict[tuple[str, str, float], str], pair: tuple[str, str, float], where: str) -> None:
    """Refuse a pair that an earlier line has: it would count twice, and as a second sound of its picture."""
    if pair in first:
        image, sound, start = pair
        raise DataError(
            f"Expected every pair once, but got {image} with {sound} from {start:g} s in {where} and in {first[pair]}. "
            "Leave one out; of things that sound together, give the boxes one class."
        )
    first[pair] = where


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
