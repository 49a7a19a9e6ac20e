"""Stopping: what was finished is kept, whole and marked."""

from __future__ import annotations

import json
import signal
import threading
from pathlib import Path

import make
import numpy as np
import pytest

from earsight.localize import Localizer, graceful_interrupt
from earsight.media.read import iter_frames, probe, read_audio, read_image
from tiny.localized import run_video


def test_the_first_interrupt_is_noted_and_the_second_interrupts() -> None:
    before = signal.getsignal(signal.SIGINT)
    with graceful_interrupt() as asked:
        assert not asked()
        signal.raise_signal(signal.SIGINT)
        assert asked()
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is before


def test_other_threads_take_no_signals() -> None:
    found: list[bool] = []

    def work() -> None:
        with graceful_interrupt() as asked:
            found.append(asked())

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert found == [False]


def test_a_stopped_video_leaves_films_and_answers_up_to_there(trusting: Localizer, tmp_path: Path) -> None:
    path = make.steps(tmp_path / "a.mp4", 6.0, 10)
    shown: list[float] = []
    timeline = run_video(
        trusting,
        path,
        tmp_path / "out",
        formats=("mp4", "png", "json", "npz"),
        batch_size=2,
        progress=lambda done, total: shown.append(done),
        stop=lambda: len(shown) >= 25,
    )
    assert timeline.partial
    film = tmp_path / "out" / "a.earsight.mp4"
    assert len(list(iter_frames(film))) == 25
    assert probe(film).duration == pytest.approx(2.5, abs=0.15)
    assert len(read_audio(film, 8000)) == pytest.approx(2.5 * 8000, abs=1200)
    values = json.loads((tmp_path / "out" / "a.earsight.json").read_text())
    assert values["partial"] is True
    times = [item["time"] for item in values["items"]]
    assert times == pytest.approx([0.2 * i for i in range(len(times))])
    assert 2.4 <= times[-1] < 5.0
    with np.load(tmp_path / "out" / "a.earsight.npz") as maps:
        assert len(maps["maps"]) == len(times)
    assert read_image(tmp_path / "out" / "a.earsight.png").size
    assert shown[-1] < 3
    assert not [file for file in (tmp_path / "out").iterdir() if file.name.startswith(".")]


def test_stopped_before_the_first_answer_only_says_so(trusting: Localizer, tmp_path: Path) -> None:
    path = make.steps(tmp_path / "a.mp4", 1.0, 10)
    timeline = run_video(trusting, path, tmp_path / "out", stop=lambda: True)
    assert timeline.partial
    assert timeline.items == ()
    assert [file.name for file in (tmp_path / "out").iterdir()] == ["a.earsight.json"]
    assert json.loads(timeline.files[0].read_text())["items"] == []


def test_a_stop_that_comes_after_the_work_changes_nothing(trusting: Localizer, tmp_path: Path) -> None:
    path = make.steps(tmp_path / "a.mp4", 1.0, 10)
    shown: list[float] = []
    timeline = run_video(
        trusting, path, tmp_path, progress=lambda done, total: shown.append(done), stop=lambda: len(shown) >= 10
    )
    assert not timeline.partial
    assert len(list(iter_frames(tmp_path / "a.earsight.mp4"))) == 10


@pytest.mark.parametrize("interrupted", ["write_json", "write_sheet", "MapsFile.write"])
def test_a_second_interrupt_leaves_no_half_film_without_its_mark(
    trusting: Localizer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, interrupted: str
) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(f"earsight.localize.video.{interrupted}", interrupt)
    path = make.steps(tmp_path / "a.mp4", 3.0, 10)
    shown: list[float] = []
    with pytest.raises(KeyboardInterrupt):
        run_video(
            trusting,
            path,
            tmp_path / "out",
            formats="mp4,png,json,npz",
            batch_size=2,
            progress=lambda done, total: shown.append(done),
            stop=lambda: len(shown) >= 5,
        )
    left = {file.name for file in (tmp_path / "out").iterdir()}
    assert "a.earsight.mp4" not in left
    assert not any(name.startswith(".") for name in left)
    if left:
        assert json.loads((tmp_path / "out" / "a.earsight.json").read_text())["partial"] is True
