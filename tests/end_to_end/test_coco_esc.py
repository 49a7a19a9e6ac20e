"""The commands on coco_esc with real photos and sounds, as far as they lie beside the checkout."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from earsight.cli import main

TINY = [
    *("--method.encoders.image", "small", "--method.encoders.audio", "small"),
    *("--method.encoders.width", "4", "--method.dim", "8"),
    *("--inputs.image-size", "32", "--inputs.resize", "36", "--inputs.rate", "4000", "--inputs.window", "128"),
    *("--inputs.hop", "64", "--optim.epochs", "2", "--optim.batch-size", "8", "--device", "cpu"),
]
Output = pytest.CaptureFixture[str]


@pytest.mark.slow
def test_train_eval_show_check_and_audit_run_on_the_folder(shared_media: Path, tmp_path: Path, capsys: Output) -> None:
    data, run = ["--data", str(shared_media / "coco_esc")], str(tmp_path / "run")
    assert main(["train", "slavc", "--on", "coco_esc", *data, "--out", run, "--limit", "24", *TINY]) == 0
    capsys.readouterr()
    sets = ["coco_esc", "coco_esc:single", "coco_esc:multi"]
    command = ["eval", run, "--on", *sets, *data, "--limit", "30", "--device", "cpu", "--audio", "real", "--json"]
    assert main(command) == 0
    found = [e for e in json.loads(capsys.readouterr().out)["evaluations"] if e["audio"] == "real"]
    assert [e["set"] for e in found] == ["coco_esc:extended", "coco_esc:single", "coco_esc:multi"]
    assert all(e["n"] == 30 and e["failures"] == [] and e["warnings"] == [] for e in found)  # nothing was trained on
    assert set(found[0]["kinds"]) == {"positive", "offscreen", "no_object", "ambience", "silence", "noise"}
    assert main(["show", run]) == 0
    assert "coco_esc" in capsys.readouterr().out
    assert main(["data", "check", "coco_esc:val", *data, "--limit", "12"]) == 0
    assert "12 of 572 clips, 12 without a problem" in capsys.readouterr().out
    assert main(["data", "audit", "coco_esc:train_all", "--against", "coco_esc:extended", "coco_esc:val"]) == 0
    shared = {line.split()[0]: line.split()[2:4] for line in capsys.readouterr().out.splitlines()[3:]}
    assert shared == {"coco_esc:extended": ["0", "0"], "coco_esc:val": ["0", "0"]}


@pytest.mark.slow
def test_training_on_a_pack_is_measured_on_the_same_lists(shared_media: Path, tmp_path: Path, capsys: Output) -> None:
    folder, pack, run = str(shared_media / "coco_esc"), str(tmp_path / "pack"), str(tmp_path / "run")
    small = ["--size", "36", "--rate", "4000", "--limit", "16"]
    assert main(["data", "prepare", "coco_esc:train", "coco_esc:val", "--data", folder, "--out", pack, *small]) == 0
    assert main(["train", "slavc", "--on", "coco_esc", "--data", pack, "--out", run, *TINY]) == 0
    capsys.readouterr()
    assert main(["eval", run, "--on", "coco_esc:val", "--data", pack, "--device", "cpu", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["evaluations"][0]
    assert (found["n"], found["failures"]) == (found["rows"], [])
