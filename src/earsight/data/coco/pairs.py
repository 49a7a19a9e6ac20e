"""The clips of coco_esc: photos of a split with their sounds, which change from visit to visit in training."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from earsight.data.clips import ClipSet
from earsight.data.coco.lists import LENGTH, WINDOW, Pair, drawn, sounds
from earsight.data.coco.media import Media
from earsight.data.coco.splits import LISTS, NOISE, SILENCE
from earsight.data.pack import span
from earsight.types import I16, Clip, Row, floats

LOUDNESS = 0.1
"""Root of the mean square of noise; recordings have about that."""


class Pairs(ClipSet):
    """The pairs of one split. The middle of a pair's window is the moment of its photo.

    Args:
        split: of coco_esc.
        rows: what is known of the pairs.
        chosen: the pairs themselves, in the same order.
        media: where photos and sounds are.
    """

    def __init__(self, split: str, rows: Sequence[Row], chosen: Sequence[Pair], media: Media) -> None:
        super().__init__(f"coco_esc:{split}", rows)
        self._pairs, self._media, self._training = tuple(chosen), media, LISTS[split] == "train"

    def heard(self, index: int, draw: int) -> tuple[str, float]:
        """Name of the sound that a clip has on visit `draw`, and where its window begins."""
        pair = self._pairs[index]
        if not self._training or (draw == 0 and self._listed(pair)):
            return pair.sound, pair.start
        return drawn(pair.photo, pair.label, draw)

    def read(self, index: int, rate: int, seconds: float, draw: int = 0) -> Clip:
        pair, id = self._pairs[index], self.rows[index].id
        frame = self._media.photo(pair.photo)
        sound, start = self.heard(index, draw)
        first, last, time = span(round(LENGTH * rate), start + WINDOW / 2, rate, seconds)
        if sound in (SILENCE, NOISE):
            wave = floats(made(sound, pair.photo, rate)[first:last])
        else:
            wave = self._media.sound(sound, rate, first / rate, (last - first) / rate)
        return Clip(id, frame, wave, rate, time)

    def files(self, index: int) -> tuple[Path | None, Path | None]:
        """The files of a clip's picture and listed sound; None for one that is missing, and for what is made up."""
        pair = self._pairs[index]
        return self._media.photo_file(pair.photo), self._media.sound_file(self.heard(index, 0)[0])

    @staticmethod
    def _listed(pair: Pair) -> bool:
        """Whether the list names a sound for this photo's class; it does so for one class of each photo."""
        return sounds()[pair.sound].label == pair.label


def made(kind: str, photo: str, rate: int) -> I16:
    """Silence, or white noise that is another for every photo: int16 (LENGTH * rate,).

    >>> made("silence", "000000000042", 8).tolist() == [0] * 40
    True
    """
    samples = round(LENGTH * rate)
    if kind == SILENCE:
        return np.zeros(samples, np.int16)
    noise = np.random.default_rng(int(photo)).standard_normal(samples) * (LOUDNESS * 32768)
    return np.clip(np.round(noise), -32768, 32767).astype(np.int16)
