"""`earsight data check`: counts, names, lists of good clips, and an exit code that a script can use."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pytest

from earsight.cli import main
from earsight.media.write import write_png, write_wav

Output = pytest.CaptureFixture[str]
RATE = 8000


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Thirteen pairs of a folder set, all of them good."""
    random = np.random.default_rng(0)
    lines = []
    for i in range(13):
        write_png(tmp_path / f"p{i}.png", random.integers(0, 256, (3, 20, 30), dtype=np.uint8))
        write_wav(tmp_path / f"s{i}.wav", random.uniform(-0.5, 0.5, 3 * RATE).astype(np.float32), RATE)
        lines.append(f"p{i}.png,s{i}.wav,0,x,single")
    (tmp_path / "pairs_train.csv").write_text("\n".join(["image,audio,start,cls,kind", *lines]))
    return tmp_path


def test_a_good_set_is_told_so(folder: Path, capsys: Output) -> None:
    assert main(["data", "check", "folder:train", "--data", str(folder)]) == 0
    out = capsys.readouterr().out
    assert out.startswith("folder:train: 13 clips, 13 without a problem\n")
    assert all(line.split("  ")[-2].strip() == "0" for line in out.splitlines()[2:])


def test_toybox_is_good(capsys: Output) -> None:
    assert main(["data", "check", "toybox:test", "--limit", "5"]) == 0
    assert "toybox:test: 5 of 384 clips, 5 without a problem" in capsys.readouterr().out


def test_what_is_missing_fails_and_is_listed_in_full(folder: Path, tmp_path: Path, capsys: Output) -> None:
    for i in range(11):
        (folder / f"p{i}.png").unlink()
    write_wav(folder / "s12.wav", np.zeros(3 * RATE, np.float32), RATE)
    out = tmp_path / "checked"
    assert main(["data", "check", "folder:train", "--data", str(folder), "-o", str(out)]) == 1
    said = capsys.readouterr().out
    assert said.startswith("folder:train: 13 clips, 2 without a problem, 1 of them with remarks\n")
    assert "  p9+s9@0: no picture: " in said
    assert "p10+s10@0" not in said
    assert "  and 1 more\n" in said
    assert "\nsilent (remark):\n  p12+s12@0: has a peak of 0.0e+00" in said
    with (out / "problems.csv").open(newline="") as file:
        problems = list(csv.DictReader(file))
    assert [line["problem"] for line in problems] == ["missing"] * 11 + ["silent"]
    assert (out / "good.txt").read_bytes() == b"p11+s11@0\n"


def test_remarks_alone_are_no_failure_and_json_holds_them(folder: Path, capsys: Output) -> None:
    write_wav(folder / "s2.wav", np.full(RATE, 0.5, np.float32), RATE)
    assert main(["data", "check", "folder:train", "--data", str(folder), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["set"], told["clips"], told["looked_at"], told["good"]) == ("folder:train", 13, 13, 12)
    assert told["remarked"] == 1
    assert {kind: n for kind, n in told["counts"].items() if n} == {"wrongly timed": 1}
    assert told["problems"] == [
        {"id": "p2+s2@0", "kind": "wrongly timed", "detail": "has 1.00 s of sound, of the 3 s that are heard"}
    ]


def test_clips_that_are_only_remarked_on_are_without_a_problem(folder: Path, capsys: Output) -> None:
    for i in range(13):
        write_wav(folder / f"s{i}.wav", np.full(RATE, 0.5 + i / 100, np.float32), RATE)
    assert main(["data", "check", "folder:train", "--data", str(folder)]) == 0
    said = capsys.readouterr().out
    assert said.startswith("folder:train: 13 clips, 13 without a problem, 13 of them with remarks\n")


def test_lists_that_are_there_are_kept_and_nothing_is_looked_at(folder: Path, tmp_path: Path, capsys: Output) -> None:
    out = tmp_path / "checked"
    out.mkdir()
    (out / "good.txt").write_text("mine")
    command = ["data", "check", "folder:train", "--data", str(folder), "-o", str(out)]
    assert main(command) == 2
    assert "good.txt yet, but got one. Use --force to replace it." in capsys.readouterr().err
    assert (out / "good.txt").read_text() == "mine"
    assert main([*command, "--force"]) == 0
    assert len((out / "good.txt").read_text().splitlines()) == 13


def test_a_list_without_a_folder_asks_for_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Output) -> None:
    (tmp_path / "flickr_10k.txt").write_text("1\n2\n")
    monkeypatch.setenv("EARSIGHT_METADATA", str(tmp_path))
    assert main(["data", "check", "flickr_soundnet:10k"]) == 2
    assert "Expected the folder with the media of flickr_soundnet:10k, but got none." in capsys.readouterr().err


@pytest.mark.slow
def test_workers_change_nothing_that_is_printed(folder: Path, capsys: Output) -> None:
    (folder / "p3.png").unlink()
    assert main(["data", "check", "folder:train", "--data", str(folder)]) == 1
    alone = capsys.readouterr().out
    assert main(["data", "check", "folder:train", "--data", str(folder), "--workers", "2"]) == 1
    assert capsys.readouterr().out == alone
