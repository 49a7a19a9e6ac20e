"""`earsight localize`: videos, folders and pairs; failures are named and make exit 1."""

from __future__ import annotations

import itertools
import json
import re
import shutil
import signal
import time
from pathlib import Path
from typing import Any

import make
import pytest
import torch
from torchvision.models import resnet18

from earsight.cli import main
from earsight.cli.localize import Pace
from earsight.localize import Localizer
from earsight.media.read import probe

Captured = pytest.CaptureFixture[str]


def test_a_video_gives_overlay_sheet_and_timeline(weights: Path, media: Path, tmp_path: Path, capsys: Captured) -> None:
    args = ["localize", str(weights), str(media / "clip.mp4"), "-o", str(tmp_path), "--device", "cpu"]
    assert main([*args, "--batch-size", "2"]) == 0
    got = capsys.readouterr()
    assert "visible source at 5 of 5 times" in got.out
    assert [line for line in got.err.splitlines() if not line.endswith("%")] == []  # a slow machine tells how far it is
    assert sorted(path.suffix for path in tmp_path.iterdir()) == [".json", ".mp4", ".png"]
    assert main(args) == 2
    assert "Name another output folder, or use --force" in capsys.readouterr().err
    assert main([*args, "--force"]) == 0


def test_span_step_window_and_formats_are_used(weights: Path, media: Path, tmp_path: Path, capsys: Captured) -> None:
    span = ["--start", "0.2", "--end", "0.8", "--every", "0.3", "--window", "0.25", "--format", "json"]
    assert main(["localize", str(weights), str(media / "clip.mp4"), "--out", str(tmp_path), *span, "--json"]) == 0
    done = json.loads(capsys.readouterr().out)["done"]
    assert done[0]["moments"] == 2
    assert done[0]["visible"] == 2
    (written,) = tmp_path.iterdir()
    timeline = json.loads(written.read_text(encoding="utf-8"))
    assert [item["time"] for item in timeline["items"]] == [0.2, 0.5]
    assert (timeline["every"], timeline["window"]) == (0.3, 0.25)


def test_a_picture_with_a_sound(weights: Path, media: Path, tmp_path: Path, capsys: Captured) -> None:
    pair = ["--image", str(media / "picture.png"), "--audio", str(media / "tone.wav")]
    assert main(["localize", str(weights), *pair, "-o", str(tmp_path), "--start", "0.4"]) == 0
    assert "visible source, confidence 0." in capsys.readouterr().out
    assert json.loads((tmp_path / "picture.earsight.json").read_text(encoding="utf-8"))["items"][0]["time"] == 0.4


