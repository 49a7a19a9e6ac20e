"""The lists of coco_esc: which photos of COCO go with which sounds of ESC-50, and the splits that are made of them.

Sounds are paired with photos by class; no photo was recorded together with its sound. pairs_train.csv, pairs_val.csv
and pairs_test.csv name photo, sound, start of a window of 3 s, class of the sound, and kind:

- single: the class can be seen, and no other of the eleven is large enough to be told as well.
- multi: two or three of the classes can be seen, and this one sounds.
- offscreen: the class of the sound is nowhere in the photo.
- no_object: none of the eleven classes is in the photo, and one of them sounds.
- ambience: none of the eleven is in the photo, and wind, rain or church bells are heard.

A class counts as seen when its boxes together cover 4 to 80 % of the photo and the largest of them at least 2 %. COCO
marks its classes wherever they are, so a class without a box is not there, and the negatives are certain. Photos and
sounds of one list are in no other: sounds of ESC-50's folds 1 to 3 train, fold 4 validates and fold 5 tests.

The splits:

- `train`: the 1342 training photos, each with the class that the list gives it. Every visit draws another training
  sound of that class and another window of it; visit 0 is the list's own.
- `train_all`: the same, with a clip for every class that can be seen in a photo.
- `val`: positives and negatives as listed, for selection and calibration.
- `single`: localization, one class in sight. `multi`: silent objects, of two or three classes in sight one sounds.
  `test`: both.
- `extended`: `test` and all negatives: offscreen, no_object, ambience, and 220 each of silence and noise, heard with
  photos that have a source in sight.
- `interactive`: photos with two or three classes in sight, once with the sound of each: the pairs of `multi`, listed
  photo by photo, on which the image-wise minimum (metrics/interactive.py) asks whether the map moves.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import numpy as np

from earsight.data.files import read_columns
from earsight.data.lists import some
from earsight.data.pairs import NOISE, SILENCE
from earsight.errors import DataError
from earsight.types import POSITIVE, Box, Row

CLASSES = {
    "dog": ("dog",),
    "cat": ("cat",),
    "bird": ("chirping_birds", "crow"),
    "cow": ("cow",),
    "sheep": ("sheep",),
    "airplane": ("airplane",),
    "train": ("train",),
    "car": ("car_horn", "engine"),
    "toilet": ("toilet_flush",),
    "keyboard": ("keyboard_typing",),
    "person": ("clapping", "coughing", "crying_baby", "laughing", "sneezing"),
}
"""The eleven classes, as COCO names its categories, and the categories of ESC-50 that are their sounds."""
AMBIENT = "ambient"
"""The class of sounds that nothing in a photo makes."""
AMBIENCE = ("church_bells", "rain", "wind")
FOLDS = {"train": ("1", "2", "3"), "val": ("4",), "test": ("5",)}
"""ESC-50's folds behind each list."""
SPLITS = {
    "train": "train",
    "train_all": "train",
    "val": "val",
    "single": "test",
    "multi": "test",
    "test": "test",
    "extended": "test",
    "interactive": "test",
}
"""The splits, and the list that each is made of."""
SEEN = ("single", "multi")
"""Kinds of pairs whose source can be seen."""
WINDOW = 3.0
"""Seconds from a pair's start that a model hears."""
LENGTH = 5.0
"""Seconds of every sound of ESC-50."""
MADE = 220
"""Clips each of silence and of noise in `extended`."""
Boxes = Mapping[tuple[str, str], Sequence[Box]]
"""Boxes by photo and class."""
_SEED = 11
_CLASS_OF = {category: name for name, heard in CLASSES.items() for category in heard} | dict.fromkeys(AMBIENCE, AMBIENT)


@dataclass(frozen=True)
class Pair:
    """A photo and the window of a sound that goes with it; the window begins at `start`, in seconds.

    `visible` names all classes that can be seen, where the list says so: in training.
    """

    photo: str
    sound: str
    start: float
    label: str
    kind: str
    visible: tuple[str, ...] = ()


@dataclass(frozen=True)
class Sound:
    """A sound of ESC-50: its category there, its list, and from when to when it is heard, in seconds."""

    name: str
    category: str
    list: str
    active: tuple[float, float]

    @property
    def label(self) -> str:
        return _CLASS_OF[self.category]

    @property
    def starts(self) -> tuple[float, float]:
        """Earliest and latest start of a window that is filled with sound, or that has all of a short one in it.

        >>> Sound("a", "dog", "train", (0.2, 4.6)).starts, Sound("b", "dog", "train", (2.24, 2.58)).starts
        ((0.2, 1.6), (2.0, 2.0))
        """
        first = min(self.active[0], LENGTH - WINDOW)
        return first, max(first, round(min(self.active[1], LENGTH) - WINDOW, 2))


