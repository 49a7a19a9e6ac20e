"""From the records of all trials to the numbers of the page, with intervals over runs and clips."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from earsight import bootstrap, protocols
from earsight.data.clips import open_set
from earsight.evaluate import center_prior
from earsight.files import write_text
from earsight.metrics import loc_acc, max_f1, pointing
from earsight.metrics.base import Records, defined
from earsight.train.log import LOG, read_log
from studies.toybox.trials import EXTENDED, Trial
from studies.toybox.work import DONE

RESULTS = Path(__file__).with_name("results.json")
NAMES = ("ap", "max_f1", "loc_acc", "auroc")
SPECS = {"exact": "exact", "own": "exact:confidence=native", "native": "exact:map=native", "adaptive": "adaptive"}


def collect(todo: Iterable[Trial], out: Path, path: Path) -> None:
    """Write every measurement of the trials, in percent: mean over seeds, 95% interval, and each seed's own number."""
    lines: dict[tuple[str, str, str], list[Trial]] = {}
    hardware: set[str] = set()
    for trial in todo:
        done = json.loads((out / trial.key / DONE).read_text(encoding="utf-8"))
        hardware.add(done["hardware"])
        for file in done["files"]:
            lines.setdefault((trial.group, trial.name, file), []).append(trial)
    rows = [_row(group, name, file, trials, out) for (group, name, file), trials in lines.items()]
    middle = center_prior(open_set(EXTENDED), protocols.get("exact"))
    about = {
        "command": "python -m studies.toybox",
        "commit": _commit(),
        "hardware": " and ".join(sorted(hardware)),
        "center_prior": {name: _percent(middle.metrics[name]) for name in NAMES},
        "ceiling": _percent(middle.ceiling),
    }
    lines_of_json = ",\n".join(json.dumps(row) for row in rows)
    write_text(path, f'{{"about": {json.dumps(about)},\n"rows": [\n{lines_of_json}\n]}}\n')


def _row(group: str, name: str, file: str, trials: list[Trial], out: Path) -> dict[str, Any]:
    *form, key = file.split("-")
    protocol = protocols.get(SPECS[key])
    runs = [Records.read(out / trial.key / f"{file}.parquet") for trial in trials]
    found = bootstrap.over_seeds(runs, protocol, NAMES)
    each = [{**loc_acc.compute(one, protocol), **max_f1.compute(one, protocol)} for one in runs]
    return {
        "group": group,
        "name": name,
        "epoch": form[0],
        "form": "-".join(form[1:-1]),
        "test": form[-1],
        "protocol": key,
        "seeds": [trial.seed for trial in trials],
        "epochs": [_epoch(out / trial.key / "run", form[0]) for trial in trials],
        "numbers": {metric: [_percent(value) for value in found[metric]] for metric in NAMES},
        "loc_acc_by_seed": [_percent(one["loc_acc"]) for one in each],
        "max_f1_by_seed": [_percent(one["max_f1"]) for one in each],
        "pointing_by_seed": [defined(_percent(pointing.compute(one, protocol)["pointing"])) for one in runs],
        "floor": _percent(sum(max_f1.floor(one, protocol) for one in runs) / len(runs)),
    }


def _epoch(run: Path, which: str) -> int:
    """The epoch whose weights these are, counted from 1; 0 when nothing was trained."""
    aps = [(row["epoch"] + 1, row["val"].get("ap", 0.0)) for row in read_log(run / LOG) if "val" in row]
    if not aps:
        return 0
    return aps[-1][0] if which == "last" else max(aps, key=lambda one: one[1])[0]


def _percent(value: float) -> float:
    return round(100 * value, 2)


def _commit() -> str:
    told = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False)
    return told.stdout.strip() or "unknown"
