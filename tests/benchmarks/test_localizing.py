"""The plain localizer of videos sees and hears what earsight's does."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from benchmarks.reference import localizing, training
from benchmarks.twins import twin

import tiny
from earsight.data.toys.video import write_film
from earsight.localize.inputs import AudioWindows
from earsight.media.read import iter_frames, probe
from earsight.methods import slavc

pytest.importorskip("av")


@pytest.fixture(scope="module")
def film(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("film") / "film.mp4"
    write_film(path, side=64)
    return path


def test_every_frame_is_written(film: Path, tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = twin(slavc.Model(tiny.config(), tiny.INPUTS), training.small_pair(tiny.SMALL.width)).eval()
    count = localizing.localize_video(model, film, tmp_path / "out.mp4", tiny.INPUTS)
    assert count == len(list(iter_frames(tmp_path / "out.mp4"))) == len(list(iter_frames(film)))
    assert (probe(tmp_path / "out.mp4").width, probe(tmp_path / "out.mp4").height) == (64, 64)


def test_the_sound_around_a_time_is_ours(film: Path) -> None:
    sound = localizing.soundtrack(film, tiny.INPUTS.rate)
    ours = AudioWindows(film, tiny.INPUTS.rate, tiny.INPUTS.seconds, probe(film).duration)
    for time in (0.0, 3.3, 7.25):
        theirs = localizing.around(sound, time, tiny.INPUTS)
        heard = ours.around(time)
        assert theirs.shape == heard.shape
        assert np.corrcoef(theirs, heard)[0, 1] > 0.98


def test_heat_goes_from_blue_to_red() -> None:
    picture = np.zeros((1, 3, 3), np.uint8)
    blue, green, red = localizing.painted(picture, np.array([[0.0, 0.5, 1.0]], np.float32))[0].tolist()
    assert np.argmax(blue) == 2
    assert np.argmax(green) == 1
    assert np.argmax(red) == 0