def test_a_picture_is_not_filmed_and_not_placed_past_the_end_of_its_sound(
    weights: Path, media: Path, tmp_path: Path, capsys: Captured
) -> None:
    pair = ["localize", str(weights), "--image", str(media / "picture.png"), "--audio", str(media / "tone.wav")]
    assert main([*pair, "-o", str(tmp_path / "out"), "--format", "mp4"]) == 2
    assert "but got mp4 alone. Add one of them, for example png,json" in capsys.readouterr().err
    assert main([*pair, "-o", str(tmp_path / "out"), "--start", "99"]) == 1
    assert "tone.wav: plays for 1 s, but the start is at 99 s. Start earlier." in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_what_there_is_to_know_of_a_video_is_noted(weights: Path, tmp_path: Path, capsys: Captured) -> None:
    path = make.cut(make.steps(tmp_path / "cut.mkv", 4.0, tracks=2), 0.6)
    args = ["localize", str(weights), str(path), "-o", str(tmp_path / "out"), "--format", "json"]
    assert main(args) == 0
    told = capsys.readouterr().err
    assert re.search(rf"note: {path}: the pictures end at 2\.\d s, but should go on until 4\.0 s", told)
    assert f"note: {path}: there are 2 sound tracks, of which the first was heard" in told
    assert main([*args, "--force", "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)["done"][0]["notes"]) == 2


def test_what_the_weights_know_is_said_once_and_in_every_answer(
    knowing: Path, media: Path, tmp_path: Path, capsys: Captured
) -> None:
    words = "these weights know drawn toys of the built-in set only"
    pair = [str(media / "picture.png"), str(media / "tone.wav")]
    for weights in (knowing, knowing.with_suffix("")):
        if not weights.suffix:
            assert main(["export", str(knowing), "--out", str(weights)]) == 0
        out = tmp_path / weights.suffix
        assert main(["localize", str(weights), str(media / "clip.mp4"), "-o", str(out), "--format", "png,json"]) == 0
        assert capsys.readouterr().err.count(words) == 1
        assert json.loads((out / "clip.earsight.json").read_text(encoding="utf-8"))["notes"] == [words]
        assert main(["localize", str(weights), "--image", pair[0], "--audio", pair[1], "-o", str(out)]) == 0
        assert capsys.readouterr().err.count(words) == 1
        assert json.loads((out / "picture.earsight.json").read_text(encoding="utf-8"))["notes"] == [words]
        assert main(["show", str(weights)]) == 0
        assert "drawn toys of the built-in set only" in capsys.readouterr().out


def test_weights_without_calibration_give_no_verdict(
    uncalibrated: Path, media: Path, tmp_path: Path, capsys: Captured
) -> None:
    assert main(["localize", str(uncalibrated), str(media / "clip.mp4"), "-o", str(tmp_path), "--format", "png"]) == 0
    got = capsys.readouterr()
    assert "not calibrated" in got.out
    assert "carry no calibrated threshold" in got.err


def test_every_failed_input_is_named_and_the_rest_goes_on(
    weights: Path, media: Path, tmp_path: Path, capsys: Captured
) -> None:
    bad, folder = tmp_path / "bad.mp4", tmp_path / "folder"
    bad.write_bytes(b"no video at all")
    folder.mkdir()
    for name in ("a.csv", "b.csv", "c.csv", "notes.txt"):
        (folder / name).write_text("hello", encoding="utf-8")
    inputs = [str(bad), str(media / "clip.mp4"), str(tmp_path / "gone.mp4"), str(folder)]
    assert main(["localize", str(weights), *inputs, "-o", str(tmp_path / "out"), "--format", "json"]) == 1
    got = capsys.readouterr()
    assert got.out.startswith(str(media / "clip.mp4"))
    assert f"failed: {bad}: is not a media file" in got.err
    assert f"failed: {tmp_path / 'gone.mp4'}: does not exist" in got.err
    assert "skipped 4 files of other kinds than media: a.csv, b.csv, c.csv and 1 more\n" in got.err
    assert "2 of 3 inputs failed" in got.err


def test_json_tells_failures_too(weights: Path, tmp_path: Path, capsys: Captured) -> None:
    gone = tmp_path / "gone.mp4"
    assert main(["localize", str(weights), str(gone), "-o", str(tmp_path), "--json"]) == 1
    values = json.loads(capsys.readouterr().out)
    assert values["done"] == []
    assert values["failures"][0]["path"] == str(gone)


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ("", "Expected videos or folders, or --image and --audio, but got none. For example: earsight localize"),
        ("--image p.png", "Expected --image and --audio together, but got one of them. Give both."),
        ("a.mp4 --image p.png --audio a.wav", "Expected videos or folders, or --image and --audio, but got both"),
        ("--image p.png --audio a.wav --end 3", "Expected --end and --window with videos only"),
        ("a.mp4 --image p.png", "Expected --image and --audio together, but got one of them. Give both."),
        ("a.mp4 b.mp4 --audio a.wav", "Expected one video with --audio, but got 2 inputs. Name one video file."),
        ("a.mp4 --format avi", "Expected formats out of mp4, png, json, npz, but got 'avi'"),
        ("a.mp4 --every 0", "Expected every of at least 0.01 seconds, but got 0"),
        ("a.mp4 --start 3 --end 2", "Expected an end after the start"),
        ("a.mp4 --object-prior 2", "Expected an object prior with alpha between 0 and 1, but got 2"),
        ("a.mp4 --object-fusion ezvsl", "Expected --object-prior ALPHA with --object-fusion, but got"),
        ("a.mp4 --batch-size 0", "Expected a batch_size of at least 1, but got 0"),
    ],
)
def test_what_makes_no_sense_is_refused(
    args: str, message: str, weights: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["localize", str(weights), *args.split()]) == 2
    assert message in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["my video.mp4"], "but my video.mp4 is a video: earsight localize WEIGHTS 'my video.mp4'. Weights are"),
        (["a.mp4", "b.mkv"], "but a.mp4 is a video: earsight localize WEIGHTS a.mp4 b.mkv. "),
        (["a.jpg", "a.wav"], "but a.jpg is a picture: earsight localize WEIGHTS a.jpg a.wav. "),
        (["a.wav", "--image", "a.jpg", "--audio", "a.wav"], "but a.wav is a sound: earsight localize WEIGHTS a.wav"),
        (
            ["--image", "a.jpg", "--audio", "b.wav"],
            "but got none: earsight localize WEIGHTS --image a.jpg --audio b.wav.",
        ),
        ([], "but got none: earsight localize WEIGHTS VIDEO. Weights are a file"),
    ],
)
def test_forgotten_weights_are_asked_for(args: list[str], message: str, capsys: Captured) -> None:
    assert main(["localize", *args]) == 2
    assert f"Expected weights first, {message}" in capsys.readouterr().err


