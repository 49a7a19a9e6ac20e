"""`earsight curves`: table, JSON, picture, and how it ends."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from earsight.cli import main


@pytest.fixture
def a_run(tmp_path: Path) -> Path:
    folder = tmp_path / "slavc"
    folder.mkdir()
    rows = [{"step": e, "epoch": e, "val": {"ap": ap, "loc_acc": 0.5}} for e, ap in enumerate([0.2, 0.4, 0.25])]
    (folder / "log.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder


def test_the_table_says_what_is_lost_and_the_note_why(
    a_run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "c.png"
    assert main(["curves", str(a_run), "--out", str(out)]) == 0
    told = capsys.readouterr()
    head, first, second = told.out.splitlines()
    assert head.split()[:3] == ["run", "metric", "best"]
    assert first.split() == ["slavc", "LocAcc", "50.00", "1", "50.00", "3", "+0.00"]
    assert second.split() == ["slavc", "AP", "40.00", "2", "25.00", "3", "-15.00"]
    assert "optimistic" in told.err
    assert out.stat().st_size > 1000


def test_json_holds_the_series(a_run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["curves", str(a_run), "--metrics", "ap", "--out", str(tmp_path / "c.png"), "--json"]) == 0
    (one,) = json.loads(capsys.readouterr().out)["curves"]
    assert one["epochs"] == [1, 2, 3]
    assert one["values"] == [0.2, 0.4, 0.25]
    assert one["best_so_far"] == [0.2, 0.4, 0.4]
    assert one["best"] == {"epoch": 2, "value": 0.4}


def test_runs_without_validation_are_drawn_and_named(
    a_run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bare, out = tmp_path / "bare", tmp_path / "c.png"
    bare.mkdir()
    rows = [{"step": 10 * i, "epoch": 0, "lr": 0.1, "loss": 8.0 / i} for i in (1, 2, 4)]
    (bare / "log.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert main(["curves", str(a_run), str(bare), "--out", str(out)]) == 0
    told = capsys.readouterr()
    assert len(told.out.splitlines()) == 3
    assert "no validation in the log of bare, so only the loss is drawn. Train with --val SET" in told.err
    assert main(["curves", str(bare), "--out", str(out), "--force"]) == 0
    told = capsys.readouterr()
    assert told.out.splitlines()[1].split() == ["bare", "40", "8", "2", "2"]
    assert "optimistic" not in told.err
    assert main(["curves", str(bare), "--out", str(out), "--force", "--json"]) == 0
    values = json.loads(capsys.readouterr().out)
    assert values["curves"] == []
    assert values["training"][0] == {"run": "bare", "name": "loss", "steps": [10, 20, 40], "values": [8.0, 4.0, 2.0]}


def test_a_picture_is_not_replaced_unless_forced(
    a_run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "c.png"
    out.write_bytes(b"mine")
    assert main(["curves", str(a_run), "--out", str(out)]) == 2
    assert "Expected no file at " in capsys.readouterr().err
    assert out.read_bytes() == b"mine"
    assert main(["curves", str(a_run), "--out", str(out), "--force"]) == 0
    assert out.read_bytes() != b"mine"


def test_wrong_commands_say_what_to_do(a_run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cases = {
        (str(a_run), "--out", str(tmp_path / "c.pdf")): (2, "Expected a .png file to write, but got"),
        (str(a_run), str(a_run)): (2, "Expected each run once, but got"),
        (str(a_run), "--metrics", "app"): (2, "Unknown number 'app'"),
        (str(tmp_path),): (1, "has no log.jsonl"),
    }
    for args, (code, told) in cases.items():
        assert main(["curves", *args]) == code
        assert told in capsys.readouterr().err
