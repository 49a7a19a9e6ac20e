"""`earsight list`: every kind has names and one line about each."""

from __future__ import annotations

import json
from typing import get_args

import pytest

from earsight.cli import main
from earsight.commands.listing import Kind, entries
from earsight.errors import UsageError

EXPECTED = {
    "methods": "slavc",
    "sets": "toybox",
    "metrics": "average_precision",
    "protocols": "official",
    "recipes": "slavc_toybox",
    "presets": "slavc paper",
    "tables": "table3",
}


@pytest.mark.parametrize("kind", get_args(Kind))
def test_names_are_listed_with_a_summary(kind: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list", kind]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert any(line.startswith(EXPECTED[kind]) and len(line) > len(EXPECTED[kind]) + 5 for line in lines)


@pytest.mark.parametrize("kind", get_args(Kind))
def test_json_holds_the_same_names(kind: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list", kind, "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert EXPECTED[kind] in [row["name"] for row in rows]
    assert all(row["summary"] for row in rows)


def test_a_protocol_is_told_by_what_sets_it_apart() -> None:
    assert "as exact, but strict True, strict_hits True" in dict(entries("protocols"))["paper"]


def test_an_unknown_kind_lists_the_known_ones() -> None:
    with pytest.raises(UsageError, match=r"Expected one of methods, sets, .* but got colours"):
        entries("colours")
