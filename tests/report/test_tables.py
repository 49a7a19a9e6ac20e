"""Facts about tables in four formats."""

from __future__ import annotations

import csv
import io
from typing import Any

from earsight.report.tables import comment, render

ROWS = [{"model": 'a, "b"', "AP": "61.20"}, {"model": "c_d", "AP": "-"}]


def test_csv_quotes_and_leaves_dashes_empty() -> None:
    assert list(csv.reader(io.StringIO(render(ROWS, "csv")))) == [["model", "AP"], ['a, "b"', "61.20"], ["c_d", ""]]


def test_latex_has_rules_bold_and_numbers_to_the_right() -> None:
    lines = render(ROWS, "latex", {(0, "AP")}, {1}).splitlines()
    assert lines[1] == "\\begin{tabular}{lr}"
    assert lines[3:] == [
        "model & AP \\\\",
        "\\midrule",
        'a, "b" & \\textbf{61.20} \\\\',
        "\\midrule",
        "c\\_d & -- \\\\",
        "\\bottomrule",
        "\\end{tabular}",
    ]


def test_nothing_makes_nothing() -> None:
    formats: list[Any] = ["text", "markdown", "csv", "latex"]
    assert [render([], format) for format in formats] == ["", "", "", ""]


def test_only_latex_needs_comments() -> None:
    assert comment("a\nb", "latex") == "% a\n% b"
    assert comment("a\nb", "text") == "a\nb"


def test_no_cell_and_no_heading_can_break_a_table() -> None:
    rows = [{"model\n": "a\nb\tc\x1b[2J", "x|<y>": "1.00"}, {"model\n": "<i>|&", "x|<y>": "-"}]
    assert render(rows).splitlines() == [
        "model\\n         x|<y>",
        "a\\nb\\tc\\x1b[2J   1.00",
        "<i>|&               -",
    ]
    assert render(rows, "markdown").splitlines() == [
        "| model\\\\n           | x\\|&lt;y&gt; |",
        "| :----------------- | -----------: |",
        "| a\\\\nb\\\\tc\\\\x1b\\[2J |         1.00 |",
        "| &lt;i&gt;\\|&amp;   |            - |",
    ]
    assert render(rows, "csv").splitlines()[-2:] == ["a\\nb\\tc\\x1b[2J,1.00", "<i>|&,"]


def test_columns_of_intervals_stand_to_the_right_in_every_format() -> None:
    rows = [{"model": "a", "95%": "1.00 to 2.00"}, {"model": "b", "95%": "-"}]
    assert "\\begin{tabular}{lr}" in render(rows, "latex")
    assert render(rows).splitlines()[-1].endswith("           -")


def test_a_spreadsheet_computes_nothing_of_a_table() -> None:
    rows = [{"=1+1": "@SUM(A1)", "lost": "-0.50"}, {"=1+1": "-", "lost": "+1.00"}]
    assert render(rows, "csv").splitlines() == ["'=1+1,lost", "'@SUM(A1),-0.50", ",+1.00"]


def test_an_endless_name_does_not_make_every_line_endless() -> None:
    rows = [{"kind": "x" * 100_000, "n": "1"}, *({"kind": f"k{i}", "n": "2"} for i in range(100))]
    for format in ("text", "markdown"):
        assert max(map(len, render(rows, format).splitlines())) < 250
    assert len(render(rows, "csv")) > 100_000
