"""Sample clips for the page: toy scenes, drawn and sounded here when it starts."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from earsight.data.toys.draw import background, paint_toy
from earsight.data.toys.scene import Scene, Toy, make_scene
from earsight.data.toys.sound import hiss, toy_sound
from earsight.data.toys.video import write_film
from earsight.media.read import read_frame
from earsight.media.write import VideoWriter, write_png, write_wav
from earsight.types import U8

SECONDS = 4.0
FPS = Fraction(12)
RATE = 22050
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
    behind = background(np.random.default_rng((*scene.seed, 1)), side)
    with TemporaryDirectory() as folder:
        sound = Path(folder) / "sound.wav"
        write_wav(sound, wave.astype(np.float32), RATE)
        with VideoWriter(path, side, side, FPS, sound_from=sound) as film:
            for i in range(round(seconds * FPS)):
                time = i / float(FPS)
                picture = behind.copy()
                for k, toy in enumerate(scene.toys):
                    moved = _swung(toy, time, k)
                    paint_toy(picture, moved.name, moved.box, moved.color, moved.mirror)
                film.write((np.clip(picture, 0, 1) * 255).round().astype(np.uint8), time)


def _swung(toy: Toy, time: float, which: int) -> Toy:
    x, y = 0.01 * np.sin(1.7 * time + which), 0.01 * np.cos(1.3 * time + 2 * which)
    x0, y0, x1, y1 = toy.box
    return replace(toy, box=(float(x0 + x), float(y0 + y), float(x1 + x), float(y1 + y)))


def _with_picture(title: str, clip: Path, time: float) -> Sample:
    picture = clip.with_suffix(".png")
    frame: U8 = read_frame(clip, time)[0]
    write_png(picture, np.ascontiguousarray(frame[:, ::2, ::2]))
    return Sample(title, clip, picture)
