"""Sample clips for the page: toy scenes, drawn and sounded here when it starts."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from earsight.data.toys.draw import background
from earsight.data.toys.scene import Scene, make_scene
from earsight.data.toys.sound import hiss, toy_sound
from earsight.data.toys.video import RATE, write_film, write_toys
from earsight.media.read import read_frame
from earsight.media.write import write_png
from earsight.types import U8

SECONDS = 4.0
_SIDE = 320


@dataclass(frozen=True)
class Sample:
    """A clip that comes with the page, and a picture of it to choose it by."""

    title: str
    clip: Path
    picture: Path


SCENES: tuple[tuple[str, str, str, int], ...] = (
    ("Bell", "bell", "bell", 3),
    ("Guitar", "guitar", "guitar", 22),
    ("Clock", "clock", "clock", 52),
    ("Frog", "frog", "frog", 28),
    ("Unseen drum", "", "drum", 30),
)
"""Title, the toy that is seen to sound, the one that is heard, and the seed of the scene."""


def write_samples(folder: Path) -> list[Sample]:
    """Write all samples into a folder; the same ones every time."""
    folder.mkdir(parents=True, exist_ok=True)
    film = folder / "film.mp4"
    write_film(film, 0, _SIDE)
    made = [_with_picture("In turns", film, 1.0)]
    for at, (title, seen, heard, seed) in enumerate(SCENES):
        scene = make_scene((seed, 91), sounding=seen or None, without=None if seen else heard)
        clip = folder / f"scene-{at}.mp4"
        write_scene(clip, scene, heard)
        made.append(_with_picture(title, clip, 0.0))
    return made


def write_scene(path: Path, scene: Scene, heard: str, seconds: float = SECONDS, side: int = _SIDE) -> None:
    """Write a scene as an mp4 file in which its toys swing a little and `heard` sounds."""
    pitch = scene.source.pitch if scene.source else 1.0
    wave = toy_sound(heard, pitch, (*scene.seed, 2), RATE, seconds)
    wave = 0.5 * wave / max(float(np.abs(wave).max()), 1e-9)
    wave = wave + hiss(np.random.default_rng((*scene.seed, 3)), len(wave), 0.001)
    write_toys(path, scene.toys, background(np.random.default_rng((*scene.seed, 1)), side), wave.astype(np.float32))


def _with_picture(title: str, clip: Path, time: float) -> Sample:
    picture = clip.with_suffix(".png")
    frame: U8 = read_frame(clip, time)[0]
    write_png(picture, np.ascontiguousarray(frame[:, ::2, ::2]))
    return Sample(title, clip, picture)
