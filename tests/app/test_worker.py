"""The worker: a clip that kills, hangs or eats memory costs nothing but itself."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path

import make
import pytest

from earsight.app import nursery
from earsight.app.limits import PageLimits
from earsight.app.samples import write_samples
from earsight.app.shelf import Shelf
from earsight.app.visit import OTHER, OWN, Desk
from earsight.app.worker import Worker, WorkError
from earsight.errors import EarsightError

pytestmark = pytest.mark.slow
LIMITS = PageLimits(megabytes=2, seconds=5, pixels=2_000_000, run_seconds=15, every=0.25)


@pytest.fixture(scope="module")
def worker(weights: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Worker]:
    one = Worker([weights], "cpu", LIMITS, tmp_path_factory.mktemp("work"))
    one.start()
    yield one
    one.close()


def test_clip_is_answered_with_files_and_progress(worker: Worker, clips: Path, tmp_path: Path) -> None:
    told: list[float] = []
    (found,) = worker.ask(clips / "good.mp4", None, tmp_path, told.append)
    assert [item[1] for item in found["items"]] == ["visible source"] * 4
    assert told == sorted(told)
    names = sorted(one.name for one in tmp_path.iterdir())
    assert names == ["earsight-1.json", "earsight-1.mp4", *(f"frame-1-000{k}.jpg" for k in range(4))]


@pytest.mark.parametrize("swap", [False, True])
@pytest.mark.parametrize(("seconds", "cut"), [(4.9, 0.0), (5.0, 0.0), (7.0, 5.0)])
def test_recording_that_does_not_say_its_length_is_cut_and_that_is_told(
    worker: Worker, tmp_path: Path, seconds: float, cut: float, swap: bool
) -> None:
    endless = make.without_length(make.steps(tmp_path / "a.mkv", seconds, 10), tmp_path / "endless.mkv")
    (found,) = worker.ask(endless, endless if swap else None, _folder(tmp_path / "out"), lambda share: None)
    assert found["cut"] == cut
    assert found["items"][-1][0] < 5


def test_page_is_told_what_else_there_is_to_know_of_a_clip(worker: Worker, tmp_path: Path) -> None:
    two = make.steps(tmp_path / "a.mkv", 1.0, 10, tracks=2)
    (found,) = worker.ask(two, None, _folder(tmp_path / "out"), lambda share: None)
    assert found["notes"] == ["there are 2 sound tracks, of which the first was heard"]


def test_worker_is_replaced_after_its_process_is_killed(worker: Worker, clips: Path, tmp_path: Path) -> None:
    process = worker._process
    assert process is not None
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    assert worker.ask(clips / "good.mp4", None, tmp_path, lambda share: None)


def test_clip_over_its_time_is_stopped(weights: Path, clips: Path, tmp_path: Path) -> None:
    short = Worker([weights], "cpu", PageLimits(run_seconds=0.1, seconds=20, every=0.05), tmp_path)
    try:
        with pytest.raises(WorkError, match=r"Expected a clip that is done in 0\.1 s, but this one takes longer\. Cut"):
            short.ask(clips / "long.mp4", None, tmp_path, lambda share: None)
        assert not list(tmp_path.glob("job-*")), "scratch files are removed"
    finally:
        short.close()


def test_exported_model_answers_as_its_weights_do(weights: Path, worker: Worker, clips: Path, tmp_path: Path) -> None:
    from earsight.export import export_onnx

    exported = Worker([export_onnx(weights, tmp_path / "model.onnx").path], "cpu", LIMITS, tmp_path)
    try:
        (of_weights,) = worker.ask(clips / "good.mp4", None, _folder(tmp_path / "a"), lambda share: None)
        for name in ("b", "c"):  # a child loads it each time
            (found,) = exported.ask(clips / "good.mp4", None, _folder(tmp_path / name), lambda share: None)
            assert found["threshold"] == of_weights["threshold"]
            for one, other in zip(found["items"], of_weights["items"], strict=True):
                assert one[:2] == other[:2]
                assert one[2] == pytest.approx(other[2], abs=1e-4)
            assert (tmp_path / name / "earsight-1.mp4").is_file()
        assert exported.models[0]["method"] == "slavc"
    finally:
        exported.close()


def test_clip_is_checked_once_and_before_models_are_loaded(
    clips: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from earsight.app import work
    from earsight.errors import MediaError

    seen: list[Path] = []
    probe = work.probe
    monkeypatch.setattr(work, "probe", lambda path, limits: seen.append(path) or probe(path, limits))

    def load() -> list[object]:
        raise AssertionError("models are loaded for a clip that is refused")

    with pytest.raises(MediaError, match="has no sound"):
        work.work(load, clips / "mute.mp4", None, tmp_path, tmp_path, LIMITS, lambda share: None)  # type: ignore[arg-type]
    assert seen == [clips / "mute.mp4"]


def _folder(path: Path) -> Path:
    path.mkdir()
    return path


def test_closing_does_not_wait_for_the_clip_at_hand(weights: Path, clips: Path, tmp_path: Path) -> None:
    one = Worker([weights], "cpu", PageLimits(run_seconds=600, seconds=20, every=0.05), tmp_path)
    begun, raised = threading.Event(), []

    def ask() -> None:
        with pytest.raises(WorkError, match="the work on it broke off") as caught:
            one.ask(clips / "long.mp4", None, tmp_path, lambda share: begun.set())
        raised.append(caught.value)

    asking = threading.Thread(target=ask)
    asking.start()
    assert begun.wait(120)
    one.close()
    asking.join(60)
    assert raised
    with pytest.raises(WorkError, match="their process ended"):
        one.ask(clips / "good.mp4", None, tmp_path, lambda share: None)


def test_an_answer_nobody_took_is_not_the_next_clips(worker: Worker, clips: Path, tmp_path: Path) -> None:
    def hang_up(share: float) -> None:
        raise ConnectionError

    first, second = tmp_path / "first", tmp_path / "second"
    first.mkdir()
    second.mkdir()
    with pytest.raises(ConnectionError):
        worker.ask(clips / "good.mp4", None, first, hang_up)
    worker.ask(clips / "good.mp4", None, second, lambda share: None)
    assert (second / "earsight-1.mp4").is_file()


def test_weights_that_cannot_be_loaded_are_told(tmp_path: Path) -> None:
    with pytest.raises(EarsightError, match="missing"):
        Worker([tmp_path / "missing.safetensors"], "cpu", LIMITS, tmp_path).start()


def test_child_has_limits_and_dies_alone() -> None:
    for misdeed, says in (("x = bytearray(10**10)", "MemoryError"), ("open('/dev/null').close(); fill()", "OSError")):
        code = (
            "import sys; from earsight.app import nursery; from earsight.app.limits import PageLimits\n"
            "def fill():\n    held = [open('/dev/null') for _ in range(1000)]\n"
            f"nursery._limit(PageLimits(memory=0.5), 'cpu')\n"
            f"try:\n    {misdeed}\nexcept (MemoryError, OSError) as error:\n    print(type(error).__name__)"
        )
        import subprocess

        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
        assert done.stdout.strip() == says, done.stderr


def test_processor_time_and_files_are_limited() -> None:
    import resource
    import subprocess

    code = (
        "import resource; from earsight.app import nursery; from earsight.app.limits import PageLimits\n"
        "nursery._limit(PageLimits(run_seconds=10, megabytes=1), 'cpu')\n"
        "print(resource.getrlimit(resource.RLIMIT_CPU)[0], resource.getrlimit(resource.RLIMIT_FSIZE)[0],"
        " resource.getrlimit(resource.RLIMIT_CORE)[0])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.split() == [str(10 * (os.cpu_count() or 1) + 2), "504000000", "0"]
    assert resource.getrlimit(resource.RLIMIT_CORE) is not None


def test_setup_travels_as_one_line() -> None:
    assert nursery.setup_line(["a\nb"], "cpu", LIMITS).count("\n") == 1


def test_desk_refuses_what_it_does_not_offer(worker: Worker, tmp_path: Path, clips: Path) -> None:
    with Shelf(60, tmp_path) as shelf:
        desk = Desk(worker, shelf, write_samples(shelf.samples)[:2], LIMITS.room)
        sample = str(desk.samples[1].clip)
        for clip, heard, says in (
            (None, OWN, "Expected a clip, but got none. Drop one, record one, or pick a sample."),
            (str(clips / "good.mp4"), OWN, "Expected a clip that is still here, but it is gone. Upload it again."),
            (sample, OTHER, "Expected a file to hear, but got none. Drop one"),
            (sample, "a whale", "Expected one of the sounds that the page offers, but got 'a whale'. Choose again."),
        ):
            with pytest.raises(WorkError, match=says):
                desk.localize("me", clip, heard, None, lambda share: None)
        assert desk.localize("me", sample, OWN, None, lambda share: None)[0].film.is_file()
        (shelf.place() / "x").write_bytes(b"12345")
        full = Desk(worker, shelf, desk.samples, room=4)
        with pytest.raises(WorkError, match=r"Expected room for an answer, but the server is full\. Try again"):
            full.localize("me", sample, OWN, None, lambda share: None)


@pytest.mark.parametrize("swap", [False, True])
def test_anamorphic_clip_is_shown_in_its_shape(worker: Worker, clips: Path, tmp_path: Path, swap: bool) -> None:
    from earsight.media.read import probe, read_image

    wide = make.steps(tmp_path / "wide.mp4", 1.0, 10, aspect=Fraction(2))
    info = probe(wide)
    assert info.aspect == 2
    out = _folder(tmp_path / "out")
    worker.ask(wide, clips / "tone.wav" if swap else None, out, lambda share: None)
    _, height, width = read_image(out / "frame-1-0000.jpg").shape
    assert width / height == pytest.approx(2 * info.width / info.height, rel=0.02)
    assert probe(out / "earsight-1.mp4").aspect == 2
