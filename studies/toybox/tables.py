"""From the records of all trials to results.json."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from benchmarks.hardware import commit

from earsight import protocols
from earsight.data.clips import open_set
from earsight.evaluation import center_prior
from studies import rows
from studies.toybox.trials import EXTENDED, Trial
from studies.work import done_of

RESULTS = Path(__file__).with_name("results.json")


def collect(todo: Iterable[Trial], out: Path, path: Path) -> None:
    """Write every measurement of the trials."""
    trials = list(todo)
    middle = center_prior(open_set(EXTENDED), protocols.get("exact"))
    about = {
        "command": "python -m studies.toybox",
        "commit": commit(),
        "hardware": " and ".join(sorted({done_of(out / trial.key)["hardware"] for trial in trials})),
        "center_prior": {name: rows.percent(middle.metrics[name]) for name in rows.NAMES},
        "ceiling": rows.percent(middle.ceiling),
    }
    rows.write(path, about, [rows.row(line, found, out) for line, found in rows.lines(trials, out).items()])
