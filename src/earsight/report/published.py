"""The numbers of the SLAVC paper's Tables 1 to 7, each with where it stands, what it was measured on, and its source.

They lie in published.json as printed: percentages, or clips in Table 1; cells that the paper leaves empty are left out.
A value that the paper marks with a star was reported by the method's own paper and is a number of its own here.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from earsight import registry

FILE = Path(__file__).with_name("published.json")
HERE = "SLAVC paper"
ORIGINAL = "original paper"


@dataclass(frozen=True)
class Cell:
    """One published number.

    Args:
        table, row, column: where it stands; the row as printed, the column with the words above it.
        method: the row's method under one name in all tables.
        set: the list it was measured on, as earsight names it.
        metric: the number's name in earsight; "n" and "n/..." count clips.
        value: as printed.
        early_stop: whether the epoch was chosen by results; None where nothing was trained or the paper does not say.
        trained_on: training list; empty where nothing was trained.
        source: paper and table.
        reported_by: "SLAVC paper", or "original paper" for a value that the table quotes.
        note: what is known to be odd about this number.
    """

    table: str
    row: str
    column: str
    method: str
    set: str
    metric: str
    value: float
    early_stop: bool | None
    trained_on: str
    source: str
    reported_by: str
    note: str = ""


@dataclass(frozen=True)
class Table:
    """A published table: its columns and cells in the paper's order, and notes. `unit` is "percent" or "clips"."""

    name: str
    title: str
    unit: str
    notes: tuple[str, ...]
    columns: tuple[str, ...]
    cells: tuple[Cell, ...]


def tables() -> list[tuple[str, str]]:
    """Name and title of every table.

    >>> [name for name, _ in tables()]
    ['table1', 'table2', 'table3', 'table4', 'table5', 'table6', 'table7']
    """
    return [(name, one.title) for name, one in _read().items()]


def table(name: str) -> Table:
    """The table of that name.

    >>> [cell.value for cell in table("table3").cells if cell.method == "SLAVC" and cell.set == "vggss:extended"]
    [32.95, 40.0, 37.79]
    """
    if name not in _read():
        raise registry.unknown("table", name, list(_read()))
    return _read()[name]


def for_set(set_name: str, metrics: Sequence[str] = (), names: Sequence[str] = ()) -> list[list[Cell]]:
    """What is published about a list: the cells with these metrics of each row, early stopping and reporter together.

    Without `metrics` every number counts, without `names` every table of percentages.

    >>> [[cell.value for cell in row] for row in for_set("vggss:test", ["loc_acc"]) if row[0].method == "AVObject"]
    [[29.7]]
    """
    chosen = [table(name) for name in names] or [one for one in _read().values() if one.unit == "percent"]
    found: dict[tuple[object, ...], list[Cell]] = {}
    for cell in (cell for one in chosen for cell in one.cells):
        if cell.set == set_name and (not metrics or cell.metric in metrics):
            key = (cell.table, cell.row, cell.trained_on, cell.early_stop, cell.reported_by)
            found.setdefault(key, []).append(cell)
    return list(found.values())


def clips(set_name: str) -> int | None:
    """How many clips the paper has in a list (Table 1), or None where it does not say."""
    return next((int(c.value) for c in table("table1").cells if c.set == set_name and c.metric == "n"), None)


@cache
def _read() -> dict[str, Table]:
    values = json.loads(FILE.read_text(encoding="utf-8"))
    out = {}
    for one in values["tables"]:
        cells = [cell for row in one["rows"] for cell in _cells(one, row, values["paper"], values["originals"])]
        columns = tuple(column["column"] for column in one["columns"])
        out[one["name"]] = Table(one["name"], one["title"], one["unit"], tuple(one["notes"]), columns, tuple(cells))
    return out


def _cells(one: dict[str, Any], row: dict[str, Any], paper: str, originals: dict[str, str]) -> list[Cell]:
    """The numbers of a row; a starred one makes two cells where the paper has a value of its own beside it."""
    number = f"Table {one['name'].removeprefix('table')}{row['part'] if len(row.get('part', '')) == 1 else ''}"
    part = row.get("part", "")
    method = row.get("method", row["row"])
    printed = f"{part}: {row['row']}" if part else row["row"]
    cells = []
    for column, value in zip(one["columns"], row["values"], strict=True):
        both = value if isinstance(value, dict) else {"here": value}
        for key, reported_by in (("original", ORIGINAL), ("here", HERE)):
            if both.get(key) is None:
                continue
            source = f"{paper}, {number}"
            cells.append(
                Cell(
                    one["name"],
                    printed,
                    column["column"],
                    f"{method} (semi-supervised)" if part == "semi-supervised" else method,
                    column.get("set") or row["set"],
                    column["metric"],
                    float(both[key]),
                    row["early_stop"] if "early_stop" in row else column.get("early_stop"),
                    row.get("trained_on", one.get("trained_on", "")),
                    f"{originals[method]}, as quoted in {source}" if key == "original" else source,
                    reported_by,
                    _impossible(one, row, column, both[key]) if column["metric"] == "max_f1" else "",
                )
            )
    return cells


def _impossible(one: dict[str, Any], row: dict[str, Any], column: dict[str, Any], value: float) -> str:
    """A note where max-F1 is below what accepting everything scores at the LocAcc of the same row, beyond rounding.

    That is 2p / (1 + p) with p the share of hits: the LocAcc, or half of it where half of the clips are negatives.
    """
    same = {"set": column.get("set"), "early_stop": column.get("early_stop"), "metric": "loc_acc"}
    for other, accuracy in zip(one["columns"], row["values"], strict=True):
        if {key: other.get(key) for key in same} == same:
            printed = accuracy["here"] if isinstance(accuracy, dict) else accuracy
            share = 0.5 if (column.get("set") or row["set"]).endswith(":extended") else 1.0
            lowest, floor = (2 * p / (1 + p) for p in (share * (printed - 0.005) / 100, share * printed / 100))
            if value + 0.05 < 100 * lowest:
                return (
                    f"Cannot be: at LocAcc {printed:.2f} accepting everything already gives max-F1 {100 * floor:.2f}, "
                    f"and {value:.2f} is less."
                )
    return ""
