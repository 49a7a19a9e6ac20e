"""The page on adding a metric holds a metric, a test and a use of it that work; the contract runs the metric too."""

from __future__ import annotations

import doctest
import json
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from earsight import registry
from earsight.checkpoint import save_weights
from earsight.cli import main
from earsight.data.clips import open_set
from earsight.data.sets import toybox
from earsight.data.truth import truth_map
from earsight.methods import slavc
from earsight.metrics.base import Records
from earsight.protocols import Protocol, get
from earsight.resampling import upsampled
from tiny import INPUTS, config

PAGE = Path(__file__).parents[2] / "docs" / "add-a-metric.md"


@pytest.fixture
def examples(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The page's Python blocks; the first one lies in own/class_loc_acc.py, where it can be imported."""
    found = [part.split("```")[0] for part in PAGE.read_text(encoding="utf-8").split("```python\n")[1:]]
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "__init__.py").touch()
    (tmp_path / "own" / "class_loc_acc.py").write_text(found[0], encoding="utf-8")
    (tmp_path / "own" / "energy.py").write_text(found[3], encoding="utf-8")
    for name in ("own", "own.class_loc_acc", "own.energy"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.chdir(tmp_path)
    return found


@pytest.mark.parametrize("name", ["own.class_loc_acc", "own.energy"])
def test_the_example_of_the_metric_is_right(name: str, examples: list[str]) -> None:
    result = doctest.testmod(registry.load("metric", name))
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


def energy_of(maps: Path, protocol: Protocol) -> dict[str, float]:
    """The page's metric, map by map."""
    with np.load(maps) as held:
        arrays = dict(zip(held["id"].tolist(), held["maps"], strict=True))
        low, high = held["bounds"]
    found = {}
    for row in open_set("toybox:extended").rows:
        large = upsampled(arrays[row.id], protocol.size, protocol.size, protocol)
        score = np.maximum((large - np.float32(low)) / np.float32(high - low), 0).astype(np.float64)
        truth = truth_map(row.boxes if row.positive else (), protocol.size, row.consensus)
        found[row.id] = float((score * truth).sum() / score.sum())
    return found


@pytest.fixture
def few_toys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(toybox, "COUNTS", dict.fromkeys(toybox.COUNTS, 6))


@pytest.fixture
def weights(tmp_path: Path) -> Path:
    """An untrained model."""
    torch.manual_seed(0)
    save_weights(tmp_path / "tiny.safetensors", slavc.Model(config(), INPUTS), "slavc", config(), {})
    return tmp_path / "tiny.safetensors"


def test_a_metric_of_pixels_from_outside_is_measured_by_score_and_eval(
    examples: list[str], few_toys: None, weights: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    on = ["--on", "toybox:extended", "--protocol", "exact", "--metric", "own.energy"]
    maps, here, there = tmp_path / "maps.npz", tmp_path / "eval", tmp_path / "score"
    evaluated = ["eval", str(weights), *on, "--audio", "real", "--device", "cpu", "--workers", "0"]
    assert main([*evaluated, "--save-maps", str(maps), "--out", str(here)]) == 0
    assert "--metric own.energy" in capsys.readouterr().err
    assert main(["score", str(maps), *on, "--out", str(there)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert next(line for line in lines if "energy" in line).split() == ["set", "protocol", "model", "energy"]
    wanted = energy_of(maps, get("exact"))
    for folder in (here, there):
        model, prior = json.loads((folder / "metrics.json").read_text())["evaluations"]
        records = Records.read(folder / model["records"])
        np.testing.assert_allclose(records.column("energy"), [wanted[id] for id in records.id], rtol=1e-6)
        assert model["metrics"]["energy"] == pytest.approx(records.column("energy")[records.positives].mean())
        assert 0 < prior["metrics"]["energy"] < 1
        assert "--metric own.energy" in (folder / "table.md").read_text()


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("energy", "Expected a module's dotted name after --metric, but got energy."),
        ("own.nothing", "Expected an importable module for metric 'own.nothing'"),
        ("own.twice", "Expected numbers with names of their own from the metric own.twice, but got ap, which there is"),
        ("own.odd", "Expected the same numbers for every clip from per_clip of own.odd, but got b for "),
    ],
)
def test_metrics_that_cannot_be_measured_are_refused(
    name: str, told: str, examples: list[str], few_toys: None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plain = "RANGE, HIGHER_IS_BETTER = (0, 1), {}\ndef compute(records, protocol):\n    return "
    (tmp_path / "own" / "twice.py").write_text(plain + "{'ap': 1.0}\n")
    per_clip = "def per_clip(clip, protocol):\n    return {'ab'[clip.row.id.endswith('1')]: 1.0}\n"
    (tmp_path / "own" / "odd.py").write_text(f"{plain}{{}}\n{per_clip}")
    assert main(["score", "center-prior", "--on", "toybox:extended", "--metric", name]) == 2
    assert told in capsys.readouterr().err
