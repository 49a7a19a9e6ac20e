"""Built-in set: drawn toys and the sounds they make, made up on the fly from a seed; nothing is downloaded.

Every scene has clutter, usually silent toys of other classes, and one toy that sounds. A toy's pitch follows its size.

Splits: `train` (positives), `val` (extended, for selection and calibration), `test` (positives) and `extended`: as many
negatives as positives, of the paper's three kinds:

- real: the picture really goes with this sound, but nothing visible makes it. Either the toy is off-screen, or the
  toys in the picture are silent and only the room is heard.
- easy: a positive's picture with the sound of another class that is not in the picture.
- hard: a positive's picture with the sound of the same class, made by a toy of clearly another size: at least an octave
  away in pitch. The picture shows something that makes such sounds, but not this one.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np

from earsight.data.clips import ClipSet
from earsight.data.toys.scene import NAMES, Scene, Toy, draw_area, make_scene, pitch_of
from earsight.data.toys.sound import hiss, toy_sound
from earsight.errors import UsageError
from earsight.types import POSITIVE, Clip, Row

SPLITS = ("train", "val", "test", "extended")
DEFAULTS = {"train": "train", "val": "val", "test": "extended"}
COUNTS = {"train": 3072, "val": 128, "test": 384, "extended": 384}
"""Positives in each split; val and extended hold as many negatives again."""
KINDS = (("real", 0.3), ("easy", 0.45), ("hard", 0.25))
SIDE = 128
CACHED = 4096
_STREAM = {"train": 1, "val": 2, "test": 3, "extended": 3}


@dataclass(frozen=True)
class _Sound:
    """What is heard: a toy's name and pitch, or nobody (name None)."""

    name: str | None
    pitch: float
    seed: tuple[int, ...]


class Toybox(ClipSet):
    """Scenes of one split. `seed` makes another toybox of the same kind."""

    def __init__(self, split: str, seed: int = 0) -> None:
        scenes: list[Scene] = []
        sounds: list[_Sound] = []
        rows: list[Row] = []
        stream = (seed, _STREAM[split])
        positives = COUNTS[split]
        for i in range(positives):
            scene = make_scene((*stream, 0, i))
            toy = _source(scene)
            scenes.append(scene)
            sounds.append(_Sound(toy.name, toy.pitch, (*stream, 1, i)))
            rows.append(Row(f"{split}-{i:05d}", toy.name, POSITIVE, (toy.box,)))
        if split in ("val", "extended"):
            kinds = [k for k, share in KINDS for _ in range(round(share * positives))][:positives]
            kinds += ["easy"] * (positives - len(kinds))
            for i, kind in enumerate(kinds):
                scene, sound = _negative(kind, scenes[i], (*stream, 2, i))
                scenes.append(scene)
                sounds.append(sound)
                rows.append(Row(f"{split}-{kind}-{i:05d}", sound.name or "", kind))
        self._scenes, self._sounds = scenes, sounds
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


def _negative(kind: str, positive: Scene, seed: tuple[int, ...]) -> tuple[Scene, _Sound]:
    """A scene and a sound that nothing in it makes."""
    random = np.random.default_rng(seed)
    if kind == "real":
        name = str(random.choice(NAMES))
        if random.uniform() < 0.5:
            return make_scene((*seed, 1)), _Sound(None, 1.0, (*seed, 2))
        return make_scene((*seed, 1), without=name), _Sound(name, pitch_of(draw_area(random), random), (*seed, 2))
    if kind == "easy":
        visible = {toy.name for toy in positive.toys}
        name = str(random.choice([n for n in NAMES if n not in visible]))
        return positive, _Sound(name, pitch_of(draw_area(random), random), (*seed, 2))
    toy = _source(positive)
    while True:
        pitch = pitch_of(draw_area(random), random)
        if abs(np.log2(pitch / toy.pitch)) >= 1:
            return positive, _Sound(toy.name, pitch, (*seed, 2))


def open(split: str, data: Path | None = None) -> ClipSet:
    """The split, made from the built-in seed; there is no folder to give."""
    if data is not None:
        raise UsageError(f"Expected no --data for toybox, which is made up on the fly, but got {data}. Leave it out.")
    return Toybox(split)
