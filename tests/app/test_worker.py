"""The worker: a clip that kills, hangs or eats memory costs nothing but itself."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path

import make
import numpy as np
import pytest

from earsight.app.fork_server import first_line
from earsight.app.limits import PageLimits
from earsight.app.worker import CancelledError, Worker, WorkError
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
    shares: list[float] = []
    (found,) = worker.ask(clips / "good.mp4", None, tmp_path, shares.append)
    assert [item[1] for item in found["items"]] == ["visible source"] * 4
    assert shares == sorted(shares)
    assert shares
    assert sorted(one.name for one in tmp_path.iterdir()) == ["earsight-1.json", "earsight-1.mp4"]


def test_photo_with_a_sound_gives_a_picture(worker: Worker, clips: Path, tmp_path: Path) -> None:
    (found,) = worker.ask(clips / "picture.png", clips / "tone.wav", tmp_path, lambda share: None)
    assert [item[1] for item in found["items"]] == ["visible source"]
    assert sorted(one.name for one in tmp_path.iterdir()) == ["earsight-1.json", "earsight-1.png"]


def test_sound_on_one_channel_only_is_heard(worker: Worker, clips: Path, tmp_path: Path) -> None:
    left = make.chirp(1.0)
    for name, channels in (("left", [left, 0 * left]), ("both", [left, left]), ("none", [0 * left, 0 * left])):
        make.sound_file(tmp_path / f"{name}.wav", np.stack(channels), layout="stereo")
        out = _folder(tmp_path / name)
        (found,) = worker.ask(clips / "mute.mp4", tmp_path / f"{name}.wav", out, lambda share: None)
        assert {item[1] for item in found["items"]} == {"silent" if name == "none" else "visible source"}


@pytest.mark.parametrize("swap", [False, True])
@pytest.mark.parametrize(("seconds", "cut"), [(4.9, 0.0), (5.0, 0.0), (7.0, 5.0)])
def test_recording_that_does_not_say_its_length_is_cut_and_says_so(
    worker: Worker, tmp_path: Path, seconds: float, cut: float, swap: bool
) -> None:
    endless = make.without_length(make.steps(tmp_path / "a.mkv", seconds, 10), tmp_path / "endless.mkv")
    (found,) = worker.ask(endless, endless if swap else None, _folder(tmp_path / "out"), lambda share: None)
    assert found["cut"] == cut
    assert found["items"][-1][0] < 5


def test_notes_of_a_clip_reach_the_page(worker: Worker, tmp_path: Path) -> None:
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

    exported = Worker([export_onnx(weights, tmp_path / "model").path], "cpu", LIMITS, tmp_path)
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
    from earsight.app import job
    from earsight.errors import MediaError

    seen: list[Path] = []
    probe = job.probe
    monkeypatch.setattr(job, "probe", lambda path, limits: seen.append(path) or probe(path, limits))

    def load(device: str) -> object:
        raise AssertionError("models are loaded for a clip that is refused")

    with pytest.raises(MediaError, match="has no sound"):
        job.localize_clip([load], "cpu", clips / "mute.mp4", None, tmp_path, tmp_path, LIMITS, lambda share: None)  # type: ignore[list-item]
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


def test_a_cancelled_clip_ends_at_once_and_the_next_one_is_worked_on(
    weights: Path, clips: Path, tmp_path: Path
) -> None:
    one = Worker([weights], "cpu", PageLimits(run_seconds=600, seconds=20, every=0.05), tmp_path)
    begun = threading.Event()
    try:
        with pytest.raises(CancelledError):
            one.ask(clips / "long.mp4", None, _folder(tmp_path / "a"), lambda share: begun.set(), begun.is_set)
        process = one._process
        assert one.ask(clips / "good.mp4", None, _folder(tmp_path / "b"), lambda share: None)
        assert one._process is process, "the models are not loaded again"
    finally:
        one.close()


def test_exported_models_are_served_without_torch(weights: Path, clips: Path, tmp_path: Path) -> None:
    from earsight.export import export_onnx

    exported = export_onnx(weights, tmp_path / "model").path
    code = (
        "import json, sys; sys.modules['torch'] = None\n"
        "import earsight.app.server, earsight.app.jobs, earsight.app.samples\n"
        "from earsight.app import fork_server\n"
        "fork_server.main()"
    )
    job = {"clip": str(clips / "good.mp4"), "sound": "", "out": str(_folder(tmp_path / "out"))}
    lines = first_line([str(exported)], "auto", LIMITS) + json.dumps({**job, "scratch": str(tmp_path / "s")}) + "\n"
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(lines.encode())
        process.stdin.flush()
        said = [json.loads(line) for line in iter(process.stdout.readline, b'{"end": ""}\n') if line.strip()]
        process.stdin.close()
    assert "done" in said[-1], said


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


def test_weights_that_cannot_be_loaded_are_named(tmp_path: Path) -> None:
    with pytest.raises(EarsightError, match="missing"):
        Worker([tmp_path / "missing.safetensors"], "cpu", LIMITS, tmp_path).start()


def test_child_has_limits_and_dies_alone() -> None:
    for misdeed, says in (("x = bytearray(10**10)", "MemoryError"), ("open('/dev/null').close(); fill()", "OSError")):
        code = (
            "from earsight.app.fork_server import limit_process\nfrom earsight.app.limits import PageLimits\n"
            "def fill():\n    held = [open('/dev/null') for _ in range(1000)]\n"
            f"limit_process(PageLimits(memory=0.5), 'cpu')\n"
            f"try:\n    {misdeed}\nexcept (MemoryError, OSError) as error:\n    print(type(error).__name__)"
        )
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
        assert done.stdout.strip() == says, done.stderr


def test_processor_time_and_files_are_limited() -> None:
    import resource

    code = (
        "import resource\nfrom earsight.app.fork_server import limit_process\n"
        "from earsight.app.limits import PageLimits\n"
        "limit_process(PageLimits(run_seconds=10, megabytes=1), 'cpu')\n"
        "print(resource.getrlimit(resource.RLIMIT_CPU)[0], resource.getrlimit(resource.RLIMIT_FSIZE)[0],"
        " resource.getrlimit(resource.RLIMIT_CORE)[0])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.split() == [str(10 * (os.cpu_count() or 1) + 2), "504000000", "0"]
    assert resource.getrlimit(resource.RLIMIT_CORE) is not None


def test_setup_travels_as_one_line() -> None:
    assert first_line(["a\nb"], "cpu", LIMITS).count("\n") == 1


@pytest.mark.parametrize("swap", [False, True])
def test_anamorphic_clip_is_shown_in_its_shape(worker: Worker, clips: Path, tmp_path: Path, swap: bool) -> None:
    from earsight.media.read import probe

    wide = make.steps(tmp_path / "wide.mp4", 1.0, 10, aspect=Fraction(2))
    info = probe(wide)
    assert info.aspect == 2
    out = _folder(tmp_path / "out")
    worker.ask(wide, clips / "tone.wav" if swap else None, out, lambda share: None)
    assert probe(out / "earsight-1.mp4").aspect == 2
