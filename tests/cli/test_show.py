"""`earsight show`: tells weights, runs, reports and media apart, and says what each is."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from earsight.checkpoint import save_weights
from earsight.cli import main
from earsight.methods.base import build
from earsight.recipes import RECIPES
from tiny import INPUTS, config

Captured = pytest.CaptureFixture[str]


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run that was stopped in its second epoch while it wrote its log."""
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / "run.json").write_text(json.dumps(RECIPES["slavc_toybox"]().to_json()), encoding="utf-8")
    rows = [{"step": 10 * i, "epoch": i // 4, "loss": 5.5 - i, "lr": 0.001} for i in range(1, 7)]
    rows.insert(
        4,
        {
            "step": 40,
            "epoch": 0,
            "val": {"ap": 0.25, "loc_acc": 0.5, "auc": 0.125, "auroc": 0.5, "loc_acc/small": 0.0625},
        },
    )
    text = "".join(json.dumps(row) + "\n" for row in rows) + '{"step": 70, "ep'
    (folder / "log.jsonl").write_text(text, encoding="utf-8")
    (folder / "state.pt").write_bytes(b"")
    return folder


def test_weights_tell_their_settings(weights: Path, capsys: Captured) -> None:
    assert main(["show", str(weights)]) == 0
    out = capsys.readouterr().out
    assert f"{weights}: earsight weights" in out
    for line in (
        "method       slavc",
        "visible from confidence 0.0000 on",
        "encoders.image",
        "image_size",
        "clips   7",
    ):
        assert line in out


def test_weights_without_calibration_say_so(uncalibrated: Path, capsys: Captured) -> None:
    assert main(["show", str(uncalibrated)]) == 0
    assert "calibration  none: verdicts need weights trained with a validation set" in capsys.readouterr().out


def test_weights_say_why_they_have_no_calibration(tmp_path: Path, capsys: Captured) -> None:
    why = "at --false-alarm 0.1 no threshold accepts any positive of toybox:val"
    meta = {"calibration": None, "uncalibrated": why}
    save_weights(tmp_path / "w.safetensors", build("slavc", config(), INPUTS), "slavc", config(), meta)
    assert main(["show", str(tmp_path / "w.safetensors")]) == 0
    assert f"calibration  none: {why}" in capsys.readouterr().out


def test_a_folder_with_nothing_but_weights_shows_them(weights: Path, tmp_path: Path, capsys: Captured) -> None:
    shutil.copy(weights, tmp_path / "weights.safetensors")
    assert main(["show", str(tmp_path), "--json"]) == 0
    values = json.loads(capsys.readouterr().out)
    assert (values["kind"], values["method"], values["inputs"]["rate"]) == ("weights", "slavc", 4000)


def test_a_run_tells_its_progress_and_how_to_go_on(run: Path, capsys: Captured) -> None:
    assert main(["show", str(run)]) == 0
    out = capsys.readouterr().out
    assert "state     can be resumed" in out
    assert "progress  epoch 2 of 8, step 60" in out
    assert (
        "last validation, in percent (all numbers: --json):\n    AP      25.00\n    LocAcc  50.00\n    AUC     12.50\n"
        in out
    )
    assert "loc_acc/small" not in out
    assert "method.visual_dropout" in out
    assert "step 60  epoch 1  loss -0.5  lr 0.001" in out
    assert "\n    step 40  epoch 0  AP 25.00  max-F1 -  LocAcc 50.00\n" in out
    assert f"go on with: earsight train --out {run} --resume" in out


def test_a_run_as_json(run: Path, capsys: Captured) -> None:
    assert main(["show", str(run / "run.json"), "--json"]) == 0
    values = json.loads(capsys.readouterr().out)
    assert (values["kind"], values["epoch"], values["epochs"], len(values["log"])) == ("run", 2, 8, 5)
    assert values["validation"]["loc_acc/small"] == 0.0625
    assert values["settings"]["on"] == "toybox:train"


def test_a_finished_run_tells_its_calibration(run: Path, weights: Path, capsys: Captured) -> None:
    shutil.copy(weights, run / "weights.safetensors")
    assert main(["show", str(run)]) == 0
    told = "calibration  visible from confidence 0.0000 on: 90.0% of positives and 10.0% of 10 negatives pass"
    assert told in capsys.readouterr().out
    assert main(["show", str(run), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["calibration"]["recall"] == 0.9


def test_weights_tell_the_numbers_that_come_first(tmp_path: Path, capsys: Captured) -> None:
    meta = {"metrics": {"toybox:val": {"ap": 0.5, "loc_acc": 0.25, "auroc": 0.5, "loc_acc/small": 0.125}}}
    save_weights(tmp_path / "w.safetensors", build("slavc", config(), INPUTS), "slavc", config(), meta)
    assert main(["show", str(tmp_path / "w.safetensors")]) == 0
    out = capsys.readouterr().out
    assert "measured on toybox:val, in percent (all numbers: --json):\n    AP      50.00\n    LocAcc  25.00" in out
    assert "loc_acc/small" not in out


def test_a_run_of_a_method_from_outside_is_gone_on_with_as_printed(run: Path, capsys: Captured) -> None:
    settings = json.loads((run / "run.json").read_text(encoding="utf-8"))
    (run / "run.json").write_text(json.dumps({**settings, "method": "lab.mine"}), encoding="utf-8")
    assert main(["show", str(run)]) == 0
    again = f"go on with: EARSIGHT_MODULES=lab.mine earsight train --out {run} --resume"
    assert again in capsys.readouterr().out


def test_a_validation_without_negatives_leads_with_locacc(run: Path, capsys: Captured) -> None:
    row = {"step": 40, "epoch": 0, "val": {"ap": 0.25, "loc_acc": 0.5, "auc": 0.125}}
    (run / "log.jsonl").write_text(json.dumps(row) + "\n", encoding="utf-8")
    assert main(["show", str(run)]) == 0
    out = capsys.readouterr().out
    assert "last validation, in percent (all numbers: --json):\n    LocAcc  50.00\n    AUC     12.50\n    AP " in out
    assert "step 40  epoch 0  LocAcc 50.00  AUC 12.50" in out


def test_a_run_that_has_just_begun(run: Path, capsys: Captured) -> None:
    (run / "log.jsonl").unlink()
    (run / "state.pt").unlink()
    assert main(["show", str(run)]) == 0
    out = capsys.readouterr().out
    assert "state     not saved yet" in out
    assert "epoch 0 of 8" in out


def test_a_report_shows_its_table(tmp_path: Path, capsys: Captured) -> None:
    (tmp_path / "metrics.json").write_text('{"evaluations": []}', encoding="utf-8")
    assert main(["show", str(tmp_path)]) == 2
    assert f"Expected {tmp_path / 'table.md'} beside metrics.json" in capsys.readouterr().err
    (tmp_path / "table.md").write_text("# Evaluation\n", encoding="utf-8")
    assert main(["show", str(tmp_path)]) == 0
    out = capsys.readouterr().out
    assert "# Evaluation" in out
    assert "report.html" not in out
    (tmp_path / "report.html").write_text("<!doctype html>", encoding="utf-8")
    assert main(["show", str(tmp_path)]) == 0
    assert f"a report, with a page for the browser: {tmp_path / 'report.html'}" in capsys.readouterr().out
    assert main(["show", str(tmp_path / "metrics.json"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"kind": "report", "path": str(tmp_path), "evaluations": []}


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("clip.mp4", ["what      video", "picture   64x48", "frames    5 per second", "16000 samples", "1 channel\n"]),
        ("picture.png", ["what     picture", "picture  60x40", "sound    none"]),
        ("tone.wav", ["what      sound", "duration  1.000 s", "16000 samples per second"]),
    ],
)
def test_media_tell_what_they_hold(name: str, told: list[str], media: Path, capsys: Captured) -> None:
    assert main(["show", str(media / name)]) == 0
    out = capsys.readouterr().out
    for line in told:
        assert line in out
    assert main(["show", str(media / name), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["kind"] == "media"


@pytest.mark.parametrize(
    ("name", "content", "message", "code"),
    [
        ("gone", None, "Expected a file or folder, but there is nothing at", 2),
        ("a.pth", b"x", "If it is an official checkpoint, use: earsight import", 2),
        ("a.safetensors", b"x", "Expected an earsight weights file, but", 1),
        ("a.txt", b"hello", "is not a media file of a known kind", 1),
        ("run.json", b"{", "Expected a run's settings in", 1),
        ("run.json", b"[]", "but got a list. Make it again.", 1),
        ("run.json", b'{"optim": []}', "but got no usable method, optim. Make it again.", 1),
        ("run.json", 100_000 * b"[", "is damaged (more than 64 lists and objects inside each other)", 1),
        ("metrics.json", b"\xff", "is damaged", 1),
        ("metrics.json", b"{}", "Expected a report in ", 1),
        ("metrics.json", 100_000 * b'{"a":', "is damaged (more than 64 lists", 1),
    ],
)
def test_what_cannot_be_shown_is_told(
    name: str, content: bytes | None, message: str, code: int, tmp_path: Path, capsys: Captured
) -> None:
    if content is not None:
        (tmp_path / name).write_bytes(content)
    assert main(["show", str(tmp_path / name)]) == code
    got = capsys.readouterr()
    assert message in got.err
    assert got.out == ""


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("slavc", "methods"),
        ("toybox", "sets"),
        ("toybox:extended", "sets"),
        ("average_precision", "metrics"),
        ("slavc_toybox", "recipes"),
        ("table2", "tables"),
        ("official", "protocols"),
    ],
)
def test_a_name_that_is_no_file_is_looked_up_in_lists(
    name: str, kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["show", name]) == 2
    told = f"there is nothing at {name}. It is one of the {kind}: see earsight list {kind}."
    assert told in capsys.readouterr().err


def test_a_folder_of_something_else_is_told(tmp_path: Path, capsys: Captured) -> None:
    assert main(["show", str(tmp_path)]) == 2
    assert "Expected a run (with run.json) or a report (with metrics.json)" in capsys.readouterr().err
