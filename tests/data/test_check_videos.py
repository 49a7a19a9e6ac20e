"""Whether a video's pictures move, and whether its pictures and its sound are equally long."""

from __future__ import annotations

from pathlib import Path

import make
import numpy as np
import pytest

from earsight.data.check import mistimed, still
from earsight.media.read import probe
from earsight.types import U8


def film(path: Path, pictures: list[U8], fps: int = 5, sound: float = 0.0) -> Path:
    """A video of uint8 (3, H, W) pictures, with `sound` seconds of a rising tone."""
    shown = [np.ascontiguousarray(picture.transpose(1, 2, 0)) for picture in pictures]
    made: Path = make.video(path, shown, [k / fps for k in range(len(shown))], make.chirp(sound) if sound else None)
    return made


def noisy() -> U8:
    return np.random.default_rng(0).integers(0, 256, (3, 96, 128), dtype=np.uint8)


def test_a_photo_with_a_soundtrack_is_still(tmp_path: Path) -> None:
    assert still(probe(film(tmp_path / "photo.mp4", [noisy()] * 20)))


def test_a_small_thing_that_moves_is_seen(tmp_path: Path) -> None:
    pictures = []
    for k in range(20):
        picture = noisy()
        picture[:, 40:56, 4 * k : 4 * k + 16] = 255
        pictures.append(picture)
    assert not still(probe(film(tmp_path / "moves.mp4", pictures)))


@pytest.mark.parametrize("ending", [".mp4", ".mkv"])
@pytest.mark.parametrize(("pictures", "sound", "wrong"), [(4, 4, False), (4, 4.4, False), (4, 2, True), (2, 4, True)])
def test_pictures_and_sound_must_be_equally_long(
    tmp_path: Path, ending: str, pictures: float, sound: float, wrong: bool
) -> None:
    path = film(tmp_path / f"clip{ending}", [noisy()] * round(pictures * 10), fps=10, sound=sound)
    said = mistimed(probe(path))
    assert bool(said) == wrong
    if wrong:
        words = said.split()
        assert float(words[1]) == pytest.approx(pictures, abs=0.2)
        assert float(words[6]) == pytest.approx(sound, abs=0.1)


def test_a_sound_that_ends_long_before_the_pictures_is_told_as_at_most(tmp_path: Path) -> None:
    info = probe(film(tmp_path / "long.mp4", [noisy()] * 40, fps=1, sound=2.0))
    assert " s of pictures with at most " in mistimed(info)
