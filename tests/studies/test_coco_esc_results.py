"""What the study tells of lines: compared with the right line, and added to what was told before."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from studies.coco_esc import page, results, trials
from studies.coco_esc.trials import Budget
from studies.trial import Trial

from earsight.errors import DataError
from earsight.metrics.base import Records
from studies import rows

TRIALS = [trial for make in trials.GROUPS.values() for trial in make(Budget("packs/coco_esc"))]


def measured(out: Path, trial: Trial, skill: float) -> None:
    """Records as a run leaves them: the more skill, the more of its sources are found."""
    draw = np.random.default_rng(trial.seed)
    positive = np.arange(60) < 40
    found = draw.uniform(size=60) < skill
    records = Records(
        id=np.array([f"{i}" for i in range(60)]),
        kind=np.where(positive, "positive", "noise"),
        label=np.full(60, ""),
        area=np.full(60, 900.0),
        confidence=draw.uniform(size=60) + positive,
        ciou=np.where(positive, np.where(found, 0.8, 0.2), np.nan),
    )
    (out / trial.key).mkdir(parents=True)
    records.write(out / trial.key / f"{results.PLAIN}.csv")
    (out / trial.key / "measured.json").write_text(json.dumps({"files": [results.PLAIN]}))


def here(out: Path, skills: dict[tuple[str, str], float]) -> dict[rows.Line, list[Trial]]:
    for trial in TRIALS:
        if (trial.group, trial.name) in skills:
            measured(out, trial, skills[trial.group, trial.name])
    return rows.lines(TRIALS, out)


def test_slavc_is_compared_with_methods_and_ablations_and_batches_with_their_own_method(tmp_path: Path) -> None:
    skills = {
        ("methods", "slavc"): 0.9, ("methods", "ezvsl"): 0.4, ("dropout", "0"): 0.6,
        ("batches", "slavc 128"): 0.5, ("batches", "slavc 32"): 0.8, ("batches", "ezvsl 32"): 0.3,
        ("singles", "slavc 11"): 0.1,
    }  # fmt: skip
    lines = here(tmp_path, skills)
    gaps = {(one["group"], one["name"]): one for one in results.gaps(lines, tmp_path)}
    assert list(gaps) == [("methods", "ezvsl"), ("dropout", "0")]
    assert gaps["methods", "ezvsl"]["numbers"]["loc_acc"][0] > gaps["dropout", "0"]["numbers"]["loc_acc"][0] > 0
    # EZ-VSL in batches of 128 is not here, and nothing is said about what 32 change.
    changes = {(one["group"], one["name"]): one for one in results.changes(lines, tmp_path)}
    assert list(changes) == [("batches", "slavc 32"), ("singles", "slavc 11")]
    assert changes["batches", "slavc 32"]["numbers"]["loc_acc"][0] > 10
    assert changes["singles", "slavc 11"]["numbers"]["loc_acc"][0] < -10
    assert changes["singles", "slavc 11"]["pairs"] == 3


def test_slavc_of_the_part_on_batches_is_compared_with_ezvsl_of_the_same_part_alone(tmp_path: Path) -> None:
    skills = {("batches", "slavc 128"): 0.9, ("methods", "ezvsl"): 0.4}
    assert results.gaps(here(tmp_path / "a", skills), tmp_path / "a") == []
    lines = here(tmp_path / "b", skills | {("batches", "ezvsl 128"): 0.2})
    (gap,) = results.gaps(lines, tmp_path / "b")
    assert (gap["group"], gap["name"], gap["pairs"]) == ("batches", "ezvsl 128", 3)
    assert gap["numbers"]["loc_acc"][0] > 40


def one(group: str, name: str, **more: Any) -> dict[str, Any]:
    return {"group": group, "name": name, "form": "", **more}


ABOUT = {"clips": {"positive": 40, "noise": 20}}


def test_lines_without_a_run_here_stay_as_they_were_in_the_order_of_the_study() -> None:
    before = {
        "about": ABOUT,
        "gaps": [one("methods", "lvs"), one("batches", "slavc 32"), one("methods", "slavc", form="silent")],
        "runs": [one("methods", "slavc"), one("methods", "lvs"), one("batches", "slavc 32", seed=0)],
        "rows": [one("methods", "slavc"), one("batches", "slavc 32", old=True), one("labels", "by sounds")],
    }
    now = {
        "gaps": [one("methods", "coarse_to_fine")],
        "changes": [one("batches", "slavc 32")],
        "runs": [one("methods", "coarse_to_fine"), *(one("batches", "slavc 32", seed=seed) for seed in (0, 1))],
        "rows": [one("methods", "coarse_to_fine"), one("batches", "slavc 32")],
    }
    told = results.added(before, ABOUT, now, TRIALS)
    names = {part: [(each["name"], each["form"]) for each in found] for part, found in told.items()}
    assert names["gaps"] == [("lvs", ""), ("coarse_to_fine", ""), ("slavc", "silent")]
    assert names["changes"] == [("slavc 32", "")]
    assert [name for name, _ in names["runs"]] == ["slavc", "lvs", "coarse_to_fine", "slavc 32", "slavc 32"]
    assert [each.get("seed") for each in told["runs"][-2:]] == [0, 1]
    # What the study no longer trains comes last.
    assert [name for name, _ in names["rows"]] == ["slavc", "coarse_to_fine", "slavc 32", "by sounds"]
    assert not any("old" in each for each in told["rows"])


def test_what_was_compared_with_a_line_that_is_trained_anew_is_gone() -> None:
    before = {
        "about": ABOUT,
        "gaps": [one("methods", "lvs"), one("batches", "ezvsl 128")],
        "changes": [one("singles", "slavc 11"), one("batches", "ezvsl 32")],
        "rows": [one("methods", "lvs"), one("singles", "slavc 11")],
    }

    def left(*new: dict[str, Any]) -> dict[str, list[str]]:
        now: results.Parts = {"runs": list(new), "gaps": [], "changes": [], "rows": []}
        told = results.added(before, ABOUT, now, TRIALS)
        return {part: [each["name"] for each in told[part]] for part in ("gaps", "changes", "rows")}

    all_rows = ["lvs", "slavc 11"]
    assert left(one("methods", "slavc")) == {
        "gaps": ["ezvsl 128"], "changes": ["ezvsl 32", "slavc 11"], "rows": all_rows,
    }  # fmt: skip
    assert left(one("batches", "slavc 128")) == {"gaps": ["lvs"], "changes": ["ezvsl 32"], "rows": all_rows}


def test_results_on_another_list_are_not_added_to() -> None:
    with pytest.raises(DataError, match="Expected results on the same test list"):
        results.added({"about": {"clips": {"positive": 1}}}, ABOUT, {"runs": []}, TRIALS)


def test_a_page_of_runs_that_cannot_be_added_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(*_: object, add: bool) -> None:
        raise DataError(f"no: {add}")

    monkeypatch.setattr(page, "collect", refuse)
    assert page.main(["--runs", str(tmp_path), "--add", "--page", str(tmp_path / "page.md")]) == 2
    assert capsys.readouterr().err == "no: True\n"
    assert not (tmp_path / "page.md").exists()
