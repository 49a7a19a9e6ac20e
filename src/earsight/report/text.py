"""Numbers and tables as text."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import Literal

_NUMBER = r"[-+]?\d+(?:\.\d+)?"


def percent(fraction: float) -> str:
    """A fraction as percent with two decimals, or a dash.

    >>> percent(0.34161), percent(float("nan"))
    ('34.16', '-')
    """
    return "-" if math.isnan(fraction) else f"{100 * fraction:.2f}"


def points(fraction: float) -> str:
    """A difference of fractions as percentage points with their sign, or a dash.

    >>> points(0.1234), points(-0.00001), points(float("nan"))
    ('+12.34', '+0.00', '-')
    """
    return "-" if math.isnan(fraction) else f"{round(100 * fraction, 2) + 0.0:+.2f}"


def span(interval: tuple[float, float], signed: bool = False) -> str:
    """An interval of fractions in percent, or a dash.

    >>> span((0.1, 0.254)), span((-0.01, 0.02), signed=True)
    ('10.00 to 25.40', '-1.00 to +2.00')
    """
    if any(math.isnan(end) for end in interval):
        return "-"
    low, high = (points(end) if signed else percent(end) for end in interval)
    return f"{low} to {high}"


def numeric(rows: Sequence[Mapping[str, str]]) -> dict[str, bool]:
    """Which columns hold nothing but numbers, intervals and dashes, and so stand to the right."""
    pattern = rf"-|{_NUMBER}(?: to {_NUMBER})?"
    return {name: all(re.fullmatch(pattern, row[name]) for row in rows) for name in rows[0]} if rows else {}


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
    number = numeric(rows)
    if format == "markdown":
        rows = [{name: plain(value).replace("|", "\\|") for name, value in row.items()} for row in rows]
    names = list(rows[0])
    width = {name: max(len(name), 3, *(len(row[name]) for row in rows)) for name in names}

    def cell(name: str, text: str) -> str:
        return text.rjust(width[name]) if number[name] else text.ljust(width[name])

    body = [[cell(name, row[name]) for name in names] for row in rows]
    head = [cell(name, name) for name in names]
    if format == "text":
        return "\n".join("  ".join(cells).rstrip() for cells in [head, *body])
    rule = ["-" * (width[n] - 1) + ":" if number[n] else ":" + "-" * (width[n] - 1) for n in names]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in [head, rule, *body])


def plain(text: str) -> str:
    """One line: what would end a line or a table cell becomes a space."""
    return " ".join(text.split())


def shareable(reason: str) -> str:
    """A reason without the folders of this computer: a report is passed on, and is the same wherever it was made.

    >>> shareable("/home/me/data/frames/a.jpg: ends too early.")
    'a.jpg: ends too early.'
    """
    return re.sub(r"(?<![\w.:/-])(?:[A-Za-z]:)?[\\/](?:[^\s\\/:'\"]+[\\/])+", "", plain(reason))
