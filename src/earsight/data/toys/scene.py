"""What happens in a toy scene: which toys are where, which one sounds, and with what pitch.

Rows are made of this, and are the same on every machine: numpy's logarithms and powers differ in their last digit from
one processor to another, those of Python's math do not.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from earsight.data.toys.draw import TOYS, Color, background, hue, paint_toy
from earsight.types import U8, Box

NAMES = tuple(TOYS)
SIZES = ((0.010, 0.020, 0.08), (0.03, 0.17, 0.22), (0.20, 0.40, 0.48), (0.42, 0.58, 0.22))
"""Smallest area, largest area and share of the scenes: small, medium, large and huge, as the paper divides them."""


@dataclass(frozen=True)
class Toy:
    """One object in a scene; `pitch` follows from its size: the bigger, the lower."""

    name: str
    box: Box
    color: Color
    mirror: bool
    pitch: float


@dataclass(frozen=True)
class Scene:
    """Toys in painting order on a background; `source` is the one that makes the sound, or None."""

    toys: tuple[Toy, ...]
    source: Toy | None
    seed: tuple[int, ...]

    def paint(self, side: int) -> U8:
        """The picture, uint8 (3, side, side)."""
        random = np.random.default_rng((*self.seed, 1))
        picture = background(random, side)
        for toy in self.toys:
            paint_toy(picture, toy.name, toy.box, toy.color, toy.mirror)
        picture = picture * random.uniform(0.8, 1.15) + random.normal(0, 0.012, picture.shape)
        return (np.clip(picture, 0, 1) * 255).round().astype(np.uint8)


def pitch_of(area: float, random: np.random.Generator) -> float:
    """Bigger toys sound lower: two octaves between the smallest and the largest, give or take a semitone."""
    position = (math.log(area) - math.log(0.01)) / (math.log(0.6) - math.log(0.01))
    return float(2.0 ** (1 - 2 * position + random.uniform(-1, 1) / 12))


def _box(random: np.random.Generator, area: float) -> Box:
    aspect = math.exp(random.uniform(-0.45, 0.45))
    width, height = math.sqrt(area * aspect), math.sqrt(area / aspect)
    if width > 0.97:
        width, height = 0.97, area / 0.97
    if height > 0.97:
        width, height = area / 0.97, 0.97
    x, y = random.uniform(0, 1 - width), random.uniform(0, 1 - height)
    if random.uniform() < 0.5:  # half of the toys stand against a border, as things do in real pictures
        x, y = ((0.0, y), (1 - width, y), (x, 0.0), (x, 1 - height))[random.integers(4)]
    return float(x), float(y), float(x + width), float(y + height)


def _toy(random: np.random.Generator, name: str, area: float) -> Toy:
    color = hue(TOYS[name][1] + random.normal(0, 0.035), random.uniform(0.6, 1.0), random.uniform(0.6, 1.0))
    return Toy(name, _box(random, area), color, bool(random.integers(2)), pitch_of(area, random))


def draw_area(random: np.random.Generator) -> float:
    low, high, _ = SIZES[random.choice(len(SIZES), p=[s for _, _, s in SIZES])]
    return float(random.uniform(low, high))


def covered(front: Box, behind: Box) -> float:
    """Share of `behind` that `front` hides."""
    w = min(front[2], behind[2]) - max(front[0], behind[0])
    h = min(front[3], behind[3]) - max(front[1], behind[1])
    return max(w, 0) * max(h, 0) / ((behind[2] - behind[0]) * (behind[3] - behind[1]))


def make_scene(seed: tuple[int, ...], *, sounding: str | None = None, without: str | None = None) -> Scene:
    """A scene in which `sounding` (or any class, by the seed) is visible, with silent toys of other classes beside it.

    With `without`, no toy of that class is in the picture: the scene of a sound that comes from off-screen.
    """
    random = np.random.default_rng(seed)
    others = [n for n in NAMES if n not in (sounding, without)]
    source: Toy | None = None
    toys: list[Toy] = []
    if without is None:
        source = _toy(random, sounding or str(random.choice(NAMES)), draw_area(random))
        others = [n for n in others if n != source.name]
        toys.append(source)
    wanted = int(random.choice(4, p=(0.15, 0.45, 0.28, 0.12))) if source else int(random.integers(1, 4))
    for name in random.permutation(others)[:wanted]:
        for _ in range(12):  # every toy must be seen: at most a third of it may be hidden by another
            toy = _toy(random, str(name), float(random.uniform(0.03, 0.4)))
            if all(covered(t.box, toy.box) < 0.34 and covered(toy.box, t.box) < 0.34 for t in toys):
                toys.append(toy)
                break
    order = random.permutation(len(toys))  # the sounding toy stands in front no more often than the others
    return Scene(tuple(toys[i] for i in order), source, seed)
