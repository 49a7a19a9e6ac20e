"""The study on toybox: its page says what its results say, and a trial is trained and measured once."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
from studies.toybox import page, tables, trials
from studies.words import one

import tiny
from earsight import registry
from earsight.metrics.base import Records
from studies import work


def test_the_page_is_what_the_results_say() -> None:
    assert page.PAGE.read_text(encoding="utf-8") == page.text(), "write it anew: python -m studies.toybox"
    assert not re.search(r"\{\{|\bnan\b", page.text())


@pytest.mark.parametrize("path", page.METHOD_PAGES, ids=lambda path: path.stem)
def test_a_methods_page_has_the_numbers_of_the_results(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert text.count(page.MARKS[0]) == text.count(page.MARKS[1]) == 1
    assert page.with_numbers(path) == text, "write it anew: python -m studies.toybox"


def test_every_method_has_a_recipe_and_a_line_in_the_table() -> None:
    names = {trial.name for trial in trials.methods(trials.SEEDS)}
    assert set(registry.names("method")) <= names
    assert {path.stem for path in page.METHOD_PAGES} == set(registry.names("method"))
    rows = json.loads(tables.RESULTS.read_text(encoding="utf-8"))["rows"]
    for name in names:
        assert one(rows, "methods", name) is not None, name


def test_all_methods_have_one_budget() -> None:
    jobs = [trial.job for trial in trials.methods((0,))]
    assert len({(job.on, job.optim.epochs, job.optim.batch_size, job.optim.optimizer) for job in jobs}) == 1
    assert all(job.optim.keep == "both" for job in jobs)


def test_no_two_trials_share_a_folder() -> None:
    keys = [trial.key for make in trials.GROUPS.values() for trial in make(trials.SEEDS)]
    assert len(keys) == len(set(keys)) == 98


@pytest.mark.slow
def test_a_trial_is_trained_measured_and_then_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    job = replace(tiny.job(epochs=1, keep="both"), on="toybox:train", val="toybox:val", limit=16)
    small = trials.Trial("methods", "slavc", 0, job, infers=("avc",))
    how = work.How("cpu", "random", limit=16)
    assert work.work(small, tmp_path, how).clips == 16
    folder = tmp_path / "methods/slavc/0"
    done = json.loads((folder / work.DONE).read_text(encoding="utf-8"))
    assert done["hardware"] == "CPU"
    assert {"last-extended-exact", "last-avc-extended-native", "best-extended-adaptive"} <= set(done["files"])
    assert all(len(Records.read(folder / f"{name}.csv")) == 16 for name in done["files"])
    before = {path: path.stat().st_mtime_ns for path in folder.rglob("*")}
    work.work(small, tmp_path, how)
    assert before == {path: path.stat().st_mtime_ns for path in folder.rglob("*")}
    monkeypatch.setattr(tables, "open_set", lambda spec: work.open_set(spec, limit=16))
    tables.collect([small], tmp_path, tmp_path / "results.json")
    (row, *_) = json.loads((tmp_path / "results.json").read_text(encoding="utf-8"))["rows"]
    assert row["seeds"] == [0]
    low, high = row["numbers"]["loc_acc"][1:]
    assert low <= row["numbers"]["loc_acc"][0] <= high
