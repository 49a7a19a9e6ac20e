"""Facts about tables in four formats."""

from __future__ import annotations

import csv
import io
from typing import Any

import pytest

from earsight.errors import UsageError
from earsight.tabular import comment, escape, render

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


def test_every_letter_that_latex_reads_is_escaped() -> None:
    assert escape("#$%&_{}") == r"\#\$\%\&\_\{\}"
    assert escape("\\~^<>|") == (
        r"\textbackslash{}\textasciitilde{}\textasciicircum{}\textless{}\textgreater{}\textbar{}"
    )
    assert escape("a\n b") == "a b"


def test_nothing_makes_nothing() -> None:
    formats: list[Any] = ["text", "markdown", "csv", "latex"]
    assert [render([], format) for format in formats] == ["", "", "", ""]


def test_only_latex_needs_comments() -> None:
    assert comment("a\nb", "latex") == "% a\n% b"
    assert comment("a\nb", "text") == "a\nb"


def test_an_unknown_format_is_refused() -> None:
    wrong: Any = "word"
    with pytest.raises(UsageError, match="Expected a format of text, markdown, csv, latex, but got 'word'"):
        render(ROWS, wrong)
