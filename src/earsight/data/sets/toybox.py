"""Built-in set: drawn toys and the sounds they make, made up on the fly from a seed; nothing is downloaded.

Every scene has clutter, usually silent toys of other classes, and one toy that sounds. A toy's pitch follows its size.

Splits: `train` (positives), `val` (extended, for selection and calibration), `test` (positives) and `extended`: as many
negatives as positives, of the paper's three kinds:

- real: the picture really goes with this sound, but nothing visible makes it. Either the toy is off-screen, or the
  toys in the picture are silent and only the room is heard.
- easy: a positive's picture with the sound of another class that is not in the picture.
- hard: a positive's picture with the sound of the same class, made by a toy of clearly another size: at least an octave
  away in pitch. The picture shows something that makes such sounds, but not this one.

For open-set trials the classes are divided in two halves: `train_heard` (positives) and `heard` hold toys of one half
alone, and `unheard` those of the other, which no clip of the two has shown or let be heard. `heard` and `unheard` are
extended sets, with negatives made of the same half. `val` has all classes: validate on none (--val none), or say so.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import numpy as np

from earsight.data.clips import ClipSet
from earsight.data.toys.draw import TOYS, hue
from earsight.data.toys.scene import NAMES, Scene, Toy, draw_area, make_scene, pitch_of
from earsight.data.toys.sound import hiss, toy_sound
from earsight.errors import UsageError
from earsight.types import POSITIVE, Clip, Row

SPLITS = ("train", "val", "test", "extended", "train_heard", "heard", "unheard")
KNOWS = "drawn toys of the built-in set only"
"""What a model knows that was trained on them."""
DEFAULTS = {"train": "train", "val": "val", "test": "extended"}
COUNTS = {"train": 3072, "val": 128, "test": 384, "extended": 384, "train_heard": 3072, "heard": 192, "unheard": 192}
"""Positives in each split; the extended ones hold as many negatives again."""
EXTENDED = ("val", "extended", "heard", "unheard")
HALVES = {"train_heard": NAMES[::2], "heard": NAMES[::2], "unheard": NAMES[1::2]}
"""Classes of the splits that do not have all."""
KINDS = (("real", 0.3), ("easy", 0.45), ("hard", 0.25))
SIDE = 128
CACHED = 4096
_STREAM = {"train": 1, "val": 2, "test": 3, "extended": 3, "train_heard": 4, "heard": 5, "unheard": 6}


@dataclass(frozen=True)
class _Sound:
    """What is heard: a toy's name and pitch, or nobody (name None)."""

    name: str | None
    pitch: float
    seed: tuple[int, ...]


class _Plan(NamedTuple):
    """What is seen and heard in each clip of a split."""

    scenes: tuple[Scene, ...]
    sounds: tuple[_Sound, ...]
    rows: tuple[Row, ...]


@lru_cache(maxsize=len(SPLITS))
def _plan(split: str, positives: int, seed: int) -> _Plan:
    """Kept, since a set is opened several times: to train on, to be measured on, and to look for test clips in it."""
    scenes: list[Scene] = []
    sounds: list[_Sound] = []
    rows: list[Row] = []
    stream = (seed, _STREAM[split])
    names = HALVES.get(split, NAMES)
    for i in range(positives):
        scene = _scene((*stream, 0, i), names)
        toy = _source(scene)
        scenes.append(scene)
        sounds.append(_Sound(toy.name, toy.pitch, (*stream, 1, i)))
        rows.append(Row(f"{split}-{i:05d}", toy.name, POSITIVE, (toy.box,)))
    if split in EXTENDED:
        kinds = [k for k, share in KINDS for _ in range(round(share * positives))][:positives]
        kinds += ["easy"] * (positives - len(kinds))
        for i, kind in enumerate(kinds):
            scene, sound = _negative(kind, scenes[i], (*stream, 2, i), names)
            scenes.append(scene)
            sounds.append(sound)
            rows.append(Row(f"{split}-{kind}-{i:05d}", sound.name or "", kind))
    return _Plan(tuple(scenes), tuple(sounds), tuple(rows))


