"""Facts about max-F1 and its floor."""

from __future__ import annotations

import numpy as np
import pytest

from earsight.metrics import max_f1
from earsight.metrics.base import Records
from earsight.protocols import get

EXACT, OFFICIAL = get("exact"), get("official")


def test_toy_values(toy: Records) -> None:
    assert max_f1.compute(toy, EXACT)["max_f1"] == pytest.approx(2 / 3, abs=1e-12)
    assert max_f1.compute(toy, OFFICIAL)["max_f1"] == pytest.approx(2 / 3, abs=1e-12)
    assert max_f1.floor(toy, EXACT) == pytest.approx(2 / 3, abs=1e-12)


@pytest.mark.parametrize(("n", "count"), [(10316, 11), (5158, 11), (500, 10), (250, 10)])
def test_official_looks_at_ten_or_eleven_thresholds(make, n: int, count: int) -> None:  # type: ignore[no-untyped-def]
    _, thresholds = max_f1.curve(make(["positive"] * n, np.arange(n), np.ones(n)), OFFICIAL)
    assert len(thresholds) == count
    assert thresholds[-1] == 0


def test_the_best_threshold_is_named(make) -> None:  # type: ignore[no-untyped-def]
    records = make(["positive", "positive", "easy", "easy"], [0.9, 0.8, 0.3, 0.2], [1, 1, np.nan, np.nan])
    assert max_f1.best(records, EXACT) == (1.0, 0.8)


def test_floor_of_a_balanced_set_follows_from_loc_acc(make) -> None:  # type: ignore[no-untyped-def]
    # The published Flickr-10k pair: LocAcc 82.0 -> 90.1 is the floor of the visible set, p = LocAcc there.
    n = 50
    records = make(["positive"] * n, np.arange(n), [1.0] * 41 + [0.0] * 9)
    assert max_f1.floor(records, EXACT) == pytest.approx(0.901, abs=5e-4)
    both = make(["positive"] * n + ["easy"] * n, np.arange(2 * n), [1.0] * 41 + [0.0] * 9 + [np.nan] * n)
    assert max_f1.floor(both, EXACT) == pytest.approx(2 * 0.41 / 1.41)


def test_nothing_found_gives_zero(make) -> None:  # type: ignore[no-untyped-def]
    assert max_f1.compute(make(["positive", "easy"], [0.5, 0.6], [0, np.nan]), EXACT)["max_f1"] == 0


def test_undefined_without_positives(make) -> None:  # type: ignore[no-untyped-def]
    records = make(["easy"], [0.5], [np.nan])
    assert np.isnan(max_f1.compute(records, EXACT)["max_f1"])
    assert np.isnan(max_f1.floor(records, EXACT))
