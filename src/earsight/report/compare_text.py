"""Comparisons and published tables as text, and as values of JSON."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import asdict
from typing import Any

from earsight.escape import markdown, visible
from earsight.metrics.base import heading, higher_is_better
from earsight.report import published
from earsight.report.bootstrap import Difference
from earsight.report.compare import Comparison, Shown, best
from earsight.report.tables import Format, comment, percent, points, render

CHANCE = 0.05
"""Differences with a p below this are called unlikely to be chance."""
COVERED = (
    "Differences in points, with 95% intervals and p from a paired bootstrap over clips: they say what other clips "
    "could have changed, not what another training run could."
)
MANY = "Each p stands alone: among many, some fall below 5% by chance."


def texts(found: Sequence[Comparison], metrics: Sequence[str], format: Format) -> tuple[str, str]:
    """The tables with what must be said of them, and what has no place in the format and goes beside."""
    if format == "csv":
        rows = [{"set": one.set, **line(row, metrics)} for one in found for row in one.rows]
        beside = "\n\n".join(part for one in found if (part := remarks(one, metrics)))
        return render(rows, "csv"), beside
    parts = []
    for one in found:
        bold = {(i, heading(metric, one.gammas)) for metric in metrics for i in best(one.rows, metric)}
        begins = [i for i in range(1, len(one.rows)) if one.rows[i].ours != one.rows[i - 1].ours]
        head = f"## {markdown(one.set)}\n" if format == "markdown" else comment(visible(one.set), format)
        parts += [f"{head}\n{render([line(row, metrics, one.gammas) for row in one.rows], format, bold, begins)}"]
        if said := remarks(one, metrics, "- " if format == "markdown" else ""):
            parts += [comment(said, format)]
    return "\n\n".join([*parts, comment("Values in percent.", format)]), ""


def line(row: Shown, metrics: Sequence[str], gammas: Collection[float] = ()) -> dict[str, str]:
    """A row of the table as words; `gammas` go into the heading of LocAcc."""
    numbers = {heading(m, gammas): percent(row.values[m]) for m in metrics}
    return {
        "model": row.name,
        "source": row.source,
        "trained on": row.trained_on,
        "early stop": row.early_stop,
        "protocol": row.protocol,
        "N": "-" if row.n is None else str(row.n),
        **numbers,
    }


def remarks(one: Comparison, metrics: Sequence[str], bullet: str = "") -> str:
    """Warnings, tests and why some were not made, one line each; with a bullet, as a list of Markdown."""
    said = list(one.warnings)
    for test in one.tests:
        first = next(iter(test.differences.values()))
        left = f"; {first.unshared} that only one of them has are left out" if first.unshared else ""
        head = f"{test.first} minus {test.second}, protocol {test.protocol}, {first.shared} clips{left}"
        said += [f"{head}: {words(metric, test.differences[metric])}" for metric in metrics]
    said += one.untested
    if one.tests:
        said += [COVERED] + ([MANY] if len(one.tests) * len(metrics) > 1 else [])
    return "\n".join(f"{bullet}{markdown(each)}" if bullet else visible(each) for each in said)


def words(metric: str, d: Difference) -> str:
    """What a difference says.

    >>> words("ap", Difference(0.0231, 0.008, 0.0395, 0.004, 100, 0))
    '+2.31 AP [+0.80, +3.95], p = 0.004; unlikely to be chance in the choice of clips'
    """
    name = heading(metric) + ("" if higher_is_better(metric) else " (lower is better)")
    if math.isnan(d.value) or math.isnan(d.p):
        return f"{name} is undefined here"
    p = f"p = {d.p:.3f}" if d.p >= 0.0005 else "p < 0.001"
    verdict = "unlikely to be chance in the choice of clips" if d.p < CHANCE else "could be chance"
    value, low, high = map(points, (d.value, d.low, d.high))
    return f"{value} {name} [{low}, {high}], {p}; {verdict}"


def published_text(table: published.Table, format: Format) -> tuple[str, str]:
    """A published table as the paper prints it; values of the original papers carry a star."""
    rows: dict[str, dict[str, str]] = {}
    for cell in table.cells:
        row = rows.setdefault(cell.row, {"": cell.row, **dict.fromkeys(table.columns, "-")})
        value = f"{cell.value:.2f}" if table.unit == "percent" else f"{cell.value:.0f}"
        starred = f"{value}*" if cell.reported_by == published.ORIGINAL else value
        row[cell.column] = starred if row[cell.column] == "-" else f"{row[cell.column]}/{starred}"
    odd = [f"{cell.row}, {cell.column}: {cell.note}" for cell in table.cells if cell.note]
    source = next(cell.source for cell in table.cells if cell.reported_by != published.ORIGINAL)
    star = (
        ["* as reported by the method's own paper."] if any("*" in v for r in rows.values() for v in r.values()) else []
    )
    notes = "\n".join([f"In {table.unit}. Source: {source}.", *star, *table.notes, *odd])
    body = render(list(rows.values()), format)
    if format == "csv":
        return body, notes
    head = f"## {table.title}\n" if format == "markdown" else comment(table.title, format)
    if format == "markdown":
        notes = "\n".join(f"- {each}" for each in notes.split("\n"))
    return f"{head}\n{body}\n\n{comment(notes, format)}", ""


def plain(one: Comparison) -> dict[str, Any]:
    """A comparison as JSON values: numbers are fractions, as in metrics.json; what is undefined or unknown is null."""
    values = asdict(one)
    for row, shown in zip(values["rows"], one.rows, strict=True):
        row["values"] = {name: None if math.isnan(value) else value for name, value in shown.values.items()}
        row.update({name: None for name in ("trained_on", "early_stop", "protocol") if row[name] == "-"})
        row["group"] = None if shown.group is None else list(shown.group)
    for test in values["tests"]:
        for difference in test["differences"].values():
            difference.update({k: None if math.isnan(v) else v for k, v in difference.items()})
    return values
