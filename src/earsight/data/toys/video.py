"""A short film with toys: three swing about and take turns to sound; at the end a sound comes from off-screen."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from earsight.data.toys.draw import F64, TOYS, background, hue, paint_toy
from earsight.data.toys.scene import NAMES, Toy, pitch_of
from earsight.data.toys.sound import hiss, toy_sound
from earsight.media.write import VideoWriter, write_wav
from earsight.types import F32, Box

PLACES: tuple[Box, ...] = ((0.02, 0.08, 0.46, 0.58), (0.54, 0.04, 0.97, 0.5), (0.28, 0.52, 0.74, 0.98))
TURN = 3.0
FPS = Fraction(12)
RATE = 22050


def cast(seed: int) -> tuple[list[Toy], str]:
    """The three toys of a film in the order in which they sound, and the class that is only heard at the end."""
    random = np.random.default_rng((seed, 77))
    names = [str(name) for name in random.permutation(NAMES)]
    toys = []
    for name, box in zip(names, PLACES, strict=False):
        area = (box[2] - box[0]) * (box[3] - box[1])
        color = hue(TOYS[name][1], 0.85, 0.9)
        toys.append(Toy(name, box, color, bool(random.integers(2)), pitch_of(area, random)))
    return toys, names[len(PLACES)]


def soundtrack(seed: int) -> F32:
    """The toys' sounds one after the other, then the one from off-screen, (S,) at RATE."""
    toys, unseen = cast(seed)
    turns = [(toy.name, toy.pitch) for toy in toys] + [(unseen, 1.0)]
    parts = [toy_sound(name, pitch, (seed, 78, i), RATE, TURN) for i, (name, pitch) in enumerate(turns)]
    wave = np.concatenate([0.5 * part / max(float(np.abs(part).max()), 1e-9) for part in parts])
    return (wave + hiss(np.random.default_rng((seed, 79)), len(wave), 0.001)).astype(np.float32)


def write_film(path: Path, seed: int = 0, side: int = 320) -> None:
    """Write the film as an mp4 file with sound: twelve seconds, `side` pixels square."""
    toys, _ = cast(seed)
    write_toys(path, toys, background(np.random.default_rng((seed, 80)), side), soundtrack(seed))


def write_toys(path: Path, toys: Sequence[Toy], behind: F64, wave: F32) -> None:
    """Write an mp4 file in which toys swing before a background (side, side, 3), as long as a sound (S,) at RATE."""
    side = behind.shape[1]
    with TemporaryDirectory() as folder:
        sound = Path(folder) / "sound.wav"
        write_wav(sound, wave, RATE)
        with VideoWriter(path, side, side, FPS, sound_from=sound) as film:
            for i in range(round(len(wave) / RATE * FPS)):
                time = i / float(FPS)
                picture = behind.copy()
                for k, toy in enumerate(toys):
                    swing = 0.012 * np.array([math.sin(1.7 * time + k), math.cos(1.3 * time + 2 * k)] * 2)
                    x0, y0, x1, y1 = np.array(toy.box) + swing
                    moved = replace(toy, box=(float(x0), float(y0), float(x1), float(y1)))
                    paint_toy(picture, moved.name, moved.box, moved.color, moved.mirror)
                film.write((np.clip(picture, 0, 1) * 255).round().astype(np.uint8), time)
