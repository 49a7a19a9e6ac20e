"""From the records of trials to the numbers of a page, with intervals over runs and clips."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from earsight import protocols
from earsight.errors import DataError
from earsight.files import write_text
from earsight.metrics import average_precision, loc_acc
from earsight.metrics.base import Records, defined
from earsight.protocols import Protocol
from earsight.report import bootstrap
from earsight.training.log import LOG, read_log
from studies.trial import Trial
from studies.work import DONE, SPECS, done_of

NAMES = ("ap", "max_f1", "loc_acc", "auroc")
Line = tuple[str, str, str]
"""Group, name, and file of records."""


def lines(todo: Iterable[Trial], out: Path) -> dict[Line, list[Trial]]:
    """The trials that were measured, by what was measured; each seed of a line is one of its trials."""
    found: dict[Line, list[Trial]] = {}
    for trial in todo:
        if (out / trial.key / DONE).exists():
            for file in done_of(out / trial.key)["files"]:
                found.setdefault((trial.group, trial.name, file), []).append(trial)
    return found


def read(trials: Iterable[Trial], file: str, out: Path) -> list[Records]:
    return [Records.read(out / trial.key / f"{file}.csv") for trial in trials]


def row(line: Line, trials: list[Trial], out: Path) -> dict[str, Any]:
    """One measurement in percent: mean over seeds, 95% interval, and each seed's own number."""
    group, name, file = line
    *form, key = file.split("-")
    protocol = protocols.get(SPECS[key])
    runs = read(trials, file, out)
    found = over_seeds(runs, protocol)
    each = [{**loc_acc.compute(one, protocol), **average_precision.compute(one, protocol)} for one in runs]
    return {
        "group": group,
        "name": name,
        "epoch": form[0],
        "form": "-".join(form[1:-1]),
        "test": form[-1],
        "protocol": key,
        "seeds": [trial.seed for trial in trials],
        "epochs": [epoch_of(out / trial.key / "run", form[0]) for trial in trials],
        "numbers": {metric: [percent(value) for value in found[metric]] for metric in NAMES},
        "loc_acc_by_seed": [percent(one["loc_acc"]) for one in each],
        "max_f1_by_seed": [percent(one["max_f1"]) for one in each],
        "pointing_by_seed": [defined(percent(loc_acc.compute(one, protocol)["pointing"])) for one in runs],
        "floor": percent(sum(average_precision.f1_floor(one, protocol) for one in runs) / len(runs)),
    }


def over_seeds(
    runs: Sequence[Records], protocol: Protocol, names: Sequence[str] = NAMES, draws: int = 1000, seed: int = 0
) -> dict[str, tuple[float, float, float]]:
    """Mean of each number over several trainings of one model, with the interval that other runs and clips could give.

    Each draw takes as many runs as there are, with replacement, and measures all of them on the same drawn clips.
    """
    ids = [np.sort(records.id) for records in runs]
    if any(not np.array_equal(one, ids[0]) for one in ids):
        raise DataError("Expected runs measured on the same clips, but their ids differ. Measure all on one list.")
    found = bootstrap.drawn(runs, protocol, names, draws, seed)
    chosen = np.random.default_rng((seed, 1)).integers(0, len(runs), (draws, len(runs)))
    out = {}
    for name in names:
        by_run = np.stack([one.values[name] for one in found], axis=1)
        low, high = bootstrap.middle(np.take_along_axis(by_run, chosen, axis=1).mean(axis=1))
        out[name] = (float(np.mean([one.whole[name] for one in found])), low, high)
    return out


def write(path: Path, about: dict[str, Any], rows: list[dict[str, Any]], **more: Any) -> None:
    """All of it as JSON, a row a line."""
    parts = [f'"about": {json.dumps(about)}', *(f'"{key}": {json.dumps(value)}' for key, value in more.items())]
    text = ",\n".join(json.dumps(one) for one in rows)
    write_text(path, "{" + ",\n".join([*parts, f'"rows": [\n{text}\n]']) + "}\n")


def epoch_of(run: Path, which: str) -> int:
    """The epoch whose weights these are, counted from 1 over all stages; 0 when nothing was trained."""
    aps: list[tuple[int, float]] = []
    before = 0
    for one in read_log(run / LOG):
        if "val" in one:
            if aps and before + one["epoch"] + 1 <= aps[-1][0]:  # a new stage, with a best epoch of its own
                before = aps[-1][0]
                aps.clear()
            aps.append((before + one["epoch"] + 1, one["val"].get("ap", 0.0)))
    if not aps:
        return 0
    return aps[-1][0] if which == "last" else max(aps, key=lambda one: one[1])[0]


def percent(value: float) -> float:
    return round(100 * value, 2)
