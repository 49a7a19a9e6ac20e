"""Files and folders: what can be used is used, and what cannot is named."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import make
import numpy as np
import pytest

from earsight.checkpoint import load_weights
from earsight.data.clips import open_set
from earsight.errors import UsageError
from earsight.localize import Localizer, Summary
from earsight.localize.paths import _named
from earsight.model_evaluation import evaluate
from tiny.localized import run_pair, run_paths


def clip(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    return make.steps(path, 0.5, 10)


def run(localizer: Localizer, inputs: list[Path], out: Path, **more: object) -> Summary:
    return run_paths(localizer, inputs, out, **{"formats": "json", **more})


def test_good_files_of_a_folder_are_done_and_broken_ones_named(localizer: Localizer, tmp_path: Path) -> None:
    folder = tmp_path / "in"
    good = [clip(folder / "a.mp4"), clip(folder / "b" / "deep.mkv"), clip(folder / "z.webm")]
    (folder / "broken.mp4").write_bytes(good[0].read_bytes()[:300])
    (folder / "empty.mov").touch()
    (folder / "notes.txt").write_text("not media")
    (folder / ".hidden.mp4").write_text("not media")
    summary = run(localizer, [folder], tmp_path / "out")
    assert [Path(one.source) for one in summary.done] == good
    assert {one.path.name: one.reason for one in summary.failures} == {
        "broken.mp4": "is damaged or cut off. Get it again, or repair it with a converter.",
        "empty.mov": "is empty. Get it again.",
    }
    assert [path.name for path in summary.skipped] == ["notes.txt"]
    written = [file for one in summary.done for file in one.files]
    assert sorted(file.name for file in written) == [f"{n}.earsight.json" for n in ("a", "deep", "z")]
    assert all(file.exists() for file in written)
    plain = json.loads(json.dumps(summary.to_json()))
    assert {key: len(value) for key, value in plain.items()} == {"done": 3, "failures": 2, "skipped": 1, "left": 0}


def test_one_file_of_a_pair_is_enough(localizer: Localizer, tmp_path: Path) -> None:
    picture = make.picture(tmp_path / "dog.png", make.corners())
    sound = make.sound_file(tmp_path / "dog.wav", make.chirp(0.5))
    make.sound_file(tmp_path / "dogs.wav", make.chirp(0.5))
    for given in ([picture], [sound], [sound, picture]):
        summary = run(localizer, given, tmp_path / "out", force=True)
        (pair,) = summary.done
        assert (Path(pair.source), Path(pair.sound)) == (picture, sound)
        assert not summary.failures
    other = make.sound_file(tmp_path / "cat.wav", make.chirp(0.5))
    (pair,) = run(localizer, [picture], tmp_path / "out", sound=other, force=True).done
    assert Path(pair.sound) == other
    sound.write_bytes(b"")
    assert [one.path for one in run(localizer, [picture], tmp_path / "out").failures] == [sound, picture]


def test_a_picture_and_a_sound_of_the_same_name_are_a_pair(localizer: Localizer, tmp_path: Path) -> None:
    make.picture(tmp_path / "dog.png", make.corners())
    make.sound_file(tmp_path / "dog.wav", make.chirp(0.5))
    make.picture(tmp_path / "cat.png", make.corners())
    make.sound_file(tmp_path / "cow.mp3", make.chirp(0.5))
    summary = run(localizer, [tmp_path], tmp_path / "out", formats=("mp4", "png", "json"))
    (pair,) = summary.done
    assert (Path(pair.source).name, Path(pair.sound).name) == ("dog.png", "dog.wav")
    assert {file.name for file in pair.files} == {"dog.earsight.png", "dog.earsight.json"}
    assert {one.path.name: one.reason for one in summary.failures} == {
        "cat.png": "is a picture without a sound. Put a sound of the same name beside it.",
        "cow.mp3": "is a sound without a picture. Put a picture of the same name beside it.",
    }


def test_inputs_of_the_same_name_do_not_overwrite_each_other(localizer: Localizer, tmp_path: Path) -> None:
    inputs = [clip(tmp_path / "1" / "clip.mp4"), clip(tmp_path / "2" / "Clip.mkv"), clip(tmp_path / "clip.webm")]
    summary = run(localizer, inputs, tmp_path / "out")
    assert [one.files[0].name for one in summary.done] == [f"{n}.earsight.json" for n in ("clip", "Clip-2", "clip-3")]
    assert [json.loads(one.files[0].read_text())["source"] for one in summary.done] == [str(path) for path in inputs]


def test_a_file_named_twice_is_done_once(localizer: Localizer, tmp_path: Path) -> None:
    path = clip(tmp_path / "in" / "a.mp4")
    assert len(run(localizer, [path, path.parent, path], tmp_path / "out").done) == 1


def test_outputs_are_never_taken_for_inputs(localizer: Localizer, tmp_path: Path) -> None:
    clip(tmp_path / "a.mp4")
    first = run(localizer, [tmp_path], tmp_path, formats=("mp4", "json"))
    again = run(localizer, [tmp_path], tmp_path, formats=("mp4", "json"), force=True)
    assert [one.files for one in first.done] == [one.files for one in again.done]
    assert len(again.done) == 1
    assert not again.failures
    assert not again.skipped


def test_what_is_asked_for_by_name_is_never_skipped(localizer: Localizer, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("not media")
    (tmp_path / "folder").mkdir()
    inputs = [
        tmp_path / "a.txt",
        tmp_path / "gone.mp4",
        tmp_path / "folder",
        make.steps(tmp_path / "m.mp4", 0.5, sound=False),
    ]
    summary = run(localizer, inputs, tmp_path / "out")
    assert not summary.done
    assert not summary.skipped
    reasons = {one.path.name: one.reason for one in summary.failures}
    assert reasons["a.txt"].startswith("is not a media file of a known kind. Expected one of: mp4")
    assert reasons["gone.mp4"] == "does not exist. Check the name."
    assert reasons["folder"].startswith("is a folder without files.")
    assert reasons["m.mp4"].startswith("has no audio track.")


def test_nothing_is_replaced_without_force_and_nothing_begun(localizer: Localizer, tmp_path: Path) -> None:
    clip(tmp_path / "in" / "a.mp4")
    run(localizer, [tmp_path / "in"], tmp_path / "out")
    clip(tmp_path / "in" / "0.mp4")
    with pytest.raises(UsageError, match=r"Expected no results there yet, but got .*a\.earsight\.json\."):
        run(localizer, [tmp_path / "in"], tmp_path / "out")
    assert not (tmp_path / "out" / "0.earsight.json").exists()


def test_wrong_settings_are_an_error_and_not_a_failure_of_each_file(localizer: Localizer, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"every of at least 0\.01"):
        run_paths(localizer, [tmp_path / "a.mp4"], tmp_path, every=-1.0)
    with pytest.raises(UsageError, match="Expected at least one file or folder, but got none"):
        run_paths(localizer, [], tmp_path)


def test_progress_names_the_input(localizer: Localizer, tmp_path: Path) -> None:
    path = clip(tmp_path / "a.mp4")
    make.picture(tmp_path / "b.png", make.corners())
    make.wav(tmp_path / "b.wav", np.zeros(900, np.int16))
    told: list[tuple[str, float, float]] = []
    run(localizer, [tmp_path], tmp_path / "out", progress=lambda name, done, total: told.append((name, done, total)))
    assert {Path(name).name for name, _, _ in told} == {"a.mp4", "b.png"}
    assert told[0][0] == str(path)
    assert told[-1][1:] == (1.0, 1.0)


def test_a_stop_finishes_the_input_at_hand_and_leaves_the_rest(localizer: Localizer, tmp_path: Path) -> None:
    inputs = [clip(tmp_path / name) for name in ("a.mp4", "b.mp4", "c.mp4")]
    asked = iter([False, False, False])  # before a.mp4, and before two of its frames
    summary = run(localizer, inputs, tmp_path / "out", batch_size=1, stop=lambda: next(asked, True))
    assert [(Path(one.source).name, one.partial) for one in summary.done] == [("a.mp4", True)]
    assert summary.left == tuple(inputs[1:])
    assert summary.stopped
    assert summary.to_json()["left"] == [str(path) for path in inputs[1:]]
    assert not run(localizer, inputs, tmp_path / "whole").stopped


def test_one_path_and_one_text_of_formats_are_enough(localizer: Localizer, tmp_path: Path) -> None:
    path = clip(tmp_path / "a.mp4")
    for given in (path, str(path)):
        summary = run_paths(localizer, given, str(tmp_path / "out"), formats="json,npz", force=True)
        assert [file.name for file in summary.done[0].files] == ["a.earsight.json", "a.earsight.npz"]
        assert not summary.failures


def test_links_in_a_circle_are_named_and_the_rest_goes_on(localizer: Localizer, tmp_path: Path) -> None:
    folder = tmp_path / "in"
    clip(folder / "b.mp4")
    (folder / "a.mp4").symlink_to(folder / "c.mp4")
    (folder / "c.mp4").symlink_to(folder / "a.mp4")
    summary = run(localizer, [folder, folder / "a.mp4"], tmp_path / "out")
    assert [Path(one.source).name for one in summary.done] == ["b.mp4"]
    assert {one.path.name for one in summary.failures} == {"a.mp4", "c.mp4"}
    assert all("link" in one.reason for one in summary.failures)


def test_folders_and_files_that_may_not_be_read_are_named(
    localizer: Localizer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "in"
    clip(folder / "a.mp4")
    hidden = clip(folder / "closed" / "b.mp4")
    scandir, stat = os.scandir, Path.stat

    def scanned(path: Any) -> Any:
        if Path(path) == hidden.parent:
            raise PermissionError(13, "Permission denied", str(path))
        return scandir(path)

    def looked_at(path: Path, **more: Any) -> Any:
        if path == hidden:
            raise PermissionError(13, "Permission denied", str(path))
        return stat(path, **more)

    monkeypatch.setattr(os, "scandir", scanned)
    monkeypatch.setattr(Path, "stat", looked_at)
    summary = run(localizer, [hidden, folder, hidden.parent], tmp_path / "out")
    assert [Path(one.source).name for one in summary.done] == ["a.mp4"]
    closed = "is a folder that cannot be listed (Permission denied). Change its permissions."
    assert [(one.path, one.reason) for one in summary.failures] == [
        (hidden, "may not be read. Change its permissions."),
        (hidden.parent, closed),
        (hidden.parent, closed),
    ]


def test_pairs_follow_the_start_and_refuse_what_only_videos_have(localizer: Localizer, tmp_path: Path) -> None:
    clip(tmp_path / "a.mp4")
    make.picture(tmp_path / "dog.png", make.corners())
    make.sound_file(tmp_path / "dog.wav", make.chirp(3.0))
    for more, times in (({}, {"a.mp4": 0.0, "dog.png": 1.5}), ({"start": 0.3}, {"a.mp4": 0.3, "dog.png": 0.3})):
        done = run(localizer, [tmp_path], tmp_path / "1", force=True, **more).done
        assert {Path(one.source).name: one.items[0].time for one in done} == times
    for more in ({"end": 0.4}, {"window": 0.5}):
        summary = run(localizer, [tmp_path], tmp_path / "3", force=True, **more)
        assert [Path(one.source).name for one in summary.done] == ["a.mp4"]
        ((path, reason),) = summary.failures
        assert path.name == "dog.png"
        assert reason.startswith("Expected --end and --window with videos only, but got them with a picture. Leave")
    (late,) = run(localizer, [tmp_path / "dog.png", tmp_path / "dog.wav"], tmp_path / "4", start=9.0).failures
    assert late.reason.endswith("dog.wav: plays for 3 s, but the start is at 9 s. Start earlier.")


def test_momentary_is_what_evaluation_gives_for_the_same_seconds(
    make_weights: Callable[..., Path], tmp_path: Path
) -> None:
    """`--start` is the middle of what is heard, and the start of a list is where that begins."""
    make.picture(tmp_path / "dog.png", make.corners())
    sound = np.linspace(0.1, 0.9, 3 * 8000) * np.random.default_rng(0).uniform(-1, 1, 3 * 8000)
    make.sound_file(tmp_path / "dog.wav", sound.astype(np.float32), 8000)
    (tmp_path / "pairs_test.csv").write_text("image,audio,start\ndog.png,dog.wav,0.25\n")
    (tmp_path / "boxes.csv").write_text("image,cls,xc,yc,w,h\ndog.png,,0.5,0.5,0.4,0.4\n")
    weights = make_weights()
    localizer = Localizer.load(weights, "cpu")
    records = evaluate(load_weights(weights).model, open_set("folder:test", tmp_path), localizer.protocol).records
    pair = (localizer, tmp_path / "dog.png", tmp_path / "dog.wav")
    half = localizer.inputs.seconds / 2
    same, other = (run_pair(*pair, tmp_path / "out", start=time, force=True) for time in (0.25 + half, None))
    assert same.items[0].momentary == pytest.approx(records.confidence[0], abs=1e-6)
    assert other.items[0].momentary != pytest.approx(records.confidence[0], abs=1e-6)


def test_a_pair_in_a_folder_is_no_film_and_keeps_no_pictures_in_memory(localizer: Localizer, tmp_path: Path) -> None:
    make.picture(tmp_path / "dog.png", make.corners())
    make.sound_file(tmp_path / "dog.wav", make.chirp(1.0))
    (done,) = run(localizer, [tmp_path], tmp_path / "out").done
    assert done.stills == ()
    (failed,) = run(localizer, [tmp_path], tmp_path / "film", formats=("mp4",)).failures
    assert "but got mp4 alone" in failed.reason


def test_another_sound_goes_with_one_video_only(localizer: Localizer, tmp_path: Path) -> None:
    path, sound = clip(tmp_path / "in" / "a.mp4"), make.sound_file(tmp_path / "b.wav", make.chirp(1.0))
    (done,) = run(localizer, [path], tmp_path / "out", sound=sound).done
    assert (done.source, done.sound) == (str(path), str(sound))
    for inputs in ([path, path], [path.parent]):
        with pytest.raises(UsageError, match=r"Expected one video with --audio, but got .*\. Name one video file\."):
            run(localizer, inputs, tmp_path / "out", sound=sound)


def test_naming_many_inputs_alike_looks_at_each_once() -> None:
    looks = 0

    class Named(SimpleNamespace):
        @property
        def stem(self) -> str:
            nonlocal looks
            looks += 1
            return "clip"

    jobs = _named([(Named(), None) for _ in range(500)])  # type: ignore[misc]
    assert [job.name for job in jobs] == ["clip", *(f"clip-{k}" for k in range(2, 501))]
    assert looks <= 1000


def test_a_name_too_long_for_its_outputs_is_named_and_the_rest_done(localizer: Localizer, tmp_path: Path) -> None:
    long, fits = clip(tmp_path / "in" / f"{'x' * 246}.mp4"), clip(tmp_path / "in" / f"{'y' * 240}.mp4")
    good = clip(tmp_path / "in" / "a.mp4")
    summary = run(localizer, [tmp_path / "in"], tmp_path / "out", formats=("mp4", "png", "json"))
    assert [Path(one.source) for one in summary.done] == [good, fits]
    assert [(one.path, one.reason) for one in summary.failures] == [
        (long, "has a name that is too long for its outputs. Rename it.")
    ]
