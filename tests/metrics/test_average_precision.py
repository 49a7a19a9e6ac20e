"""Facts about average precision, and about max-F1 and its floor."""

from __future__ import annotations

import numpy as np
import pytest

from earsight.metrics import average_precision
from earsight.metrics.base import Records
from earsight.protocols import get

EXACT, OFFICIAL, PAPER = get("exact"), get("official"), get("paper")


def test_toy_values(toy: Records) -> None:
    assert average_precision.compute(toy, EXACT)["ap"] == pytest.approx(0.75, abs=1e-12)
    assert average_precision.compute(toy, PAPER)["ap"] == pytest.approx(0.75, abs=1e-12)
    assert average_precision.compute(toy, OFFICIAL)["ap"] == pytest.approx(0.277778, abs=5e-7)


@pytest.mark.parametrize(("n", "count", "lowest"), [(10316, 203, 12), (5158, 207, 6), (500, 250, 0), (250, 249, 0)])
def test_official_looks_at_the_published_number_of_thresholds(make, n: int, count: int, lowest: int) -> None:  # type: ignore[no-untyped-def]
    clips = average_precision.ranked(make(["positive"] * n, np.arange(n), np.ones(n)), OFFICIAL)
    thresholds = average_precision.walk(clips, average_precision.ap_ranks(n, OFFICIAL))[2]
    assert len(thresholds) == count
    assert thresholds[-1] == lowest
    assert thresholds[0] == n - 2


def test_constant_confidence_gives_zero_officially_and_the_precision_on_the_full_curve(make) -> None:  # type: ignore[no-untyped-def]
    records = make(["positive"] * 3 + ["easy"], [0.5] * 4, [1, 1, 0, np.nan])
    assert average_precision.compute(records, OFFICIAL)["ap"] == 0
    assert average_precision.compute(records, EXACT)["ap"] == 0.5


def test_equal_confidences_make_one_step(make) -> None:  # type: ignore[no-untyped-def]
    records = make(["positive", "easy", "positive"], [0.9, 0.9, 0.1], [1, np.nan, 1])
    precision, recall, thresholds = average_precision.curve(records, EXACT)
    assert thresholds.tolist() == [0.9, 0.1]
    np.testing.assert_allclose(precision, [1 / 2, 2 / 3])
    np.testing.assert_allclose(recall, [1 / 2, 1])


def test_recall_reaches_one_although_a_source_is_mislocalised(make) -> None:  # type: ignore[no-untyped-def]
    _, recall, _ = average_precision.curve(make(["positive", "positive"], [0.9, 0.1], [1, 0]), EXACT)
    assert recall.tolist() == [0.5, 1.0]


def test_perfect_and_worst(make) -> None:  # type: ignore[no-untyped-def]
    perfect = make(["positive", "positive", "easy"], [0.9, 0.8, 0.1], [1, 1, np.nan])
    worst = make(["positive", "positive", "easy"], [0.1, 0.2, 0.9], [0, 0, np.nan])
    assert average_precision.compute(perfect, EXACT)["ap"] == 1
    assert average_precision.compute(worst, EXACT)["ap"] == 0


def test_undefined_without_positives(make) -> None:  # type: ignore[no-untyped-def]
    numbers = average_precision.compute(make(["easy"], [0.5], [np.nan]), EXACT)
    assert np.isnan([numbers["ap"], numbers["ap_coco"]]).all()


def test_coco_toy_value_in_every_protocol(toy: Records) -> None:
    # Hits at 0.9, 0.8 and 0.4 of four positives: 1/4 (1 + 1 + 3/6).
    for name in ("exact", "official", "paper"):
        assert average_precision.compute(toy, get(name))["ap_coco"] == pytest.approx(0.625, abs=1e-12)


def test_a_positive_found_in_the_wrong_place_is_missed(make) -> None:  # type: ignore[no-untyped-def]
    records = make(["positive", "positive"], [0.9, 0.1], [1, 0])
    precision, recall, thresholds = average_precision.coco_walk(average_precision.ranked(records, EXACT))
    assert precision.tolist() == [1.0, 0.5]
    assert recall.tolist() == [0.5, 0.5]
    assert thresholds.tolist() == [0.9, 0.1]
    assert average_precision.compute(records, EXACT)["ap_coco"] == 0.5
    assert average_precision.compute(records, EXACT)["ap"] == 0.75


