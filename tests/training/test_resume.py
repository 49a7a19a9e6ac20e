"""A run that is killed and resumed ends with the bits of one that was left alone."""

from __future__ import annotations

import errno
import json
import random
import signal
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

import tiny
from earsight import files
from earsight.data.clips import ClipSet, Some
from earsight.errors import CheckpointError, DataError, TrainingError, UsageError
from earsight.header import WEIGHTS, read_header
from earsight.training import folder, loop
from earsight.training.folder import LOCK, RunFolder
from earsight.training.job import Job
from earsight.training.loop import train
from earsight.training.state import PREVIOUS, STATE, load_state, read_state, save_state
from tiny import killing, processes, tones, two_stages

KILLS = 20


def run_alone(job: Job, out: Path) -> tuple[dict[str, Any], Any, list[Any]]:
    assert processes.finish([processes.start(killing.resume, job, out)]) == [0]
    return killing.contents(out)


@pytest.fixture(scope="module")
def straight(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Any], Any, list[Any]]:
    """What the run of `tiny.job()` gives when nobody kills it."""
    return run_alone(tiny.job(), tmp_path_factory.mktemp("straight") / "run")


def assert_equal(got: tuple[dict[str, Any], Any, list[Any]], wanted: tuple[dict[str, Any], Any, list[Any]]) -> None:
    assert got[0].keys() == wanted[0].keys()
    for name, value in wanted[0].items():
        assert torch.equal(got[0][name], value), name
    assert got[1] == wanted[1]
    assert got[2] == wanted[2]


def test_a_run_logs_every_other_step_and_every_validation(straight: tuple[dict[str, Any], Any, list[Any]]) -> None:
    _, (calibration, metrics), log = straight
    assert [row["step"] for row in log if "loss" in row] == list(range(2, 25, 2))
    assert [row["epoch"] for row in log if "val" in row] == [0, 1, 2]
    assert calibration["negatives"] == 32
    assert list(metrics) == ["tiny.tones:val"]


@pytest.mark.slow
def test_killed_at_twenty_random_moments_a_run_ends_with_the_same_bits(
    straight: tuple[dict[str, Any], Any, list[Any]], tmp_path: Path
) -> None:
    chance = random.Random(0)
    job, killed, runs = tiny.job(), 0, 0
    while killed < KILLS:
        # A run lives for a few steps at most: it saves every other one, so it gets on and is killed anywhere.
        runs += 1
        out = tmp_path / f"run{runs}"
        while True:
            process = processes.start(killing.resume, job, out)
            if killed < KILLS:
                process.join(chance.uniform(0.05, 1.2))
                if process.is_alive():
                    process.kill()
                    killed += 1
            process.join()
            assert process.exitcode in (0, -signal.SIGKILL)
            if process.exitcode == 0:
                break
        assert_equal(killing.contents(out), straight)
        assert not list(out.glob(".*")), "what killed runs left half written is cleared away"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "nth"), [("run.json", 1), ("state.pt", 1), ("state.pt", 2), ("best.pt", 1), ("weights.safetensors", 1)]
)
def test_killed_while_a_file_is_written_a_run_ends_with_the_same_bits(tmp_path: Path, name: str, nth: int) -> None:
    job = tiny.job(epochs=2, keep="best", limit=32)
    wanted = run_alone(job, tmp_path / "straight")
    out = tmp_path / "run"
    for moment in ("torn", "before", "after"):
        process = processes.start(killing.resume_until_write, job, out, name, nth, moment)
        # After the weights are there the run is finished, so nothing is written again.
        assert processes.finish([process]) == [-signal.SIGKILL]
    assert_equal(run_alone(job, out), wanted)


@pytest.mark.slow
def test_a_run_resumes_in_its_second_stage(tmp_path: Path) -> None:
    job = tiny.job(method="tiny.two_stages", settings=two_stages.Config(), keep="best", val_every=2)
    wanted = run_alone(job, tmp_path / "straight")
    out = tmp_path / "run"
    # Of the four in each of five epochs, and one that keeps what the second stage prepared: killed before that one, and
    # twice in the second stage.
    for states in (9, 3, 7):
        process = processes.start(killing.resume_until_write, job, out, "state.pt", states, "before")
        assert processes.finish([process]) == [-signal.SIGKILL]
    position = torch.load(out / "state.pt", weights_only=True)["position"]
    assert (position["stage"], position["epoch"], position["total_steps"]) == (1, 1, 30)
    assert_equal(run_alone(job, out), wanted)


