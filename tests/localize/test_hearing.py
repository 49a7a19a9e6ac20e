"""Windows of sound over a file, against the whole file in memory."""

from __future__ import annotations

from pathlib import Path

import make
import numpy as np
import pytest

from earsight.data.clips import fit_waveform
from earsight.localize import given, hearing
from earsight.localize.hearing import Hearing


@pytest.fixture
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (given, hearing):
        monkeypatch.setattr(module, "CHUNK", 1.0)


@pytest.mark.parametrize("start", [0.0, 3.3, 5.9])
@pytest.mark.usefixtures("small_chunks")
def test_windows_are_those_of_the_whole_sound(tmp_path: Path, start: float) -> None:
    sound = make.chirp(6.0, 8000)
    path = make.wav(tmp_path / "a.wav", sound, 8000, tag=3)
    heard = Hearing(path, 8000, 1.5, 6.0, start)
    for time in np.arange(start, 6.2, 0.17):
        expected = fit_waveform(sound, 8000, time, 12000)
        np.testing.assert_allclose(heard.around(time), expected, atol=1e-6, err_msg=f"at {time}")


def test_sound_shorter_than_the_window_is_repeated(tmp_path: Path) -> None:
    sound = make.chirp(0.5, 8000)
    heard = Hearing(make.wav(tmp_path / "a.wav", sound, 8000, tag=3), 8000, 1.25, 0.5)
    np.testing.assert_allclose(heard.around(0.2), np.tile(sound, 3)[:10000], atol=1e-6)
    np.testing.assert_allclose(heard.around(0.4), np.tile(sound, 3)[:10000], atol=1e-6)


@pytest.mark.usefixtures("small_chunks")
def test_sound_that_ends_long_before_the_pictures_is_followed_by_silence(tmp_path: Path) -> None:
    sound = make.chirp(2.0, 8000)
    path = make.wav(tmp_path / "a.wav", sound, 8000, tag=3)
    heard = Hearing(path, 8000, 1.0, 7.0)
    np.testing.assert_allclose(heard.around(1.9)[:4800], sound[-4800:], atol=1e-6)
    assert not heard.around(3.0).any()
    assert not heard.around(7.0).any()
    late = Hearing(path, 8000, 1.0, 7.0, start=6.0)
    assert not late.around(6.0).any()


@pytest.mark.usefixtures("small_chunks")
def test_little_is_held_however_long_the_sound_is(tmp_path: Path) -> None:
    path = make.wav(tmp_path / "a.wav", np.ones(8000 * 30, np.int16), 8000)
    heard = Hearing(path, 8000, 0.5, 30.0)
    most = max(len(heard._held) for time in np.arange(0, 30, 0.2) if len(heard.around(time)))
    assert most <= 3 * 8000
