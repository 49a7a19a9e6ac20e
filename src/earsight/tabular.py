"""Tables for papers and programs: text, Markdown, CSV and LaTeX from the same rows."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Collection, Mapping, Sequence
from typing import Literal, get_args

from earsight.config import need
from earsight.plots import SCORES

Format = Literal["text", "markdown", "csv", "latex"]
Rows = Sequence[Mapping[str, str]]
_TEX = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    **{letter: f"\\{letter}" for letter in "&%$#_{}"},
}


def render(
    rows: Rows, format: Format = "text", bold: Collection[tuple[int, str]] = (), rules: Collection[int] = ()
) -> str:
    """Rows of equal keys as a table; what is empty or a dash in CSV is left empty.

    LaTeX alone shows `bold`, the cells (row, column) to stand out, and `rules`, the rows that begin a new part.
    """
    need(format in get_args(Format), f"a format of {', '.join(get_args(Format))}", repr(format))
    if format == "csv":
        return _csv(rows)
    if format == "latex":
        return _latex(rows, bold, rules)
    from earsight.report import table

    return table(rows, format)


def escape(text: str) -> str:
    r"""Text that LaTeX sets as it is, on one line.

    >>> print(escape("50% of a_b & {c} \\ ~"))
    50\% of a\_b \& \{c\} \textbackslash{} \textasciitilde{}
    """
    return "".join(_TEX.get(letter, letter) for letter in " ".join(text.split()))


def title(metric: str) -> str:
    """A number's heading.

    >>> title("ap"), title("loc_acc/small")
    ('AP', 'LocAcc small')
    """
    family, _, part = metric.partition("/")
    return f"{SCORES.get(family, family)} {part}".rstrip()


def comment(text: str, format: Format) -> str:
    """Lines under a table in a form that leaves the table usable: LaTeX comments, else as they are."""
    return "\n".join(f"% {line}".rstrip() for line in text.split("\n")) if format == "latex" else text


def _csv(rows: Rows) -> str:
    if not rows:
        return ""
    out = io.StringIO()
    writer = csv.DictWriter(out, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows({name: "" if value == "-" else value for name, value in row.items()} for row in rows)
    return out.getvalue().rstrip("\n")


def _latex(rows: Rows, bold: Collection[tuple[int, str]], rules: Collection[int]) -> str:
    """A tabular of the booktabs package."""
    if not rows:
        return ""
    names = list(rows[0])
    number = {name: all(re.fullmatch(r"-|[-+]?\d+(\.\d+)?", row[name]) for row in rows) for name in names}
    lines = [
        "% needs \\usepackage{booktabs}",
        f"\\begin{{tabular}}{{{''.join('r' if number[name] else 'l' for name in names)}}}",
        "\\toprule",
        " & ".join(map(escape, names)) + " \\\\",
        "\\midrule",
    ]
    for i, row in enumerate(rows):
        cells = [escape("--" if row[name] == "-" else row[name]) for name in names]
        cells = [f"\\textbf{{{c}}}" if (i, n) in bold else c for c, n in zip(cells, names, strict=True)]
        lines += (["\\midrule"] if i in rules else []) + [" & ".join(cells) + " \\\\"]
    return "\n".join([*lines, "\\bottomrule", "\\end{tabular}"])