@cache
def pairs(name: str) -> tuple[Pair, ...]:
    """The pairs of the list "train", "val" or "test", in its order."""
    return tuple(
        Pair(
            line["photo"],
            line["sound"],
            float(line["start"]),
            line["cls"],
            line["kind"],
            tuple(line.get("visible", "").split("|")) if "visible" in line else (),
        )
        for _, line in read_columns(_file(f"pairs_{name}.csv"), ("photo", "sound", "start", "cls", "kind"))
    )


@cache
def sounds() -> dict[str, Sound]:
    """Every sound of the lists by name."""
    columns = ("sound", "category", "split", "active_from", "active_to")
    found = (tuple(line[column] for column in columns) for _, line in read_columns(_file("sounds.csv"), columns))
    return {name: Sound(name, category, split, (float(a), float(b))) for name, category, split, a, b in found}


def photos(name: str) -> tuple[str, ...]:
    """The photos of a list, each once."""
    return tuple(dict.fromkeys(pair.photo for pair in pairs(name)))


def files() -> list[Path]:
    """The files that these lists are read from."""
    return [_file(name) for name in ("pairs_train.csv", "pairs_val.csv", "pairs_test.csv", "sounds.csv")]


def _file(name: str) -> Path:
    return Path(__file__).with_name(name)


def pairs_of(split: str) -> list[Pair]:
    """The pairs of a split; those of training name no sound beyond what visit 0 hears."""
    listed = pairs(SPLITS[split])
    if split == "train_all":
        return [replace(pair, label=label) for pair in listed for label in pair.visible]
    if split in ("train", "val"):
        return list(listed)
    if split in SEEN:
        return [pair for pair in listed if pair.kind == split]
    if split == "interactive":
        return sorted((pair for pair in listed if pair.kind == "multi"), key=lambda pair: pair.photo)
    if split == "test":
        return [pair for pair in listed if pair.kind in SEEN]
    return [*listed, *_synthetic(SILENCE, 0), *_synthetic(NOISE, 1)]


def _synthetic(kind: str, shift: int) -> list[Pair]:
    """Photos with a source in sight, spread over the list, with a sound that no one made."""
    seen = list(dict.fromkeys(pair.photo for pair in pairs("test") if pair.kind in SEEN))
    start = (LENGTH - WINDOW) / 2
    return [Pair(seen[(2 * i + shift) * len(seen) // (2 * MADE)], kind, start, "", kind) for i in range(MADE)]


def is_training(split: str) -> bool:
    return SPLITS[split] == "train"


def name_of(pair: Pair, training: bool) -> str:
    """The id of a pair: the photo, then the class in training, where sounds change, and else the sound."""
    if training:
        return f"{pair.photo}+{pair.label}"
    return f"{pair.photo}+{pair.sound}" + ("" if pair.kind in (SILENCE, NOISE) else f"@{pair.start}")


def rows_of(split: str, chosen: Sequence[Pair], boxes: Boxes, source: str) -> list[Row]:
    """What is known of these pairs, with the boxes of the photo's class; `source` names where boxes came from."""
    training = is_training(split)
    rows = []
    for pair in chosen:
        seen = pair.kind in SEEN
        truth = tuple(sorted(boxes.get((pair.photo, pair.label), ()))) if seen else ()
        sound = "" if training else pair.sound
        rows.append(
            Row(name_of(pair, training), pair.label, POSITIVE if seen else pair.kind, truth, 1, pair.photo, sound)
        )
    bare = [row.id for row in rows if row.positive and not row.boxes]
    if bare:
        raise DataError(
            f"Expected boxes for every positive of coco_esc:{split} in {source}, but got none for {len(bare)} of "
            f"{sum(row.positive for row in rows)}: {some(bare)}. Use the boxes of COCO train2017, all of them."
        )
    return rows


def sound_of_visit(row: Row, listed: tuple[str, float], draw: int) -> tuple[str, float]:
    """The training sound of a row on visit `draw`, and where its window starts: on visit 0 the listed one.

    The list names a sound for one class of each photo; a row of another class has a drawn one on visit 0 too.
    """
    if draw == 0 and sounds()[listed[0]].label == row.label:
        return listed
    return drawn(row.picture, row.label, draw)


def drawn(photo: str, label: str, draw: int) -> tuple[str, float]:
    """Any training sound of the class, and any window that is active: a function of photo, class and visit.

    >>> drawn("000000000071", "train", 1) == drawn("000000000071", "train", 1) != drawn("000000000071", "train", 2)
    True
    """
    pool = _pool(label)
    random = np.random.default_rng((_SEED, draw, int(photo), list(CLASSES).index(label)))
    sound = pool[random.integers(len(pool))]
    return sound.name, round(float(random.uniform(*sound.starts)), 2)


@cache
def _pool(label: str) -> tuple[Sound, ...]:
    return tuple(sound for sound in sounds().values() if sound.list == "train" and sound.label == label)