class Toybox(ClipSet):
    """Scenes of one split. `seed` makes another toybox of the same kind."""

    def __init__(self, split: str, seed: int = 0) -> None:
        self._scenes, self._sounds, rows = _plan(split, COUNTS[split], seed)
        self._remember()
        super().__init__(f"toybox:{split}", rows)

    def read(self, index: int, rate: int, seconds: float, draw: int = 0) -> Clip:
        return self._read(index, rate, seconds)

    def _remember(self) -> None:
        self._read = lru_cache(maxsize=CACHED)(self._make)

    def __getstate__(self) -> dict[str, object]:
        # The memory of made clips cannot cross a process border, and each data worker sees other clips anyway.
        return {key: value for key, value in self.__dict__.items() if key != "_read"}

    def __setstate__(self, state: dict[str, object]) -> None:
        self.__dict__.update(state)
        self._remember()

    def _make(self, index: int, rate: int, seconds: float) -> Clip:
        sound = self._sounds[index]
        if sound.name is None:
            wave = hiss(np.random.default_rng(sound.seed), round(rate * seconds), 0.002)
        else:
            wave = toy_sound(sound.name, sound.pitch, sound.seed, rate, seconds)
        return Clip(self.rows[index].id, self._scenes[index].paint(SIDE), wave, rate, seconds / 2)


def _source(scene: Scene) -> Toy:
    if scene.source is None:
        raise ValueError("Expected a scene with a visible source, but got one without.")
    return scene.source


def _scene(seed: tuple[int, ...], names: tuple[str, ...], without: str | None = None) -> Scene:
    """A scene with toys of `names` alone; with `without`, one in which that class is not to be seen."""
    scene = make_scene(seed, without=without)
    return scene if names == NAMES else _recast(scene, [name for name in names if name != without])


def _recast(scene: Scene, names: list[str]) -> Scene:
    """The scene with other toys in the same places, as large and as deep in pitch.

    At most two silent toys stay beside one that sounds: an easy negative needs a class that is not to be seen.
    """
    random = np.random.default_rng((*scene.seed, 2))
    silent = [toy for toy in scene.toys if toy is not scene.source][: 2 if scene.source else len(names)]
    cast = [toy for toy in scene.toys if toy is scene.source or toy in silent]
    found = []
    for toy, drawn in zip(cast, random.permutation(names), strict=False):
        name = str(drawn)
        color = hue(TOYS[name][1] + random.normal(0, 0.035), random.uniform(0.6, 1.0), random.uniform(0.6, 1.0))
        found.append(replace(toy, name=name, color=color))
    source = found[cast.index(scene.source)] if scene.source else None
    return Scene(tuple(found), source, scene.seed)


def _negative(
    kind: str, positive: Scene, seed: tuple[int, ...], names: tuple[str, ...] = NAMES
) -> tuple[Scene, _Sound]:
    """A scene and a sound that nothing in it makes; the toys that are seen or heard are of `names`."""
    random = np.random.default_rng(seed)
    if kind == "real":
        name = str(random.choice(names))
        if random.uniform() < 0.5:
            return _scene((*seed, 1), names), _Sound(None, 1.0, (*seed, 2))
        scene = _scene((*seed, 1), names, without=name)
        return scene, _Sound(name, pitch_of(draw_area(random), random), (*seed, 2))
    if kind == "easy":
        visible = {toy.name for toy in positive.toys}
        name = str(random.choice([n for n in names if n not in visible]))
        return positive, _Sound(name, pitch_of(draw_area(random), random), (*seed, 2))
    toy = _source(positive)
    while True:
        pitch = pitch_of(draw_area(random), random)
        if abs(math.log2(pitch / toy.pitch)) >= 1:
            return positive, _Sound(toy.name, pitch, (*seed, 2))


def open(split: str, data: Path | None = None) -> ClipSet:
    """The split, made from the built-in seed; there is no folder to give."""
    if data is not None:
        raise UsageError(f"Expected no --data for toybox, which is made up on the fly, but got {data}. Leave it out.")
    return Toybox(split)
