"""A set of any length from a few hundred toys, of the sizes that videos have: media to measure speed with.

Every row is another picture and another sound: a toy scene is cut, mirrored, made brighter and grained anew, and its
sound is shifted and scaled. The grain makes the JPEG files about as long as those of real pictures.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np
import torch
from torch.nn.functional import interpolate

from earsight.data.clips import ClipSet
from earsight.data.toys.scene import NAMES, make_scene
from earsight.data.toys.sound import toy_sound
from earsight.types import F32, U8, Clip, Row

SPLITS = ("train", "test")
DEFAULTS = {"train": "train", "val": "", "test": "test"}
ROWS = 144_000
SIZES = ((256, 341), (256, 455), (341, 256), (256, 256))
"""Heights and widths, of which rows take one after the other."""
_SCENES, _SOUNDS = 256, 64  # what all rows are made of; painted and played once in each process
_SIDE, _SEEN = 128, 104  # of a scene, and of the part of it that a row shows
_GRAIN, _FIELD = 14, 480


class Generated(ClipSet):
    """The first `rows` of the set. `test` is half positives with a box each, half negatives without."""

    def __init__(self, split: str = "train", rows: int = ROWS) -> None:
        self.split, self._stream = split, SPLITS.index(split)
        made = [_row(f"{split}-{i:06d}", negative=split == "test" and i % 2 == 1) for i in range(rows)]
        super().__init__(f"benchmarks.generated:{split}", made)

    def __reduce__(self) -> tuple[type[Generated], tuple[str, int]]:
        return Generated, (self.split, len(self))  # a hundred thousand rows are made faster than they are carried

    def read(self, index: int, rate: int, seconds: float, draw: int = 0) -> Clip:
        random = np.random.default_rng((self._stream, index))
        frame = _picture(_scene(int(random.integers(_SCENES))), SIZES[index % len(SIZES)], random)
        sound = _sound(int(random.integers(_SOUNDS)), rate, seconds)
        wave = np.roll(sound, int(random.integers(len(sound)))) * np.float32(random.uniform(0.3, 1))
        return Clip(self.rows[index].id, frame, wave, rate, seconds / 2)


def open(split: str, data: Path | None = None) -> ClipSet:
    """All rows of the split; `python -m benchmarks.big_pack` packs as many of them as are wanted."""
    return Generated(split)


def _row(id: str, negative: bool) -> Row:
    return Row(id, kind="easy") if negative else Row(id, boxes=((0.25, 0.25, 0.75, 0.75),))


def _picture(scene: U8, size: tuple[int, int], random: np.random.Generator) -> U8:
    """Another picture (3, height, width) of a scene (3, 128, 128)."""
    top, left = (int(at) for at in random.integers(_SIDE - _SEEN, size=2))
    cut = torch.from_numpy(scene)[:, top : top + _SEEN, left : left + _SEEN]
    large: U8 = interpolate(cut[None], size=size, mode="bilinear")[0].numpy()
    y, x = (int(at) for at in random.integers(_FIELD - max(map(max, SIZES)), size=2))
    grain = _grain()[random.integers(2)][y : y + size[0], x : x + size[1]]
    out: U8 = large // 2 + grain + np.uint8(random.integers(100))  # at most 127 + 27 + 99
    return np.ascontiguousarray(out[:, :, ::-1]) if random.integers(2) else out


@cache
def _scene(number: int) -> U8:
    return make_scene((11, number)).paint(_SIDE)


@cache
def _sound(number: int, rate: int, seconds: float) -> F32:
    return toy_sound(NAMES[number % len(NAMES)], 2.0 ** (number % 7 / 3 - 1), (12, number), rate, seconds)


@cache
def _grain() -> U8:
    """Two fields of grain (2, 480, 480) with values of 0 to 27, as coarse as that of a compressed film."""
    random = np.random.default_rng(13)
    fine, coarse = (
        torch.from_numpy(random.normal(0, 1, (2, 1, side, side)).astype(np.float32)) for side in (_FIELD, _FIELD // 4)
    )
    both = 3 * fine + 5 * interpolate(coarse, size=(_FIELD, _FIELD), mode="bicubic")
    grain: U8 = both[:, 0].add(_GRAIN).clamp(0, 2 * _GRAIN - 1).byte().numpy()
    return grain
