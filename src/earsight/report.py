"""Reports: a folder with the numbers as JSON, the records as Parquet, a table and plots; and tables for the screen."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Literal

from earsight import plots
from earsight.errors import UsageError
from earsight.evaluate import Evaluation

COLUMNS = {"ap": "AP", "max_f1": "max-F1", "loc_acc": "LocAcc", "auc": "AUC", "auroc": "AUROC"}
_AUDIO = ("real", "shuffled", "silent", "none")


def lines(evaluations: Sequence[Evaluation]) -> list[dict[str, str]]:
    """The lines of the result table: per set each model, its controls, the centre prior, then the ceiling.

    "F1 floor" is what accepting everything would score as max-F1. Values are in percent with two decimals; what is
    undefined or does not apply is a dash.
    """
    out: list[dict[str, str]] = []
    for group in _groups(evaluations):
        real = [e for e in group if e.audio == "real"]
        start = {"set": group[0].set_name}
        for e in group:
            numbers = {title: percent(e.metrics.get(name, math.nan)) for name, title in COLUMNS.items()}
            out.append({**start, "model": _called(e), **_with_floor(numbers, percent(e.floor)), "N": str(e.n)})
        if real:
            blank = {**_with_floor(dict.fromkeys(COLUMNS.values(), "-"), "-"), "N": "-"}
            policy, best = real[0].protocol.threshold, percent(real[0].ceiling)
            out.append({**start, "model": f"ceiling ({policy})", **blank, "LocAcc": best})
    return out


def _with_floor(numbers: Mapping[str, str], floor: str) -> dict[str, str]:
    """The floor goes right behind the number it is the floor of."""
    out: dict[str, str] = {}
    for title, value in numbers.items():
        out[title] = value
        if title == COLUMNS["max_f1"]:
            out["F1 floor"] = floor
    return out


def table(rows: Sequence[Mapping[str, str]], format: Literal["text", "markdown"] = "text") -> str:
    """Rows of equal keys as a table: words to the left, numbers to the right.

    >>> print(table([{"": "model", "AP": "61.20"}, {"": "floor", "AP": "-"}]))
              AP
    model  61.20
    floor      -
    >>> print(table([{"": "model", "AP": "61.20"}], "markdown"))
    |       |    AP |
    | :---- | ----: |
    | model | 61.20 |
    """
    if not rows:
        return ""
    names = list(rows[0])
    number = {name: all(re.fullmatch(r"-|[-+]?\d+(\.\d+)?", row[name]) for row in rows) for name in names}
    width = {name: max(len(name), 3, *(len(row[name]) for row in rows)) for name in names}

    def cell(name: str, text: str) -> str:
        return text.rjust(width[name]) if number[name] else text.ljust(width[name])

    body = [[cell(name, row[name]) for name in names] for row in rows]
    head = [cell(name, name) for name in names]
    if format == "text":
        return "\n".join("  ".join(cells).rstrip() for cells in [head, *body])
    rule = ["-" * (width[n] - 1) + ":" if number[n] else ":" + "-" * (width[n] - 1) for n in names]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in [head, rule, *body])


def percent(fraction: float) -> str:
    """A fraction as percent with two decimals, or a dash.

    >>> percent(0.34161), percent(float("nan"))
    ('34.16', '-')
    """
    return "-" if math.isnan(fraction) else f"{100 * fraction:.2f}"


def write_report(
    folder: Path,
    evaluations: Sequence[Evaluation],
    *,
    tiles: Sequence[plots.Tile] = (),
    log: Sequence[Mapping[str, Any]] = (),
    extra: Mapping[str, Any] | None = None,
    force: bool = False,
) -> list[Path]:
    """Write metrics.json, records-SET.parquet, table.md and plots/*.png, and say which files those are.

    `tiles` become plots/overlays.png, `log` (training rows) plots/training.png, `extra` (plain JSON values) a part of
    metrics.json. Files that exist are only replaced with `force`. The same evaluations give the same bytes.
    """
    if not evaluations:
        raise UsageError("Expected at least one evaluation to report, but got none. Evaluate a set first.")
    names = _names(evaluations)
    files: dict[Path, Callable[[Path], object]] = {}
    values = {"evaluations": [e.to_json() for e in evaluations], **({"extra": dict(extra)} if extra else {})}
    files[folder / "metrics.json"] = partial(_write_text, json.dumps(values, indent=2, sort_keys=True) + "\n")
    files[folder / "table.md"] = partial(_write_text, _page(evaluations))
    for e, name in zip(evaluations, names, strict=True):
        files[folder / f"records-{name}.parquet"] = e.records.write
        if e.audio == "real" and e.records.positives.any():
            draw = {"pr": plots.pr_curve, "f1": plots.f1_curve}
            for plot, function in draw.items():
                files[folder / "plots" / f"{plot}-{name}.png"] = partial(
                    function, records=e.records, protocol=e.protocol
                )
        if e.audio == "real":
            histogram = partial(plots.confidence_histogram, records=e.records)
            files[folder / "plots" / f"confidence-{name}.png"] = histogram
    if tiles:
        files[folder / "plots" / "overlays.png"] = partial(plots.overlay_grid, tiles=tiles)
    if log:
        files[folder / "plots" / "training.png"] = partial(plots.training_curve, rows=log)
    there = [path for path in files if path.exists()]
    if there and not force:
        raise UsageError(
            f"Expected a report folder without a report, but got {there[0]} and {len(there) - 1} more files there. "
            "Name another folder, or use --force to replace them."
        )
    (folder / "plots").mkdir(parents=True, exist_ok=True)
    for path, write in files.items():
        write(path)
    return list(files)


def _groups(evaluations: Sequence[Evaluation]) -> list[list[Evaluation]]:
    """Evaluations on the same list under the same protocol, in the order of a table."""
    groups: dict[tuple[str, str, str], list[Evaluation]] = {}
    for e in evaluations:
        groups.setdefault((e.set_name, e.list_hash, e.protocol.hash), []).append(e)
    for group in groups.values():
        models = list(dict.fromkeys(e.model for e in group))
        group.sort(key=lambda e: (e.audio == "none", models.index(e.model), _AUDIO.index(e.audio)))
    return list(groups.values())


def _called(e: Evaluation) -> str:
    return e.model if e.audio in ("real", "none") else f"{e.model}, {e.audio} audio"


def _names(evaluations: Sequence[Evaluation]) -> list[str]:
    """A file name for each evaluation: the set, and what else it takes to tell them apart."""
    models = {e.model for e in evaluations if e.audio != "none"}
    protocols = {e.protocol.hash for e in evaluations}
    names = []
    for e in evaluations:
        parts = [e.set_name]
        parts += [e.model] if len(models) > 1 and e.audio != "none" else []
        parts += [e.protocol.name] if len(protocols) > 1 else []
        parts += {"real": [], "none": ["centre"]}.get(e.audio, [e.audio])
        names.append(re.sub(r"[^A-Za-z0-9._]+", "-", "-".join(parts)).strip("-."))
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise UsageError(f"Expected evaluations that differ in set, model, protocol or audio, but got two {twice[0]}.")
    return names


def _page(evaluations: Sequence[Evaluation]) -> str:
    parts = ["# Evaluation"]
    for group in _groups(evaluations):
        e = group[0]
        parts.append(f"## {e.set_name}\n\nProtocol {e.protocol}, list {e.list_hash}. Values in percent.")
        parts.append(table([{k: v for k, v in row.items() if k != "set"} for row in lines(group)], "markdown"))
        failures = dict(failure for one in group for failure in one.failures)
        if failures:
            named = "\n".join(f"- {id}: {reason}" for id, reason in failures.items())
            parts.append(f"{len(failures)} clips could not be read and are not counted:\n\n{named}")
    return "\n\n".join(parts) + "\n"


def _write_text(text: str, path: Path) -> None:
    path.write_text(text, encoding="utf-8")
