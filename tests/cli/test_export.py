"""`earsight export`: writes one checked file, replaces nothing unasked, and the file localizes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from earsight.cli import main

Captured = pytest.CaptureFixture[str]


@pytest.fixture(scope="module")
def exported(weights: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("exported") / "tiny"
    assert main(["export", str(weights), "-o", str(out)]) == 0
    return out


@pytest.mark.slow
def test_an_export_tells_how_near_to_torch_it_is(weights: Path, tmp_path: Path, capsys: Captured) -> None:
    out = tmp_path / "folder" / "tiny"
    assert main(["export", str(weights), "--out", str(out), "--opset", "19", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["folder"] == str(out)
    size = sum(file.stat().st_size for file in out.iterdir())
    assert (told["method"], told["opset"], told["bytes"]) == ("slavc", 19, size)
    assert told["difference"] <= 1e-4


def test_the_file_localizes_as_the_weights_do(
    weights: Path, exported: Path, media: Path, tmp_path: Path, capsys: Captured
) -> None:
    found = {}
    for name, model in {"torch": weights, "onnx": exported}.items():
        out = tmp_path / name
        assert main(["localize", str(model), str(media / "clip.mp4"), "--out", str(out)]) == 0
        pair = ["--image", str(media / "picture.png"), "--audio", str(media / "tone.wav")]
        assert main(["localize", str(model), *pair, "--out", str(out), "--format", "png,json"]) == 0
        assert (out / "clip.earsight.mp4").stat().st_size > 1000
        found[name] = [json.loads((out / f"{one}.earsight.json").read_text()) for one in ("clip", "picture")]
    for one, other in zip(found["torch"], found["onnx"], strict=True):
        assert one.pop("weights") != other.pop("weights")
        for mine, theirs in zip(one.pop("items"), other.pop("items"), strict=True):
            for key in ("confidence", "momentary"):
                assert mine.pop(key) == pytest.approx(theirs.pop(key), abs=1e-5)
            assert mine == theirs
        assert one == other


def test_the_file_tells_what_it_is(exported: Path, capsys: Captured) -> None:
    assert main(["show", str(exported)]) == 0
    out = capsys.readouterr().out
    assert f"{exported}: an exported earsight model" in out
    assert "visible from confidence 0.0000 on" in out


@pytest.mark.slow
def test_nothing_is_replaced_unasked(weights: Path, exported: Path, capsys: Captured) -> None:
    before = exported.stat().st_mtime_ns
    assert main(["export", str(weights), "-o", str(exported)]) == 2
    assert "Expected no export at" in capsys.readouterr().err
    assert exported.stat().st_mtime_ns == before
    assert main(["export", str(weights), "-o", str(exported), "--force"]) == 0
    got = capsys.readouterr()
    assert "at most from torch" in got.out
    assert f"next: earsight localize {exported}" in got.err


def test_other_folders_are_not_replaced(weights: Path, tmp_path: Path, capsys: Captured) -> None:
    (tmp_path / "photo.jpg").write_bytes(b"mine")
    assert main(["export", str(weights), "-o", str(tmp_path), "--force"]) == 2
    assert "Expected a new or empty folder at" in capsys.readouterr().err
    assert (tmp_path / "photo.jpg").read_bytes() == b"mine"


def test_an_object_prior_needs_the_weights(exported: Path, media: Path, tmp_path: Path, capsys: Captured) -> None:
    args = ["localize", str(exported), str(media / "clip.mp4"), "-o", str(tmp_path), "--object-prior", "0.9"]
    assert main(args) == 2
    assert "Give the weights that it was exported from." in capsys.readouterr().err
