"""From the records and logs of all trials to results.json: everything that the page tells."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from earsight import protocols
from earsight.data.coco.lists import name_of, pairs_of
from earsight.errors import DataError
from earsight.metrics import average_precision, interactive, loc_acc, negatives, sizes, sweeps
from earsight.metrics.base import Records, defined
from earsight.protocols import Protocol
from earsight.recipes.coco_esc import OPTIM
from earsight.report import bootstrap
from earsight.training.folder import load_job
from earsight.training.log import LOG, read_log
from studies import rows
from studies.coco_esc import told
from studies.coco_esc.trials import FIXED, PARTS
from studies.trial import Trial
from studies.work import DONE, SPECS, done_of, pace

RESULTS = Path(__file__).with_name("results.json")
DRAWS = 1000
"""Of the intervals of differences."""
CURVE = np.linspace(0, 1, 41)
"""Shares of the clips that are accepted, at which F1 is told."""
WATCHED = ("ap", "max_f1", "loc_acc", "auroc")
"""Numbers of the validation list that training curves are made of."""
PLAIN = "last-extended-exact"
BASE = ("methods", "slavc", PLAIN)
Parts = dict[str, list[dict[str, Any]]]
"""Of the file: each a list of what is told of lines, or of runs, by group and name."""


def finished(out: Path, trial: Trial) -> bool:
    return (out / trial.key / DONE).exists()


def collect(todo: Iterable[Trial], out: Path, path: Path, *, add: bool = False) -> None:
    """Write every measurement of the trials that are finished; nothing when none is.

    With `add`, what the file tells of lines without a run here stays in it.
    """
    todo = list(todo)
    trials = [trial for trial in todo if finished(out, trial)]
    if not trials:
        return
    lines, exact = rows.lines(trials, out), protocols.get("exact")
    made = []
    for line, found in lines.items():
        row = rows.row(line, found, out)
        if row["protocol"] == "exact":
            row |= details(rows.read(found, line[2], out), exact, curves=row["form"] == "")
        made.append(row)
    told: Parts = {
        "gaps": gaps(lines, out),
        "changes": changes(lines, out),
        "runs": [of_run(trial, out) for trial in trials],
        "training": [curve(trial, out) for trial in trials],
        "rows": made,
    }
    records = Records.read(out / trials[0].key / f"{PLAIN}.csv")
    about: dict[str, Any] = {
        "clips": dict(Counter(records.kind.tolist())),
        "ceilings": {name: rows.percent(ceiling(part, exact)) for name, part in parts(records).items()},
        "sizes": sizes.counts(records, exact),
    }
    if add and path.is_file():
        told = added(json.loads(path.read_text(encoding="utf-8")), about, told, todo)
    rows.write(path, about | of_all(told["runs"]), told.pop("rows"), **told)


def of_all(runs: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """What is told of all runs together."""
    return {
        "commands": commands(runs),
        "hardware": " and ".join(sorted({run["hardware"] for run in runs})),
        "commits": sorted({run["commit"] for run in runs}),
        "epochs": sorted({run["epochs"] for run in runs if run["clips"]}),
        "rate": round(sum(run["clips"] for run in runs) / max(1e-9, sum(run["seconds"] for run in runs))),
    }


def commands(runs: Sequence[Mapping[str, Any]]) -> list[str]:
    r"""What to type for all of these runs: one command for each length, with the parts that have it.

    >>> commands([{"group": "methods", "epochs": 40}, {"group": "methods", "epochs": 20}])
    ['python -m studies.coco_esc --pack PACK --epochs 40']
    >>> print("\n".join(commands([{"group": "dropout", "epochs": 40}, {"group": "batches", "epochs": 60}])))
    python -m studies.coco_esc --pack PACK --epochs 40 --only ablations
    python -m studies.coco_esc --pack PACK --only batches
    """
    longest: dict[str, int] = {}  # some methods have shorter epochs, and fewer of them
    for run in runs:
        part = PARTS[run["group"]]
        longest[part] = max(longest.get(part, 0), run["epochs"])
    lengths = dict.fromkeys(longest.values())
    words = []
    for epochs in lengths:
        only = [part for part in longest if longest[part] == epochs]
        words.append(
            "python -m studies.coco_esc --pack PACK"
            + (f" --epochs {epochs}" if epochs != OPTIM.epochs else "")
            + (f" --only {' '.join(only)}" if len(lengths) > 1 else "")
        )
    return words


def added(before: Mapping[str, Any], about: Mapping[str, Any], told: Parts, todo: Iterable[Trial]) -> Parts:
    """What was told before, with each line that has runs now in place of what it was, all in the order of the study.

    What was compared with a line that has other runs now is gone: it would be a difference from runs that nobody is
    told of.
    """
    if before["about"]["clips"] != about["clips"]:
        raise DataError(
            f"Expected results on the same test list, but those before have {before['about']['clips']} and the runs "
            f"here {about['clips']}. Write the runs' own results into another file, with --results."
        )
    new = {_line(run) for run in told["runs"]}
    other = {_line(run) for run in told["runs"] if run not in before.get("runs", [])}
    order = {line: at for at, line in enumerate(dict.fromkeys((trial.group, trial.name) for trial in todo))}
    return {
        part: sorted(
            [*(one for one in before.get(part, []) if not (_line(one) in new or _base(part, one) in other)), *now],
            key=lambda one: (part == "gaps" and one["form"] != "", order.get(_line(one), len(order))),
        )
        for part, now in told.items()
    }


def _line(one: Mapping[str, Any]) -> tuple[str, str]:
    return one["group"], one["name"]


def _base(part: str, one: Mapping[str, Any]) -> tuple[str, str]:
    """The line that a difference is told from; of anything else its own."""
    if part == "gaps":
        return ("batches", "slavc 128") if one["group"] in _BATCHES else BASE[:2]
    return _batches_of(one["name"]) if part == "changes" else _line(one)


def _batches_of(name: str) -> tuple[str, str]:
    """The method of a line on batches as it is: in batches of 128 as they come.

    >>> _batches_of("ezvsl 32 at most 3")
    ('batches', 'ezvsl 128')
    """
    return "batches", f"{name.split()[0]} 128"


def parts(records: Records) -> dict[str, Records]:
    """All clips, and those of each task that are among them."""
    found = {"extended": records}
    for split in ("single", "multi"):
        ids = [name_of(pair, False) for pair in pairs_of(split)]
        found[split] = records.where(np.isin(records.id, ids))
    return found


def ceiling(records: Records, protocol: Protocol) -> float:
    seen = records.where(records.positives)
    return loc_acc.ceiling(seen.area, protocol, seen.support)


def details(runs: Sequence[Records], protocol: Protocol, *, curves: bool) -> dict[str, Any]:
    """What is told beside the main numbers, in percent, as means over seeds."""
    each = []
    for records in runs:
        numbers: dict[str, float] = {}
        for name, part in parts(records).items():
            placed = loc_acc.compute(part, protocol)
            numbers |= {f"{name} {number}": placed[number] for number in ("loc_acc", "pointing")}
        # Photos with several sounds are those of the split multi, once with each of their sounds.
        numbers |= interactive.compute(parts(records)["multi"], protocol)
        for module in (negatives, sizes, loc_acc):
            numbers |= module.compute(records, protocol)
        each.append(numbers)
    told = {"more": _means(each), "iiou_by_seed": [defined(rows.percent(one["iiou"])) for one in each]}
    if curves:
        told["f1_curve"] = np.mean([f1_at(one, protocol) for one in runs], axis=0).round(2).tolist()
        aps = [sweeps.over_ious(one, protocol)[1] for one in runs]
        told["ap_curve"] = (100 * np.mean(aps, axis=0)).round(2).tolist()
    return told


def _means(each: Sequence[Mapping[str, float]]) -> dict[str, float | None]:
    return {name: defined(rows.percent(float(np.mean([one[name] for one in each])))) for name in each[0]}


def f1_at(records: Records, protocol: Protocol) -> list[float]:
    """F1 in percent when the most confident clips are accepted: a share of CURVE of them all."""
    f1, thresholds = average_precision.f1_curve(records, protocol)
    share = np.searchsorted(np.sort(-records.confidence), -thresholds, side="right") / len(records)
    return [float(value) for value in 100 * np.interp(CURVE, np.append(0.0, share), np.append(0.0, f1))]


def of_run(trial: Trial, out: Path) -> dict[str, Any]:
    """How one run was made: the commands, and by what."""
    folder = out / trial.key
    done, job, speed = done_of(folder), load_job(folder / "run"), pace(folder)
    return {
        "group": trial.group,
        "name": trial.name,
        "seed": trial.seed,
        "commit": done["commit"],
        "hardware": done["hardware"],
        "train": told.train_command(job, f"RUNS/{trial.key}"),
        "epochs": job.optim.epochs,
        "batch": job.optim.batch_size,
        "clips": speed.clips,
        "seconds": round(speed.seconds, 1),
        "waited": round(speed.waited, 1),
    }  # fmt: skip


def curve(trial: Trial, out: Path) -> dict[str, Any]:
    """Loss of each epoch, and what the validation list said after some, counted from 1 over all stages."""
    losses: dict[int, list[float]] = {}
    seen: dict[str, list[float]] = {name: [] for name in ("epoch", *WATCHED)}
    before, latest = 0, 0
    for row in read_log(out / trial.key / "run" / LOG):
        if row["epoch"] + 1 < latest - before:  # a new stage counts from 0 again
            before = latest
        latest = max(latest, before + row["epoch"] + 1)
        if "val" in row:
            seen["epoch"].append(latest)
            for name in WATCHED:
                seen[name].append(rows.percent(row["val"].get(name, 0.0)))
        elif "loss" in row:
            losses.setdefault(latest, []).append(row["loss"])
    mean = {epoch: round(float(np.mean(values)), 4) for epoch, values in losses.items()}
    return {"group": trial.group, "name": trial.name, "seed": trial.seed, "loss": list(mean.values()), "val": seen}


def gaps(lines: Mapping[rows.Line, list[Trial]], out: Path) -> list[dict[str, Any]]:
    """What SLAVC has more than each of the others, and than itself with other sounds, on the same draws of clips.

    Runs of one seed are compared; the interval reaches from the lowest of any seed to the highest of any. Where it and
    EZ-VSL are trained once more, for the part on batches, they are compared once more.
    """
    wanted = [(BASE, line) for line in lines if line[2] == PLAIN and line != BASE and line[0] not in _BATCHES]
    wanted += [(BASE, line) for line in lines if line[:2] == BASE[:2] and line[2] in _CONTROLS]
    wanted.append((("batches", "slavc 128", PLAIN), ("batches", "ezvsl 128", PLAIN)))
    there = [(a, b) for a, b in wanted if a in lines and b in lines and pairs(lines, a, b)]
    return [gap(lines, a, b, out) for a, b in there]


def changes(lines: Mapping[rows.Line, list[Trial]], out: Path) -> list[dict[str, Any]]:
    """What a method has more in other batches than in batches of 128 as they come."""
    found = []
    for line in lines:
        base = (*_batches_of(line[1]), PLAIN)
        if line[0] in _BATCHES and line[2] == PLAIN and line != base and base in lines and pairs(lines, line, base):
            found.append({**gap(lines, line, base, out), "group": line[0], "name": line[1]})
    return found


_BATCHES = ("batches", "singles")
_CONTROLS = tuple(f"last-{sound}-extended-exact" for sound in ("shuffled", "silent"))


def pairs(lines: Mapping[rows.Line, list[Trial]], a: rows.Line, b: rows.Line) -> list[tuple[Trial, Trial]]:
    """Runs of equal seeds. What has nothing to learn has no seeds, and all are compared with it."""
    theirs = {trial.seed: trial for trial in lines[b]}
    fixed = theirs[0] if b[0] == "methods" and b[1] in FIXED else None
    return [(mine, other) for mine in lines[a] if (other := theirs.get(mine.seed, fixed)) is not None]


def gap(lines: Mapping[rows.Line, list[Trial]], a: rows.Line, b: rows.Line, out: Path) -> dict[str, Any]:
    protocol, compared = protocols.get(SPECS["exact"]), pairs(lines, a, b)
    found: dict[str, list[bootstrap.Difference]] = {name: [] for name in rows.NAMES}
    for one, other in compared:
        (first,), (second,) = rows.read([one], a[2], out), rows.read([other], b[2], out)
        for name, value in bootstrap.paired(first, second, protocol, rows.NAMES, DRAWS).items():
            found[name].append(value)
    numbers = {
        name: [rows.percent(value) for value in (float(np.mean([d.value for d in each])), min(d.low for d in each),
                                                 max(d.high for d in each))]
        for name, each in found.items()
    }  # fmt: skip
    return {
        "group": b[0],
        "name": b[1],
        "form": "-".join(b[2].split("-")[1:-2]),
        "pairs": len(compared),
        "numbers": numbers,
    }
