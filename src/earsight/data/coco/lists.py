"""The lists of coco_esc: which photos of COCO go with which sounds of ESC-50, and where each sound is active.

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
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np

from earsight.data.files import read_columns

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
SEEN = ("single", "multi")
"""Kinds of pairs whose source can be seen."""
WINDOW = 3.0
"""Seconds from a pair's start that a model hears."""
LENGTH = 5.0
"""Seconds of every sound of ESC-50."""
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


def drawn(photo: str, label: str, draw: int) -> tuple[str, float]:
    """The training sound that a photo's class has on visit `draw`, and where its window starts.

    Any training sound of the class, and any window that is active: a function of photo, class and visit.

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


def files() -> list[Path]:
    """The files that these lists are read from."""
    return [_file(name) for name in ("pairs_train.csv", "pairs_val.csv", "pairs_test.csv", "sounds.csv")]


def _file(name: str) -> Path:
    return Path(__file__).with_name(name)
