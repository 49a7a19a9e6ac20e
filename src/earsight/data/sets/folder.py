"""A folder of your own: pictures and sounds of the same name, or videos; lists and boxes are optional.

dog.jpg and dog.wav are a pair, and so are images/dog.jpg and audio/dog.wav (data/same_names.py); a video alone is seen
and heard in its middle. Without lists, all pairs are `folder:train`. Lists say more:

    pairs_train.csv, pairs_val.csv, pairs_test.csv   columns image, audio, start, cls, kind
    boxes.csv                                        columns image, cls, xc, yc, w, h

Only `image` is always needed, and `audio` unless `image` is a video, whose own sound is heard then. Both are paths
inside the folder. `start` is where the sound begins, in seconds (0). Of a video the frame in the middle of the sound
is seen; without a start, its own sound in its middle. `cls` is the class, where there are any. `kind` is `single` or
`multi` for a pair whose source can be seen (alone, or among other things that could sound), which is also meant
without a kind, and `neg_...` where it cannot; the rest then names the kind. Boxes are fractions of the picture:
centre, width and height. A pair's truth is the boxes of its image and its class. To measure and to validate there must
be boxes. Where only other lists are there, the pairs to train on are those by name whose files no list names.

A clip is called IMAGE+AUDIO@START: both paths as the list has them, without their endings; START is `middle` for a
video without a start. Where two pictures (or two sounds) of a list differ in nothing but the ending they keep it, and a
+ in the path of a picture is written %2B, so that whatever stands before the first + is one picture. The order of the
lines plays no part. Audits tell pictures by their paths, endings included.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path, PurePath, PurePosixPath

from earsight.data.boxes import number, read_boxes, read_lines
from earsight.data.clips import ClipSet
from earsight.data.lists import some
from earsight.data.same_names import same_names
from earsight.errors import DataError, UsageError
from earsight.media.accept import CLIPS, PICTURES, VIDEOS
from earsight.media.read import read_clip, read_pair
from earsight.types import POSITIVE, Clip, Row

SPLITS = ("train", "val", "test")
DEFAULTS = {"train": "train", "val": "val", "test": "test"}

_POSITIVE_KINDS = ("", "single", "multi", POSITIVE)
_MIDDLE = "middle"
_BOXES = "boxes.csv"


@dataclass(frozen=True)
class _Pair:
    image: Path
    audio: Path
    start: float | None
    """Where the sound begins, in seconds; None for a video's own sound around its middle."""


class Folder(ClipSet):
    """The pairs of one split; `within` is the folder that their names begin in."""

    def __init__(
        self, name: str, rows: list[Row], pairs: list[_Pair], within: Path, notes: tuple[str, ...] = ()
    ) -> None:
        super().__init__(name, rows)
        self._pairs, self.within, self.notes = tuple(pairs), within, notes

    def read(self, index: int, rate: int, seconds: float, draw: int = 0) -> Clip:
        pair, id = self._pairs[index], self.rows[index].id
        if pair.start is None:
            return read_clip(pair.image, None, rate, seconds, id)
        return read_pair(pair.image, pair.audio, pair.start, rate, seconds, id)

    def files(self, index: int) -> tuple[Path, Path]:
        return self._pairs[index].image, self._pairs[index].audio


