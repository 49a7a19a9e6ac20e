"""Every method trains from the command line, goes on after a kill with the same bits, and its weights are usable."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import numpy as np
import pytest
import torch

import tiny
from earsight import registry
from earsight.checkpoint import load_weights
from earsight.cli import main
from earsight.media.write import write_png, write_wav
from tiny import any_method, killing, processes

METHODS = registry.names("method")
TINY = [
    *("--inputs.image-size", "32", "--inputs.resize", "32", "--inputs.rate", "4000", "--inputs.seconds", "0.5"),
    *("--inputs.window", "128", "--inputs.hop", "64"),
    *("--optim.epochs", "1", "--optim.batch-size", "4", "--limit", "8", "--device", "cpu"),
]


@pytest.mark.slow
@pytest.mark.parametrize("name", METHODS)
def test_a_killed_run_ends_with_the_bits_of_one_left_alone(name: str, tmp_path: Path) -> None:
    if not any_method.stages(name):
        pytest.skip("nothing to learn")
    job = tiny.job(method=name, settings=any_method.settings(name), limit=24, val="")
    assert processes.finish([processes.start(killing.resume, job, tmp_path / "straight")]) == [0]
    for states in (1, 2, 2):  # saved every other of three steps: killed in the first epoch and in later ones
        process = processes.start(killing.resume_until_write, job, tmp_path / "run", "state.pt", states, "before")
        assert processes.finish([process]) == [-signal.SIGKILL]
    assert processes.finish([processes.start(killing.resume, job, tmp_path / "run")]) == [0]
    got, wanted = killing.contents(tmp_path / "run"), killing.contents(tmp_path / "straight")
    assert got[0].keys() == wanted[0].keys()
    assert all(torch.equal(got[0][key], value) for key, value in wanted[0].items())
    assert got[2] == wanted[2]


@pytest.mark.slow
@pytest.mark.parametrize("name", METHODS)
def test_a_method_trains_is_measured_and_localizes_from_the_command_line(name: str, tmp_path: Path) -> None:
    run = tmp_path / "run"
    assert main(["train", name, "--on", "toybox", "--out", str(run), *any_method.flags(name), *TINY]) == 0
    assert isinstance(load_weights(run).model, registry.load("method", name).Model)
    few, maps = ["--on", "toybox", "--limit", "8"], str(tmp_path / "maps.npz")
    wanted = ["--save-maps", maps, "--out", str(tmp_path / "measured")]
    assert main(["eval", str(run), *few, "--audio", "real", "--device", "cpu", *wanted]) == 0
    known = ["--on", "toybox", "--protocol", "exact", "--allow-missing"]
    assert main(["score", maps, *known, "--out", str(tmp_path / "scored")]) == 0
    mine, theirs = (
        json.loads((tmp_path / folder / "metrics.json").read_text(encoding="utf-8"))["evaluations"][0]
        for folder in ("measured", "scored")
    )
    assert mine["metrics"]["loc_acc"] == theirs["metrics"]["loc_acc"]
    assert main(["compare", str(tmp_path / "measured"), str(tmp_path / "scored")]) == 0
    write_png(tmp_path / "picture.png", np.full((3, 40, 60), 90, np.uint8))
    write_wav(tmp_path / "tone.wav", np.sin(np.arange(8000) / 3).astype(np.float32), 8000)
    pair = ["--image", str(tmp_path / "picture.png"), "--audio", str(tmp_path / "tone.wav")]
    assert main(["localize", str(run), *pair, "-o", str(tmp_path / "shown")]) == 0
