"""Forty photos and forty sounds of the same names, and nothing else: what every command makes of them."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from earsight.cli import main
from earsight.header import read_header
from earsight.media.write import VideoWriter, write_png, write_wav
from earsight.training.log import read_log

Output = pytest.CaptureFixture[str]
RATE = 4000
TINY = [
    *("--method.encoders.image", "small", "--method.encoders.audio", "small"),
    *("--method.encoders.width", "4", "--method.dim", "8"),
    *("--inputs.image-size", "32", "--inputs.resize", "36", "--inputs.rate", str(RATE), "--inputs.seconds", "0.5"),
    *("--inputs.window", "128", "--inputs.hop", "64", "--device", "cpu"),
]
"""A small model, and nothing that says how to train it."""


@pytest.fixture
def pairs(tmp_path: Path) -> Path:
    folder, random = tmp_path / "my_pairs", np.random.default_rng(0)
    folder.mkdir()
    for i in range(40):
        write_png(folder / f"{i:02d}.png", random.integers(0, 256, (3, 40, 50), dtype=np.uint8))
        write_wav(folder / f"{i:02d}.wav", random.uniform(-0.5, 0.5, 4 * RATE).astype(np.float32), RATE)
    return folder


@pytest.fixture
def film(tmp_path: Path) -> Path:
    write_wav(tmp_path / "s.wav", np.random.default_rng(1).uniform(-0.5, 0.5, RATE).astype(np.float32), RATE)
    with VideoWriter(tmp_path / "film.mp4", 64, 48, Fraction(5), sound_from=tmp_path / "s.wav") as writer:
        for i in range(5):
            writer.write(np.full((3, 48, 64), 40 * i, np.uint8), i / 5)
    return tmp_path / "film.mp4"


@pytest.mark.slow
def test_they_train_a_model_that_localizes(pairs: Path, film: Path, tmp_path: Path, capsys: Output) -> None:
    run, out = tmp_path / "run", tmp_path / "out"
    (pairs / "alone.jpg").touch()
    (pairs / "second.mp4").write_bytes(film.read_bytes())
    line = ["train", "slavc", "--on", "folder", "--data", str(pairs), "--out", str(run), "--preset", "official"]
    assert main([*line, *TINY]) == 0
    told = capsys.readouterr().err
    assert f"no validation: there is no pairs_val.csv in {pairs}. Add it" in told
    assert "not used: 1 picture (without a sound of the same name): alone.jpg" in told
    assert "batches of 41 clips, not 128" in told
    assert f"next: earsight localize {run}" in told
    header = read_header(run)
    assert (header["training"]["clips"], header["training"]["unreadable"]) == (41, 0)
    assert (header["calibration"], header["training"]["job"]["optim"]["epochs"]) == (None, 20)
    losses = [row["loss"] for row in read_log(run / "log.jsonl")]
    assert len(losses) == 20
    assert np.mean(losses[-5:]) < np.mean(losses[:5])

    assert main(["localize", str(run), str(film), "--out", str(out)]) == 0
    pair = ["--image", str(pairs / "00.png"), "--audio", str(pairs / "00.wav"), "--out", str(out)]
    assert main(["localize", str(run), *pair]) == 0
    assert {path.name for path in out.iterdir()} == {
        *(f"film.earsight.{kind}" for kind in ("mp4", "png", "json")),
        *(f"00.earsight.{kind}" for kind in ("png", "json")),
    }
    assert json.loads((out / "00.earsight.json").read_text())["items"][0]["verdict"] == "not calibrated"


@pytest.mark.slow
def test_a_pack_of_them_trains_without_more_flags(pairs: Path, tmp_path: Path, capsys: Output) -> None:
    pack = tmp_path / "pack"
    small = ["--size", "36", "--rate", str(RATE), "--seconds", "0.5"]
    (pairs / "alone.jpg").touch()
    assert main(["data", "prepare", "folder", "--data", str(pairs), "--out", str(pack), *small]) == 0
    got = capsys.readouterr()
    assert "folder:train: 40 of 40 clips packed" in got.out
    assert "not used: 1 picture (without a sound of the same name): alone.jpg" in got.err
    line = ["train", "slavc", "--on", "folder", "--data", str(pack), "--out", str(tmp_path / "run"), "--limit", "20"]
    assert main([*line, *TINY]) == 0
    told = capsys.readouterr().err
    assert f"no validation: the pack {pack} holds no folder:val." in told
    assert "--limit makes this a smoke test: 1 epoch in batches of 8 at most" in told
    assert "20 clips, 2 batches of 8 an epoch" in told


def test_they_are_checked_by_name_and_measured_only_with_boxes(pairs: Path, tmp_path: Path, capsys: Output) -> None:
    data = ["--data", str(pairs)]
    (pairs / "alone.wav").touch()
    assert main(["data", "check", "folder", *data]) == 0
    got = capsys.readouterr()
    assert got.out.startswith("folder:train: 40 clips, ")
    assert "not used: 1 sound (without a picture of the same name): alone.wav" in got.err
    assert main(["data", "audit", "folder", *data]) == 1
    assert "Expected pairs_test.csv with columns image and audio" in capsys.readouterr().err
    assert main(["score", "center-prior", "--on", "folder", *data]) == 1
    assert f"but got none in {pairs}. Add it, with boxes.csv, to measure on it." in capsys.readouterr().err
    listed = "image,audio,kind\n00.png,00.wav,\n00.png,01.wav,neg_other\n"
    (pairs / "pairs_test.csv").write_text(listed)
    assert main(["score", "center-prior", "--on", "folder", *data]) == 1
    assert "Expected a box for every positive pair of folder:test" in capsys.readouterr().err
    (pairs / "boxes.csv").write_text("image,xc,yc,w,h\n00.png,0.5,0.5,0.4,0.4\n")
    assert main(["score", "center-prior", "--on", "folder", *data]) == 0
    capsys.readouterr()
    assert main(["data", "check", "folder", *data]) == 0
    assert capsys.readouterr().out.startswith("folder:test: 2 clips, ")
    assert main(["data", "audit", "folder", *data]) == 0
    assert "folder:train: 38 training clips" in capsys.readouterr().out
