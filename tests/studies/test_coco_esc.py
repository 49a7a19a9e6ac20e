"""The study on coco_esc: its page says what its results say, its commands are what was run, and it can be killed."""

from __future__ import annotations

import doctest
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from studies.coco_esc import __main__ as driver
from studies.coco_esc import page, results, told, trials
from studies.coco_esc.trials import Budget
from studies.trial import Trial

from earsight import registry
from earsight.cli import main
from earsight.training.job import Job
from tiny import coco_trees

ROOT = Path(__file__).parents[2]
BUDGET = Budget("packs/coco_esc", "weights.pth", "cuda", epochs=40, precision="bf16", seeds=(0, 1, 2))
ALL = [trial for make in trials.GROUPS.values() for trial in make(BUDGET)]


def test_the_page_is_what_the_results_say() -> None:
    assert page.PAGE.read_text(encoding="utf-8") == page.text(), "write it anew: python -m studies.coco_esc.page"
    assert not re.search(r"\{\{|\bnan\b", page.text())


def test_a_page_without_results_says_that_nothing_was_run_yet(tmp_path: Path) -> None:
    page.write(tmp_path / "results.json", tmp_path / "page.md")
    assert "Not run yet. To run it: `python -m studies.coco_esc --pack PACK`" in (tmp_path / "page.md").read_text()


def test_every_method_is_trained_and_none_more_than_another() -> None:
    found = list(trials.methods(BUDGET))
    assert {trial.job.method for trial in found} == set(registry.names("method"))
    budgets = {(t.job.optim.epochs, t.job.optim.batch_size, t.job.optim.lr, t.job.optim.precision) for t in found}
    assert budgets == {(40, 128, 1e-4, "bf16"), (20, 128, 1e-4, "bf16")}
    assert {trial.name for trial in found if trial.job.optim.epochs == 20} == {"dsol"}
    assert all(trial.job.optim.keep == "both" for trial in found)


def test_what_matters_most_comes_first_and_each_seed_before_the_next() -> None:
    found = [(trial.name, trial.seed) for trial in trials.methods(BUDGET)]
    assert {name for name, _ in found[:6]} == {"slavc", "ezvsl"}
    rest = [seed for name, seed in found[6:] if name not in ("center_prior", "ogl")]
    assert rest == sorted(rest)


def test_steps_become_a_graph_on_a_gpu_where_they_are_all_alike() -> None:
    steady = {trial.job.method for trial in ALL if trial.job.optim.graph}
    assert steady == {"slavc", "ezvsl", "marginnce", "fnac", "lvs", "hardpos", "avobject"}
    assert not any(trial.job.optim.graph for trial in trials.methods(Budget("p")))


def test_no_two_trials_share_a_folder_and_all_are_looked_for() -> None:
    keys = [trial.key for trial in ALL]
    assert len(keys) == len(set(keys))
    assert set(keys) <= {trial.key for trial in trials.every()}


@pytest.mark.parametrize("trial", [trial for trial in ALL if trial.seed == 0], ids=lambda trial: trial.key)
def test_the_command_beside_a_number_trains_the_run_it_is_of(
    trial: Trial, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Job] = []

    def stand_in(job: Job, out: Path, **flags: Any) -> Path:
        asked.append(job)
        return out / "weights.safetensors"

    monkeypatch.setattr("earsight.training.loop.train", stand_in)
    words = shlex.split(told.train_command(trial.job, str(tmp_path / "run")))
    assert main(words[1:]) == 0
    assert asked == [told.named(trial.job)]
    assert str(trial.job.data) not in words


def test_the_example_of_a_command_is_right() -> None:
    assert doctest.testmod(told).failed == 0


def call(data: Path, out: Path, *flags: str) -> list[str]:
    words = ["--pack", str(data), "--image-weights", "random", "--out", str(out), "--device", "cpu", "--small"]
    words += ["--limit", "40", "--epochs", "2", "--batch", "16", "--val-every", "1", "--seeds", "1", "--jobs", "1"]
    return [*words, "--only", "methods", "--names", "slavc", "ezvsl", "center_prior", *flags]


@pytest.mark.slow
def test_killed_and_resumed_it_ends_with_a_page(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data, out = coco_trees.folder(tmp_path / "data"), tmp_path / "runs"
    words = [sys.executable, "-m", "studies.coco_esc", *call(data, out, "--no-page")]
    running = subprocess.Popen(words, cwd=ROOT, stderr=subprocess.DEVNULL, start_new_session=True)
    state = out / "methods/slavc/0/run/state.pt"
    while not state.exists() and running.poll() is None:
        time.sleep(0.05)
    assert running.poll() is None
    os.killpg(running.pid, signal.SIGKILL)
    running.wait()
    assert not (out / "methods/slavc/0/measured.json").exists()
    files = ["--results", str(tmp_path / "results.json"), "--page", str(tmp_path / "page.md")]
    kept = tmp_path / "kept"
    assert driver.main([*call(data, out), *files, "--keep-weights", str(kept)]) == 0
    said = capsys.readouterr().err
    assert "3 of 3 runs to do" in said
    assert re.search(r"1/3 methods/slavc/0: \d+ clips, \d+ a second", said)
    assert "3 runs in" in said
    assert "resuming at epoch" in (out / "methods/slavc/0/said.txt").read_text()

    # What is small stays, what is large goes, but for one run.
    assert not [*out.rglob("*.pt"), *out.rglob("*.safetensors")]
    assert (kept / "methods-slavc-0" / "weights.safetensors").is_file()
    found = json.loads((tmp_path / "results.json").read_text())
    assert {row["name"] for row in found["rows"]} == {"slavc", "ezvsl", "center_prior"}
    forms = {row["form"] for row in found["rows"] if row["name"] == "slavc"}
    assert forms == {"", "shuffled", "silent", "loc", "avc", "online", "ogl"}
    text = (tmp_path / "page.md").read_text()
    assert not re.search(r"\{\{|\bnan\b", text)
    assert "--recipe ezvsl_coco_esc --data PACK" in text
    assert str(data) not in text
    assert (tmp_path / "img" / "coco_esc_training.png").is_file()

    # Once more there is nothing to do, and other settings are refused.
    assert driver.main([*call(data, out), *files]) == 0
    assert "0 of 3 runs to do" in capsys.readouterr().err
    assert driver.main([*call(data, out), *files, "--lr", "0.5"]) == 2
    assert "was trained with, but got other optim.lr. Give the same, or another --out." in capsys.readouterr().err
    assert json.loads((tmp_path / "results.json").read_text())["rows"] == found["rows"]

    # Without its run a line is told only where results are added to.
    shutil.rmtree(out / "methods" / "ezvsl")
    again = ["--runs", str(out), *files]
    assert page.main([*again, "--add"]) == 0
    assert json.loads((tmp_path / "results.json").read_text()) == found
    assert (tmp_path / "page.md").read_text() == text
    assert page.main(again) == 0
    assert {row["name"] for row in json.loads((tmp_path / "results.json").read_text())["rows"]} == {
        "slavc", "center_prior",
    }  # fmt: skip
    assert results.RESULTS.parent == ROOT / "studies" / "coco_esc"