@pytest.mark.slow
def test_a_run_with_a_batch_of_all_clips_resumes_with_the_same_batch(tmp_path: Path) -> None:
    job = tiny.job(val="", epochs=4, batch_size=999, limit=24)
    wanted = run_alone(job, tmp_path / "straight")
    process = processes.start(killing.resume_until_write, job, tmp_path / "run", "state.pt", 2, "after")
    assert processes.finish([process]) == [-signal.SIGKILL]
    assert_equal(run_alone(job, tmp_path / "run"), wanted)


@pytest.mark.slow
def test_without_validation_a_run_resumes_and_is_not_calibrated(tmp_path: Path) -> None:
    job = tiny.job(val="", epochs=1)
    wanted = run_alone(job, tmp_path / "straight")
    assert wanted[1] == (None, {})
    process = processes.start(killing.resume_until_write, job, tmp_path / "run", "state.pt", 2, "after")
    assert processes.finish([process]) == [-signal.SIGKILL]
    assert_equal(run_alone(job, tmp_path / "run"), wanted)


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a small finished run."""
    out = tmp_path_factory.mktemp("finished") / "run"
    train(tiny.job(epochs=1, limit=16), out, device="cpu")
    return out


def test_a_finished_run_is_left_as_it_is(finished: Path) -> None:
    before = {path.name: path.stat().st_mtime_ns for path in finished.iterdir() if path.is_file()}
    assert train(tiny.job(epochs=1, limit=16), finished, device="cpu", resume=True) == finished / "weights.safetensors"
    assert {path.name: path.stat().st_mtime_ns for path in finished.iterdir() if path.is_file()} == before


def test_other_settings_are_refused(finished: Path) -> None:
    with pytest.raises(UsageError, match=r"Expected the settings that .* was begun with, but got other limit, optim\."):
        train(tiny.job(epochs=2, limit=24), finished, device="cpu", resume=True)


def stopped(job: Job, out: Path) -> Path:
    """The folder of a run that was killed after its last epoch."""
    train(job, out, device="cpu")
    (out / WEIGHTS).unlink()
    return out


def shorten(monkeypatch: pytest.MonkeyPatch, of: str, clips: int) -> None:
    """Let a split of the tiny set hold its first clips alone."""

    def opened(split: str, data: Path | None = None) -> ClipSet:
        return Some(tones.Tones(split), range(clips)) if split == of else tones.Tones(split)

    monkeypatch.setattr(tones, "open", opened)


@pytest.mark.parametrize(("split", "told"), [("train", "training"), ("val", "validation")])
def test_a_list_that_was_changed_meanwhile_is_refused(
    split: str, told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = tiny.job(epochs=1, limit=40)
    out = stopped(job, tmp_path / "run")
    before = (out / "run.json").read_bytes()
    shorten(monkeypatch, split, 30)
    message = (
        rf"Expected the {told} list that the run was begun with \(hash \w{{12}}, 40 clips\), but got hash \w{{12}}, "
        r"30 clips\. Restore it, or start a new run\."
    )
    with pytest.raises(DataError, match=message):
        train(replace(job, data="elsewhere"), out, device="cpu", resume=True)
    assert (out / "run.json").read_bytes() == before
    monkeypatch.undo()
    assert train(job, out, device="cpu", resume=True).is_file()


def test_a_list_of_which_less_can_be_read_than_was_trained_on_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = tiny.job(epochs=1, limit=40, val="")
    out = stopped(job, tmp_path / "run")
    values = torch.load(out / STATE, weights_only=True)
    save_state(out, values | {"position": values["position"] | {"epoch": 0, "step": 4}})
    monkeypatch.setattr(tones.Tones, "failed_clips", lambda self: {2 * i: "gone" for i in range(16)})
    with pytest.raises(UsageError, match=r"Expected at least 4 batches an epoch, .*, but got \d of \d+ readable clips"):
        train(job, out, device="cpu", resume=True)


def test_what_does_not_decide_the_result_may_be_changed_and_is_written_down(tmp_path: Path) -> None:
    job = tiny.job(epochs=1, limit=16, val="")
    out = stopped(job, tmp_path / "run")
    optim = replace(job.optim, save_every=7, save_epochs=2, max_failed=0.5)
    moved = replace(job, data="elsewhere", optim=optim)
    assert train(moved, out, device="cpu", resume=True).is_file()
    assert json.loads((out / "run.json").read_text()) == moved.to_json()
    assert read_header(out)["training"]["job"] == moved.to_json()
    with pytest.raises(UsageError, match=r"but got other optim\."):
        train(replace(moved, optim=replace(optim, seed=1)), out, device="cpu", resume=True)


@pytest.mark.parametrize("how", [{}, {"resume": True}, {"force": True}])
def test_a_run_that_another_process_trains_is_left_alone(tmp_path: Path, how: dict[str, bool]) -> None:
    job = tiny.job(epochs=1, limit=16, val="")
    out = stopped(job, tmp_path / "run")
    before = {path.name: path.read_bytes() for path in out.iterdir() if path.is_file()}
    with RunFolder(out, job) as other:
        other.lock()
        with pytest.raises(UsageError, match=r"Expected a run that nobody trains, but another process trains in .*run"):
            train(job, out, device="cpu", **how)
        after = {path.name: path.read_bytes() for path in out.iterdir() if path.is_file()}
        assert after == before | {LOCK: b""}
    assert train(job, out, device="cpu", resume=True).is_file()
    assert not (out / LOCK).exists()


def test_the_folder_is_held_while_a_run_works_and_let_go_when_it_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out, job = tmp_path / "run", tiny.job(epochs=1, limit=16, val="")

    def second(*args: Any) -> Any:
        with pytest.raises(UsageError, match="another process trains"):
            train(job, out, device="cpu", resume=True)
        raise TrainingError("enough")

    with monkeypatch.context() as patch:
        patch.setattr(loop, "require_clips", second)
        with pytest.raises(TrainingError, match="enough"):
            train(job, out, device="cpu")
    assert train(job, out, device="cpu", resume=True).is_file()


def test_what_a_killed_process_held_is_free_and_no_file_of_the_run(tmp_path: Path) -> None:
    (tmp_path / LOCK).touch()
    assert train(tiny.job(epochs=1, limit=16, val=""), tmp_path, device="cpu").is_file()
    assert not (tmp_path / LOCK).exists()


def test_where_there_are_no_locks_a_run_goes_on_without(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def none(handle: int) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(folder, "flock", none)
    assert train(tiny.job(epochs=1, limit=16, val=""), tmp_path / "run", device="cpu").is_file()
    assert not (tmp_path / "run" / LOCK).exists()


def test_a_lock_whose_file_has_gone_with_its_holder_is_taken_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, moments = folder.flock, iter(["gone", "there"])

    def gone_meanwhile(handle: int) -> None:
        if next(moments) == "gone":
            (tmp_path / LOCK).unlink()
        real(handle)

    with RunFolder(tmp_path, tiny.job()) as one:
        monkeypatch.setattr(folder, "flock", gone_meanwhile)
        one.lock()
        monkeypatch.undo()
        with pytest.raises(UsageError, match="another process trains"), RunFolder(tmp_path, tiny.job()) as other:
            other.lock()


@pytest.mark.parametrize("name", ["state.pt", "best.pt", "weights.safetensors"])
def test_a_full_disk_is_told_with_what_did_not_fit_and_how_to_go_on(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out, job = tmp_path / "run", tiny.job(epochs=1, limit=16, keep="best")
    real = files.part_of

    def on_a_full_disk(path: Path) -> Path:
        beside = real(path)
        if path.name == name:
            beside.symlink_to("/dev/full")
        return beside

    with monkeypatch.context() as patch:
        patch.setattr(files, "part_of", on_a_full_disk)
        message = (
            rf"Expected room for .*{name}, but the disk is full\. Free some, then: earsight train --out .* --resume"
        )
        with pytest.raises(TrainingError, match=message):
            train(job, out, device="cpu")
    assert not list(out.glob(".*"))
    assert train(job, out, device="cpu", resume=True).is_file()


def test_a_folder_with_files_is_refused(finished: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"Expected an empty folder for the run, but .* has files in it\."):
        train(tiny.job(), finished, device="cpu")
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(CheckpointError, match=r"Expected a run to resume in .*, but there is no run\.json in it"):
        train(tiny.job(), tmp_path, device="cpu", resume=True)
    assert (tmp_path / "notes.txt").read_text() == "mine"


def test_settings_that_cannot_be_read_are_refused(tmp_path: Path) -> None:
    (tmp_path / "run.json").write_text("{")
    with pytest.raises(CheckpointError, match=r"Expected a run's settings, but .*run\.json cannot be read"):
        train(tiny.job(), tmp_path, device="cpu", resume=True)


def test_a_state_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    job = tiny.job(epochs=1, limit=16, val="")
    train(job, tmp_path, device="cpu")
    (tmp_path / "weights.safetensors").unlink()
    state = tmp_path / "state.pt"
    data = state.read_bytes()
    changed = bytearray(data)
    changed[len(data) // 2] ^= 1
    for bad in (data[:-1000], bytes(changed), b"text"):
        state.write_bytes(bad)
        with pytest.raises(CheckpointError, match=r"Expected a training state, but .*state\.pt cannot be read"):
            train(job, tmp_path, device="cpu", resume=True)


def flip(path: Path) -> None:
    """Change one bit in the middle of a file."""
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def test_a_damaged_state_is_left_for_the_one_before_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    job = tiny.job(epochs=2, limit=32, keep="best")
    train(job, tmp_path, device="cpu")
    wanted = killing.contents(tmp_path)
    newest, previous = tmp_path / STATE, tmp_path / PREVIOUS
    before = read_state(previous).position.total_steps
    assert 0 < before < read_state(newest).position.total_steps
    (tmp_path / WEIGHTS).unlink()
    flip(newest)
    capsys.readouterr()
    train(job, tmp_path, device="cpu", resume=True)
    err = capsys.readouterr().err
    assert f"{newest} is damaged, so the run goes on from the state before it\n" in err
    assert f"resuming at epoch 2, step {before % 4 + 1}\n" in err
    assert_equal(killing.contents(tmp_path), wanted)


def test_a_damaged_state_never_replaces_the_one_before_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    job = tiny.job(epochs=2, limit=32, val="")
    train(job, tmp_path, device="cpu")
    (tmp_path / WEIGHTS).unlink()
    flip(tmp_path / STATE)
    good = (tmp_path / PREVIOUS).read_bytes()

    def cut_off(*_: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(loop, "finish", cut_off)
        with pytest.raises(KeyboardInterrupt):
            train(job, tmp_path, device="cpu", resume=True)
    assert (tmp_path / PREVIOUS).read_bytes() == good
    saved = load_state(tmp_path)
    assert saved is not None
    assert (saved.position.epoch, saved.note) == (2, "")


def test_two_damaged_states_are_both_named(tmp_path: Path) -> None:
    job = tiny.job(epochs=1, limit=32, val="")
    train(job, tmp_path, device="cpu")
    (tmp_path / WEIGHTS).unlink()
    for name in (STATE, PREVIOUS):
        flip(tmp_path / name)
    message = r"Expected a training state, but neither .*state\.pt nor .*state\.previous\.pt can be read .*Delete both"
    with pytest.raises(CheckpointError, match=message):
        train(job, tmp_path, device="cpu", resume=True)


def test_without_the_newest_state_a_run_goes_on_from_the_one_before(tmp_path: Path) -> None:
    job = tiny.job(epochs=2, limit=32, val="")
    train(job, tmp_path, device="cpu")
    wanted = killing.contents(tmp_path)
    for name in (WEIGHTS, STATE):
        (tmp_path / name).unlink()
    train(job, tmp_path, device="cpu", resume=True)
    assert_equal(killing.contents(tmp_path), wanted)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"position": {"step": "x"}}, "Expected int for Position.step, but got 'x'"),
        ({"position": {"step": -1}}, "Expected step of at least 0, but got -1"),
        ({"position": {"epoch": 0, "chapter": 3}}, "unknown chapter"),
        ({"position": {"failures": {"a": 3}}}, "Expected str for Position.failures, but got 3"),
        ({"model": []}, "no usable model"),
        ({"lists": {"training": 3}}, "no usable lists"),
        ({"model": {"a": "b"}}, "loading state_dict"),
        ({"optimizer": {}}, "param_groups"),
        ({"rng": {"cpu": 3}}, "no attribute .cpu."),
        ({"training": None}, "no usable training"),
    ],
)
def test_a_state_with_values_of_another_kind_is_refused(tmp_path: Path, change: dict[str, Any], told: str) -> None:
    job = tiny.job(epochs=1, limit=16, val="")
    train(job, tmp_path, device="cpu")
    (tmp_path / WEIGHTS).unlink()
    values = torch.load(tmp_path / STATE, weights_only=True)
    (tmp_path / PREVIOUS).unlink(missing_ok=True)
    save_state(tmp_path, values | change, keep_previous=False)
    with pytest.raises(CheckpointError, match=rf"Expected a training state, but .*state\.pt cannot be read .*{told}"):
        train(job, tmp_path, device="cpu", resume=True)


def test_force_starts_over_and_leaves_what_is_not_its_own(tmp_path: Path) -> None:
    job = tiny.job(on="tiny.tones:torn", val="", epochs=1, limit=0)
    train(job, tmp_path, device="cpu")
    (tmp_path / "notes.txt").write_text("mine")
    assert (tmp_path / "failures.jsonl").exists()
    other = tiny.job(epochs=1, limit=16, val="")
    train(other, tmp_path, device="cpu", force=True)
    assert (tmp_path / "notes.txt").read_text() == "mine"
    assert not (tmp_path / "failures.jsonl").exists()
    assert not (tmp_path / PREVIOUS).exists()
    assert [row["step"] for row in killing.contents(tmp_path)[2]] == [2]
    assert len(list((tmp_path / "tensorboard").iterdir())) == 1


def test_resume_starts_a_run_that_is_not_there_yet(tmp_path: Path) -> None:
    job = tiny.job(epochs=1, limit=16, val="")
    for out in (tmp_path / "new", tmp_path / "empty"):
        (tmp_path / "empty").mkdir(exist_ok=True)
        assert train(job, out, device="cpu", resume=True).is_file()


def test_keeping_the_best_epoch_needs_a_validation_set(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="Expected a validation set to keep the best epoch by, but got none"):
        train(tiny.job(val="", keep="best"), tmp_path / "run", device="cpu")
    assert not (tmp_path / "run").exists()


def test_the_best_epoch_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from earsight.training import validate

    wanted: list[dict[str, torch.Tensor]] = []
    scores = iter([0.2, 0.6, 0.4, 0.6])
    real = validate.evaluate_all

    def scored(model: Any, *args: Any, **options: Any) -> Any:
        wanted.append({name: value.clone() for name, value in model.state_dict().items()})
        first, *others = real(model, *args, **options)
        return [replace(first, metrics=first.metrics | {"ap": next(scores)}), *others]

    monkeypatch.setattr(validate, "evaluate_all", scored)
    train(tiny.job(keep="best", limit=16), tmp_path, device="cpu")
    tensors, (_, metrics), _ = killing.contents(tmp_path)
    assert metrics["tiny.tones:val"]["ap"] == 0.6
    assert all(torch.equal(tensors[name], value) for name, value in wanted[1].items())
    assert not all(torch.equal(tensors[name], value) for name, value in wanted[2].items())


def test_without_fcntl_as_on_windows_a_run_goes_on_without_a_lock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "fcntl", None)
    assert train(tiny.job(epochs=1, limit=16, val=""), tmp_path / "run", device="cpu").is_file()
    assert not (tmp_path / "run" / LOCK).exists()
