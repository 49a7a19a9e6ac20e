"""Numbers as words, and tables of them: text, Markdown, CSV and LaTeX from the same rows."""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Literal

from earsight.escape import brief, csv_cell, latex, markdown, visible

Format = Literal["text", "markdown", "csv", "latex"]
Rows = Sequence[Mapping[str, str]]
LETTERS = 200
"""Most of a cell of a table in columns."""
_NUMBER = r"[-+]?\d+(?:\.\d+)?"


def render(
    rows: Rows, format: Format = "text", bold: Collection[tuple[int, str]] = (), rules: Collection[int] = ()
) -> str:
    """Rows of equal keys as a table: words to the left, numbers to the right. In CSV, a dash is left empty.

    LaTeX alone shows `bold`, the cells (row, column) to stand out, and `rules`, the rows that begin a new part.

    >>> print(render([{"": "model", "AP": "61.20"}, {"": "floor", "AP": "-"}]))
              AP
    model  61.20
    floor      -
    >>> print(render([{"": "a|b", "AP": "61.20"}], "markdown"))
    |      |    AP |
    | :--- | ----: |
    | a\\|b | 61.20 |
    """
    if not rows:
        return ""
    if format == "csv":
        return _csv(rows)
    if format == "latex":
        return _latex(rows, bold, rules)
    return _columns(rows, markdown if format == "markdown" else visible, bars=format == "markdown")


def _columns(rows: Rows, escaped: Callable[[str], str], bars: bool) -> str:
    number = list(numeric(rows).values())
    # A column is as wide as its widest cell: one endless name would make every line endless.
    head, *body = ([escaped(brief(word, LETTERS)) for word in line] for line in (rows[0], *(r.values() for r in rows)))
    width = [max(3, *map(len, column)) for column in zip(head, *body, strict=True)]

    def cells(line: Sequence[str]) -> list[str]:
        return [w.rjust(n) if right else w.ljust(n) for w, n, right in zip(line, width, number, strict=True)]

    if not bars:
        return "\n".join("  ".join(cells(line)).rstrip() for line in [head, *body])
    rule = ["-" * (n - 1) + ":" if right else ":" + "-" * (n - 1) for n, right in zip(width, number, strict=True)]
    return "\n".join(f"| {' | '.join(line)} |" for line in [cells(head), rule, *map(cells, body)])


def numeric(rows: Rows) -> dict[str, bool]:
    """Which columns hold nothing but numbers, intervals and dashes, and so stand to the right."""
    pattern = rf"-|{_NUMBER}(?: to {_NUMBER})?"
    return {name: all(re.fullmatch(pattern, row[name]) for row in rows) for name in rows[0]} if rows else {}


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


def called(model: str, audio: str) -> str:
    """What the line of a model is called that heard the clips' own sound (or, as a prior, none), or another.

    >>> called("slavc", "real"), called("slavc", "silent")
    ('slavc', 'slavc, silent audio')
    """
    return visible(model if audio in ("real", "none") else f"{model}, {audio} audio")


def comment(text: str, format: Format) -> str:
    """Lines under a table in a form that leaves the table usable: LaTeX comments, else as they are."""
    return "\n".join(f"% {line}".rstrip() for line in text.split("\n")) if format == "latex" else text


def _csv(rows: Rows) -> str:
    out = io.StringIO()
    body = (["" if value == "-" else csv_cell(value) for value in row.values()] for row in rows)
    csv.writer(out, lineterminator="\n").writerows([list(map(csv_cell, rows[0])), *body])
    return out.getvalue().rstrip("\n")


def _latex(rows: Rows, bold: Collection[tuple[int, str]], rules: Collection[int]) -> str:
    """A tabular of the booktabs package."""
    names = list(rows[0])
    number = numeric(rows)
    lines = [
        "% needs \\usepackage{booktabs}",
        f"\\begin{{tabular}}{{{''.join('r' if number[name] else 'l' for name in names)}}}",
        "\\toprule",
        " & ".join(map(latex, names)) + " \\\\",
        "\\midrule",
    ]
    for i, row in enumerate(rows):
        cells = [latex("--" if row[name] == "-" else row[name]) for name in names]
        cells = [f"\\textbf{{{c}}}" if (i, n) in bold else c for c, n in zip(cells, names, strict=True)]
        lines += (["\\midrule"] if i in rules else []) + [" & ".join(cells) + " \\\\"]
    return "\n".join([*lines, "\\bottomrule", "\\end{tabular}"])