@pytest.mark.parametrize("inputs", [["clip.mp4"], []])
def test_the_folder_around_a_run_names_the_run(
    inputs: list[str], weights: Path, tmp_path: Path, capsys: Captured
) -> None:
    (tmp_path / "demo" / "run").mkdir(parents=True)
    shutil.copy(weights, tmp_path / "demo" / "run" / "weights.safetensors")
    assert main(["localize", str(tmp_path / "demo"), *inputs]) == 1
    assert f"Name the run in it: {tmp_path / 'demo' / 'run'}." in capsys.readouterr().err
    (tmp_path / "demo" / "run" / "run.json").touch()
    assert main(["show", str(tmp_path / "demo")]) == 2
    assert f"Name one in it: {tmp_path / 'demo' / 'run'}." in capsys.readouterr().err


def test_an_object_prior_changes_the_maps_and_takes_the_verdict(
    weights: Path, media: Path, tmp_path: Path, capsys: Captured
) -> None:
    torch.save(resnet18().state_dict(), tmp_path / "resnet18.pth")
    args = ["localize", str(weights), str(media / "clip.mp4"), "-o", str(tmp_path / "out"), "--format", "json"]
    prior = ["--object-prior", "0.9", "--object-weights", str(tmp_path / "resnet18.pth")]
    assert main([*args, *prior]) == 0
    got = capsys.readouterr()
    assert "not calibrated" in got.out
    assert "no threshold was calibrated with the object prior, so there is a confidence but no verdict" in got.err
    (written,) = (tmp_path / "out").iterdir()
    assert json.loads(written.read_text(encoding="utf-8"))["weights"] == f"{weights} + OGL 0.9"
    assert main([*args, *prior, "--force", "--object-fusion", "ezvsl"]) == 0
    assert len({item["confidence"] for item in json.loads(written.read_text(encoding="utf-8"))["items"]}) > 1


def test_ctrl_c_keeps_what_was_finished(
    weights: Path, media: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    whole = Localizer.maps
    calls: list[int] = []

    def interrupted(self: Localizer, *args: Any) -> Any:
        calls.append(1)
        if len(calls) == 2:
            signal.raise_signal(signal.SIGINT)
            while signal.getsignal(signal.SIGINT) is not signal.default_int_handler:  # noted, by the main thread
                time.sleep(0.01)
        return whole(self, *args)

    monkeypatch.setattr(Localizer, "maps", interrupted)
    other = tmp_path / "other.mp4"
    other.write_bytes((media / "clip.mp4").read_bytes())
    args = ["localize", str(weights), str(media / "clip.mp4"), str(other), "-o", str(tmp_path / "out")]
    assert main([*args, "--batch-size", "1", "--smooth", "0", "--format", "mp4,json"]) == 130
    got = capsys.readouterr()
    assert "partial, 2 times answered" in got.out
    assert "stopped by the user: what was finished is kept and marked as partial" in got.err
    assert f"not begun: {other}" in got.err
    values = json.loads((tmp_path / "out" / "clip.earsight.json").read_text(encoding="utf-8"))
    assert values["partial"] is True
    assert len(values["items"]) == 2
    assert probe(tmp_path / "out" / "clip.earsight.mp4").has_video


def test_progress_tells_rate_and_time_left(
    weights: Path, media: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    monkeypatch.setattr("earsight.cli.screen.EVERY", 0.0)
    ticks = itertools.count(step=3)
    monkeypatch.setattr("earsight.cli.localize.Pace", lambda: Pace(lambda: float(next(ticks))))
    assert main(["localize", str(weights), str(media / "clip.mp4"), "-o", str(tmp_path), "--format", "mp4"]) == 0
    assert re.search(r"clip\.mp4, 0\.\d times as fast as it plays, \d+:\d\d left: \d+%", capsys.readouterr().err)
