"""The page on adding a metric holds a metric, a test and a use of it that work; the contract runs the metric too."""

from __future__ import annotations

import doctest
import sys
from pathlib import Path

import numpy as np
import pytest

from earsight import registry
from earsight.metrics.base import Records
from earsight.protocols import get

PAGE = Path(__file__).parents[2] / "docs" / "add-a-metric.md"


@pytest.fixture
def examples(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The page's Python blocks; the first one lies in own/class_loc_acc.py, where it can be imported."""
    found = [part.split("```")[0] for part in PAGE.read_text(encoding="utf-8").split("```python\n")[1:]]
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "__init__.py").touch()
    (tmp_path / "own" / "class_loc_acc.py").write_text(found[0], encoding="utf-8")
    for name in ("own", "own.class_loc_acc"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.chdir(tmp_path)
    return found


def test_the_example_of_the_metric_is_right(examples: list[str]) -> None:
    result = doctest.testmod(registry.load("metric", "own.class_loc_acc"))
    assert result.attempted > 0
    assert result.failed == 0


def test_the_tests_of_the_metric_pass(examples: list[str]) -> None:
    names: dict[str, object] = {}
    exec(compile(examples[1], str(PAGE), "exec"), names)
    tests = [value for name, value in names.items() if name.startswith("test_") and callable(value)]
    assert len(tests) == 3
    for test in tests:
        test()


def test_the_metric_works_on_saved_records(
    examples: list[str], toy: Records, capsys: pytest.CaptureFixture[str]
) -> None:
    Records(toy.id, toy.kind, np.array(["dog"] * 6), toy.area, toy.confidence, toy.ciou).write(Path("records.csv"))
    exec(compile(examples[2], str(PAGE), "exec"), {})
    assert capsys.readouterr().out == "{'class_loc_acc': 0.75}\n"
    assert registry.load("metric", "own.class_loc_acc").compute(toy, get("exact")).keys() == {"class_loc_acc"}
