"""Facts about the area that is marked on negatives."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from earsight.metrics import loc_acc, negative_area
from earsight.protocols import get

SMALL = replace(get("exact:threshold=absolute"), size=10)


def test_pia_is_the_mean_share_marked_on_negatives_and_by_kind(make) -> None:  # type: ignore[no-untyped-def]
    kinds = ["positive", "easy", "easy", "hard"]
    records = make(kinds, np.zeros(4), [0.5, *[np.nan] * 3], predicted=[77, 10, 20, 90])
    numbers = negative_area.compute(records, SMALL)
    assert numbers["pia"] == pytest.approx(0.4, abs=1e-12)
    assert numbers["pia/easy"] == pytest.approx(0.15, abs=1e-12)
    assert numbers["pia/hard"] == pytest.approx(0.9, abs=1e-12)
    # Kinds weigh the same in F_LOC, however many clips they have.
    rest = 1 - (0.15 + 0.9) / 2
    assert numbers["f_loc"] == pytest.approx(2 * 0.5 * rest / (0.5 + rest), abs=1e-12)


def test_auc_n_equals_a_loop_over_the_grid(make) -> None:  # type: ignore[no-untyped-def]
    shares = np.random.default_rng(0).integers(0, 101, 40)
    records = make(["easy"] * 40, np.zeros(40), [np.nan] * 40, predicted=shares)
    at = [np.mean([share / 100 <= 0.05 * i for share in shares]) for i in range(21)]
    expected = sum((a + b) / 2 * 0.05 for a, b in pairwise(at))
    assert negative_area.compute(records, SMALL)["auc_n"] == pytest.approx(expected, abs=1e-12)


def test_auc_n_counts_small_areas_and_not_the_complement(make) -> None:  # type: ignore[no-untyped-def]
    nothing = make(["easy"], [0], [np.nan], predicted=[0])
    everything = make(["easy"], [0], [np.nan], predicted=[100])
    assert negative_area.compute(nothing, SMALL)["auc_n"] == pytest.approx(1, abs=1e-12)
    assert negative_area.compute(everything, SMALL)["auc_n"] == pytest.approx(0.025, abs=1e-12)


def test_f_auc_weighs_the_auc_against_auc_n(make) -> None:  # type: ignore[no-untyped-def]
    cious = np.array([0.1, 0.3, 0.5, 0.75, 1.0])
    records = make(["positive"] * 5 + ["easy"], np.zeros(6), [*cious, np.nan], predicted=[0] * 5 + [0])
    auc = loc_acc.auc(cious)
    assert auc == pytest.approx(0.54, abs=1e-12)
    assert negative_area.compute(records, SMALL)["f_auc"] == pytest.approx(2 * auc / (1 + auc), abs=1e-12)


def test_the_unknown_kind_counts_in_f_loc_without_a_number_of_its_own(make) -> None:  # type: ignore[no-untyped-def]
    records = make(["positive", "unknown"], [0, 0], [0.5, np.nan], predicted=[0, 50])
    numbers = negative_area.compute(records, SMALL)
    assert not [name for name in numbers if name.startswith("pia/")]
    assert (numbers["pia"], numbers["f_loc"]) == (0.5, 0.5)


def test_perfect_and_worst(make) -> None:  # type: ignore[no-untyped-def]
    perfect = negative_area.compute(make(["positive", "easy"], [1, 0], [1, np.nan], predicted=[9, 0]), SMALL)
    assert perfect == pytest.approx({"mean_ciou": 1, "pia": 0, "auc_n": 1, "pia/easy": 0, "f_loc": 1, "f_auc": 1})
    worst = negative_area.compute(make(["positive", "easy"], [1, 0], [0, np.nan], predicted=[9, 100]), SMALL)
    expected = {"mean_ciou": 0, "pia": 1, "auc_n": 0.025, "pia/easy": 1, "f_loc": 0, "f_auc": 0.025}
    assert worst == pytest.approx(expected)


def test_the_order_never_changes_the_last_digit_of_the_mean_ciou(make) -> None:  # type: ignore[no-untyped-def]
    cious = np.random.default_rng(0).random(1000)
    one = negative_area.compute(make(["positive"] * 1000, np.zeros(1000), cious), SMALL)
    other = negative_area.compute(make(["positive"] * 1000, np.zeros(1000), cious[::-1]), SMALL)
    assert one["mean_ciou"] == other["mean_ciou"]


def test_undefined_where_nothing_was_measured(make) -> None:  # type: ignore[no-untyped-def]
    not_measured = negative_area.compute(make(["positive", "easy"], [0, 0], [0.5, np.nan]), SMALL)
    assert {name for name, value in not_measured.items() if not np.isnan(value)} == {"mean_ciou"}
    no_negatives = negative_area.compute(make(["positive"], [0], [0.5], predicted=[5]), SMALL)
    assert {name for name, value in no_negatives.items() if not np.isnan(value)} == {"mean_ciou"}
    no_positives = negative_area.compute(make(["easy"], [0], [np.nan], predicted=[5]), SMALL)
    assert {name for name, value in no_positives.items() if not np.isnan(value)} == {"pia", "auc_n", "pia/easy"}