def open(split: str, data: Path | None) -> ClipSet:
    """The pairs of `split` in the folder `data`."""
    if data is None:
        raise UsageError(
            "Expected the folder of the set, but got none. Pass --data DIR with pictures and sounds of the same name."
        )
    if not data.is_dir():
        raise DataError(f"Expected a folder of pairs, but got {data}, which is not there. Check --data.")
    if missing(split, data):
        raise DataError(
            f"Expected {_list(split)} with columns image and audio (start, cls and kind are optional), but got none in "
            f"{data}. {_ADD[split]}{' To train without, use --val none.' * (split == 'val')}"
        )
    path, notes = data / _list(split), tuple[str, ...]()
    if path.is_file():
        lines = read_lines(path, ("image",))
    else:
        others = [data / _list(one) for one in SPLITS if (data / _list(one)).is_file()]
        held = {file for other in others for line in read_lines(other, ("image",)) for file in _files(data, *line)}
        found, notes = same_names(data, [_BOXES, *map(_list, SPLITS)], held)
        lines = [(image, {"image": image, "audio": audio}) for image, audio in found]
    boxes = read_boxes(data / _BOXES)
    files = [_files(data, *line) for line in lines]
    seen, heard = _short(image for image, _ in files), _short(sound for _, sound in files)
    rows: list[Row] = []
    pairs: list[_Pair] = []
    first: dict[tuple[str, str, float | None], str] = {}
    for (where, line), (image, sound) in zip(lines, files, strict=True):
        own = image == sound and _is_video(image)
        text = line.get("start") or (_MIDDLE if own else "0")
        start = None if own and text == _MIDDLE else number(where, "start", text, 0, math.inf)
        _need_new(first, (image, sound, start), where)
        kind, label = _kind(where, line.get("kind", "")), line.get("cls", "")
        truth = boxes[line["image"], label] if kind == POSITIVE else ()
        id = f"{_quoted(seen[image])}+{heard[sound]}@{text}"
        rows.append(Row(id, label, kind, tuple(truth), picture=_quoted(image), sound=_quoted(sound)))
        pairs.append(_Pair(data / image, data / sound, start))
    if not rows:
        raise DataError(f"Expected at least one pair, but got none in {path}.")
    bare = [row.id for row in rows if row.positive and not row.boxes]
    if bare and split != "train":
        positives = sum(row.positive for row in rows)
        raise DataError(
            f"Expected a box for every positive pair of folder:{split}, but got none for {len(bare)} of {positives}: "
            f"{some(bare)}. Add them to boxes.csv, or mark the pairs neg_<kind>; to train without, use --val none."
        )
    return Folder(f"folder:{split}", rows, pairs, data, notes)


def missing(split: str, data: Path) -> str:
    """Why a folder has no list of a split, and what to add; "" where it has one, as training pairs need none."""
    if split == "train" or not data.is_dir() or (data / _list(split)).is_file():
        return ""
    return f"there is no {_list(split)} in {data}. {_ADD[split]}"


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


_ADD = {
    "val": f"Add it, with {_BOXES}, to measure epochs and to calibrate the verdict.",
    "test": f"Add it, with {_BOXES}, to measure on it.",
}


def _list(split: str) -> str:
    return f"pairs_{split}.csv"


def _files(data: Path, where: str, line: dict[str, str]) -> tuple[str, str]:
    """Picture and sound of a line: the sound it names, or a video's own."""
    image, audio = line["image"], line.get("audio", "")
    if not audio and not _is_video(image):
        raise DataError(
            f"Expected a sound for {image} in {where}, but got no audio. Fill it in; only videos have their own sound."
        )
    return _inside(data, image, where), _inside(data, audio or image, where)


def _is_video(path: str) -> bool:
    return PurePosixPath(path).suffix.lower() in VIDEOS


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


def _need_new(first: dict[tuple[str, str, float | None], str], pair: tuple[str, str, float | None], where: str) -> None:
    """Refuse a pair that an earlier line has: it would count twice, and as a second sound of its picture."""
    if pair in first:
        image, sound, start = pair
        at = "its middle" if start is None else f"{start:g} s"
        raise DataError(
            f"Expected every pair once, but got {image} with {sound} from {at} in {where} and in {first[pair]}. "
            "Leave one out; of things that sound together, give the boxes one class."
        )
    first[pair] = where


def _kind(where: str, text: str) -> str:
    if text in _POSITIVE_KINDS:
        return POSITIVE
    if text.startswith("neg") and text.removeprefix("neg").strip("_"):
        return text.removeprefix("neg").strip("_")
    raise DataError(f"Expected kind single, multi or neg_<kind> in {where}, but got {text}. Correct that line.")
