"""Means over seeds, with the interval that other runs and clips could give."""

from __future__ import annotations

import numpy as np
import pytest
from studies.rows import over_seeds

from earsight.errors import DataError
from earsight.evaluation import measure
from earsight.metrics.base import Records
from earsight.protocols import get
from earsight.report.bootstrap import drawn
from earsight.types import Row

EXACT = get("exact")


def some(seed: int = 0, skill: float = 0.0, count: int = 60) -> Records:
    """Records whose positives are surer and better placed with `skill`."""
    random = np.random.default_rng(seed)
    rows = [Row(f"c{i}", kind="easy" if i % 3 == 0 else "positive") for i in range(count)]
    confidence = random.random(count) + skill * np.array([row.positive for row in rows])
    ciou = np.minimum(random.random(count) + skill, 1)
    return Records.of(rows, area=np.ones(count), confidence=confidence, ciou=ciou)


def test_over_seeds_gives_the_mean_of_the_runs_and_an_interval_around_it() -> None:
    runs = [some(seed=seed, skill=0.3) for seed in range(3)]
    found = over_seeds(runs, EXACT, ("ap", "loc_acc"), draws=200)
    for name, (mean, low, high) in found.items():
        each = [measure(one, EXACT)[name] for one in runs]
        assert mean == pytest.approx(np.mean(each))
        assert low < mean < high


def test_runs_that_are_alike_have_the_interval_of_one_and_others_a_wider_one() -> None:
    one = some(skill=0.3)
    low, high = drawn([one], EXACT, ("loc_acc",), draws=300)[0].intervals()["loc_acc"]
    assert over_seeds([one, one, one], EXACT, ("loc_acc",), draws=300)["loc_acc"][1:] == pytest.approx((low, high))
    worse = some()
    _, below, above = over_seeds([one, worse, one], EXACT, ("loc_acc",), draws=300)["loc_acc"]
    assert above - below > high - low


def test_runs_on_other_clips_are_refused() -> None:
    with pytest.raises(DataError, match=r"Expected runs measured on the same clips, but their ids differ"):
        over_seeds([some(count=60), some(count=61)], EXACT)