def test_coco_perfect_and_worst(make) -> None:  # type: ignore[no-untyped-def]
    kinds = ["positive", "positive", "easy"]
    assert average_precision.compute(make(kinds, [0.9, 0.8, 0.1], [1, 1, np.nan]), EXACT)["ap_coco"] == 1
    assert average_precision.compute(make(kinds, [0.1, 0.2, 0.9], [0, 0, np.nan]), EXACT)["ap_coco"] == 0


def test_f1_of_the_toy(toy: Records) -> None:
    assert average_precision.compute(toy, EXACT)["max_f1"] == pytest.approx(2 / 3, abs=1e-12)
    assert average_precision.compute(toy, OFFICIAL)["max_f1"] == pytest.approx(2 / 3, abs=1e-12)
    assert average_precision.f1_floor(toy, EXACT) == pytest.approx(2 / 3, abs=1e-12)


@pytest.mark.parametrize(("n", "count"), [(10316, 11), (5158, 11), (500, 10), (250, 10)])
def test_official_f1_looks_at_ten_or_eleven_thresholds(make, n: int, count: int) -> None:  # type: ignore[no-untyped-def]
    _, thresholds = average_precision.f1_curve(make(["positive"] * n, np.arange(n), np.ones(n)), OFFICIAL)
    assert len(thresholds) == count
    assert thresholds[-1] == 0


def test_the_best_threshold_of_f1_is_named(make) -> None:  # type: ignore[no-untyped-def]
    records = make(["positive", "positive", "easy", "easy"], [0.9, 0.8, 0.3, 0.2], [1, 1, np.nan, np.nan])
    f1, thresholds = average_precision.f1_curve(records, EXACT)
    assert (f1.max(), thresholds[f1.argmax()]) == (1.0, 0.8)


def test_floor_of_a_balanced_set_follows_from_loc_acc(make) -> None:  # type: ignore[no-untyped-def]
    # The published Flickr-10k pair: LocAcc 82.0 -> 90.1 is the floor of the visible set, p = LocAcc there.
    n = 50
    records = make(["positive"] * n, np.arange(n), [1.0] * 41 + [0.0] * 9)
    assert average_precision.f1_floor(records, EXACT) == pytest.approx(0.901, abs=5e-4)
    both = make(["positive"] * n + ["easy"] * n, np.arange(2 * n), [1.0] * 41 + [0.0] * 9 + [np.nan] * n)
    assert average_precision.f1_floor(both, EXACT) == pytest.approx(2 * 0.41 / 1.41)


@pytest.mark.parametrize(
    ("loc_acc", "floor"),
    [(2193, 0.1976), (2263, 0.2033), (1404, 0.1312), (1043, 0.0991), (2687, 0.2369),
     (4720, 0.3819), (5280, 0.4177), (3416, 0.2918), (1960, 0.1785), (7291, 0.5343)],
)  # fmt: skip
def test_floors_under_the_early_methods_of_the_papers_extended_sets(make, loc_acc: int, floor: float) -> None:  # type: ignore[no-untyped-def]
    n = 10_000
    found = np.where(np.arange(n) < loc_acc, 1.0, 0.0)
    records = make(["positive"] * n + ["easy"] * n, np.zeros(2 * n), [*found, *[np.nan] * n])
    assert average_precision.f1_floor(records, EXACT) == pytest.approx(floor, abs=5e-5)


@pytest.mark.parametrize(("loc_acc", "floor"), [(4254, 0.5969), (8270, 0.9053), (1878, 0.3162)])
def test_floors_where_there_are_no_negatives(make, loc_acc: int, floor: float) -> None:  # type: ignore[no-untyped-def]
    n = 10_000
    records = make(["positive"] * n, np.zeros(n), np.where(np.arange(n) < loc_acc, 1.0, 0.0))
    assert average_precision.f1_floor(records, EXACT) == pytest.approx(floor, abs=5e-5)


def test_nothing_found_gives_an_f1_of_zero(make) -> None:  # type: ignore[no-untyped-def]
    assert average_precision.compute(make(["positive", "easy"], [0.5, 0.6], [0, np.nan]), EXACT)["max_f1"] == 0


def test_f1_is_undefined_without_positives(make) -> None:  # type: ignore[no-untyped-def]
    records = make(["easy"], [0.5], [np.nan])
    assert np.isnan(average_precision.compute(records, EXACT)["max_f1"])
    assert np.isnan(average_precision.f1_floor(records, EXACT))
