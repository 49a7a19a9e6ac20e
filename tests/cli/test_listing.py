"""`earsight list`: every kind has names and one line about each."""

from __future__ import annotations

import json
from pathlib import Path
from typing import get_args

import pytest

from earsight.cli import main
from earsight.cli.about import Kind, entries

EXPECTED = {
    "samplers": "shuffle",
    "methods": "slavc",
    "encoders": "resnet18",
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
    lines = [line.strip() for line in capsys.readouterr().out.splitlines()]
    assert any(line.startswith(EXPECTED[kind]) and len(line) > len(EXPECTED[kind]) + 5 for line in lines)


@pytest.mark.parametrize("kind", get_args(Kind))
def test_json_holds_the_same_names(kind: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list", kind, "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert EXPECTED[kind] in [row["name"] for row in rows]
    assert all(row["summary"] for row in rows)


def test_a_protocol_is_told_by_what_sets_it_apart() -> None:
    assert "as exact, but strict True, strict_hits True" in dict(entries("protocols"))["paper"]


def test_recipes_stand_under_what_they_train_on_and_how_they_are_measured(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list", "recipes"]) == 0
    group = next(one for one in capsys.readouterr().out.split("\n\n") if "vggsound:heard" in one)
    first, second, *rest = group.splitlines()
    assert first == "trained on vggsound:heard: earsight train --recipe NAME --data DIR --out RUN"
    assert second == "  earsight eval RUN --on vggss:heard vggss:unheard --data DIR"
    assert any(line.split() == ["dmc_heard110", "SLAVC", "paper,", "Table", "7"] for line in rest)
    assert main(["list", "recipes", "--json"]) == 0
    row = next(row for row in json.loads(capsys.readouterr().out) if row["name"] == "slavc_heard110")
    assert row == {
        "name": "slavc_heard110",
        "summary": "SLAVC paper, Table 7; stoneMo/SLAVC",
        "method": "slavc",
        "on": "vggsound:heard",
        "train": "earsight train --recipe slavc_heard110 --data DIR --out RUN",
        "evaluate": "earsight eval RUN --on vggss:heard vggss:unheard --data DIR",
    }


def test_the_page_of_recipes_holds_what_is_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list", "recipes"]) == 0
    listed = capsys.readouterr().out
    page = (Path(__file__).parents[2] / "docs" / "recipes.md").read_text(encoding="utf-8")
    assert f"```text\n{listed}```" in page, "put what `earsight list recipes` prints into docs/recipes.md"
