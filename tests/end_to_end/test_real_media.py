"""The commands of the README on real photos, sounds and films, as far as they lie beside the checkout."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from earsight.cli import main

TINY = [
    *("--method.encoders.image", "small", "--method.encoders.audio", "small"),
    *("--method.encoders.width", "8", "--method.dim", "32"),
    *("--method.temperature", "0.07", "--method.momentum", "0.9", "--optim.lr", "0.001"),
    *("--inputs.image-size", "64", "--inputs.resize", "72", "--inputs.rate", "8000", "--inputs.window", "256"),
    *("--inputs.hop", "128", "--optim.epochs", "2", "--optim.batch-size", "16", "--device", "cpu"),
]


@pytest.mark.slow
def test_train_eval_and_localize_run_on_real_media(
    shared_media: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data, run = str(shared_media / "coco_esc"), str(tmp_path / "run")
    on = ["--on", "folder", "--data", data]
    assert main(["train", "slavc", *on, "--out", run, "--limit", "96", *TINY]) == 0
    capsys.readouterr()
    assert main(["eval", run, *on, "--limit", "48", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["evaluations"][0]
    assert found["n"] == 48
    assert found["failures"] == []
    assert found["kinds"]["positive"] > 0
    assert sum(found["kinds"].values()) == 48

    clips = shared_media / "clips"
    out = tmp_path / "out"
    given = [str(clips / "dog_barking.mp4"), "--out", str(out), "--every", "1", "--end", "2"]
    assert main(["localize", run, *given]) == 0
    assert {p.suffix for p in out.iterdir()} == {".mp4", ".png", ".json"}
    pair = ["--image", str(clips / "dog.jpg"), "--audio", str(clips / "dog.wav"), "--out", str(tmp_path / "pair")]
    assert main(["localize", run, *pair]) == 0
    timeline = json.loads(next((tmp_path / "pair").glob("*.json")).read_text())
    assert timeline["items"][0]["verdict"] in ("visible source", "no visible source")
