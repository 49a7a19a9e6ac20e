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


@pytest.mark.parametrize(
    ("loc_acc", "floor"),
    [(2193, 0.1976), (2263, 0.2033), (1404, 0.1312), (1043, 0.0991), (2687, 0.2369),
     (4720, 0.3819), (5280, 0.4177), (3416, 0.2918), (1960, 0.1785), (7291, 0.5343)],
)  # fmt: skip
def test_floors_under_the_early_methods_of_the_papers_extended_sets(make, loc_acc: int, floor: float) -> None:  # type: ignore[no-untyped-def]
    n = 10_000
    found = np.where(np.arange(n) < loc_acc, 1.0, 0.0)
    records = make(["positive"] * n + ["easy"] * n, np.zeros(2 * n), [*found, *[np.nan] * n])
    assert max_f1.floor(records, EXACT) == pytest.approx(floor, abs=5e-5)


@pytest.mark.parametrize(("loc_acc", "floor"), [(4254, 0.5969), (8270, 0.9053), (1878, 0.3162)])
def test_floors_where_there_are_no_negatives(make, loc_acc: int, floor: float) -> None:  # type: ignore[no-untyped-def]
    n = 10_000
    records = make(["positive"] * n, np.zeros(n), np.where(np.arange(n) < loc_acc, 1.0, 0.0))
    assert max_f1.floor(records, EXACT) == pytest.approx(floor, abs=5e-5)


def test_nothing_found_gives_zero(make) -> None:  # type: ignore[no-untyped-def]
    assert max_f1.compute(make(["positive", "easy"], [0.5, 0.6], [0, np.nan]), EXACT)["max_f1"] == 0


def test_undefined_without_positives(make) -> None:  # type: ignore[no-untyped-def]
    records = make(["easy"], [0.5], [np.nan])
    assert np.isnan(max_f1.compute(records, EXACT)["max_f1"])
    assert np.isnan(max_f1.floor(records, EXACT))
