"""Facts about localization accuracy, its area under the curve and its ceiling."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from earsight.metrics import loc_acc
from earsight.metrics.base import Records
from earsight.protocols import Protocol, get

EXACT, PAPER = get("exact"), get("paper")


def test_toy_value(toy: Records) -> None:
    assert loc_acc.compute(toy, EXACT)["loc_acc"] == 0.75


def test_auc_toy_value_on_the_float_grid() -> None:
    assert loc_acc.auc(np.array([0.1, 0.3, 0.5, 0.75, 1.0])) == pytest.approx(0.54, abs=1e-12)


def test_a_ciou_equal_to_gamma_is_a_hit_unless_the_protocol_is_strict(make) -> None:  # type: ignore[no-untyped-def]
    records = make(["positive"], [1.0], [0.5])
    assert loc_acc.compute(records, EXACT)["loc_acc"] == 1
    assert loc_acc.compute(records, PAPER)["loc_acc"] == 0


def test_another_gamma_changes_the_hits(toy: Records) -> None:
    assert loc_acc.compute(toy, replace(EXACT, gamma=0.75))["loc_acc"] == 0.25


def test_perfect_and_worst(make) -> None:  # type: ignore[no-untyped-def]
    perfect = loc_acc.compute(make(["positive"] * 3, [0, 0, 0], [1, 1, 1], peak=[1, 1, 1]), EXACT)
    assert perfect == {"loc_acc": 1.0, "auc": pytest.approx(1.0), "pointing": 1.0}
    worst = loc_acc.compute(make(["positive"] * 3, [0, 0, 0], [0, 0, 0], peak=[0, 0, 0]), EXACT)
    # every cIoU is >= 0, the grid's first value
    assert worst == {"loc_acc": 0.0, "auc": pytest.approx(0.025), "pointing": 0.0}


def test_undefined_without_positives(make) -> None:  # type: ignore[no-untyped-def]
    values = loc_acc.compute(make(["easy"], [0.5], [np.nan]), EXACT)
    assert np.isnan([values["loc_acc"], values["auc"], values["pointing"]]).all()
    assert np.isnan(loc_acc.compute(make(["positive"], [0.5], [1]), EXACT)["pointing"])  # no peak was measured
    assert np.isnan(loc_acc.auc(np.array([])))
    assert np.isnan(loc_acc.ceiling(np.array([]), EXACT))


def test_ceiling_is_area_over_half_or_half_over_area() -> None:
    areas = np.array([0, 12543, 12544, 25088, 50176], dtype=float)
    expected = [0, 12543 / 25088, 0.5, 1, 0.5]
    np.testing.assert_allclose(loc_acc.best_ciou(areas, EXACT), expected)
    assert loc_acc.ceiling(areas, EXACT) == 0.6
    assert loc_acc.ceiling(areas, PAPER) == 0.4  # "above one half" leaves out both exact halves


def test_ceiling_of_an_absolute_threshold_is_every_positive_with_truth() -> None:
    assert loc_acc.ceiling(np.array([0.0, 1.0, 50176.0]), replace(EXACT, threshold="absolute")) == 2 / 3


def test_ceiling_counts_pixels_of_partial_weight() -> None:
    # 20000 pixels of weight 0.5: half a picture kept holds 5088 pixels without truth, not 15088.
    best = loc_acc.best_ciou(np.array([10000.0]), EXACT, np.array([20000.0]))
    assert best[0] == pytest.approx(10000 / (10000 + 5088))


def test_ceiling_of_the_forgiving_formula_is_one_for_large_sources() -> None:
    assert loc_acc.best_ciou(np.array([50176.0]), replace(EXACT, ciou="no_miss"))[0] == 1


def labelled(labels: list[str], ciou: list[float], peak: list[float] | None = None, kind: str = "positive") -> Records:
    n = len(labels)
    ids, kinds = np.array([f"c{i}" for i in range(n)]), np.array([kind] * n)
    peaks = np.array(peak if peak is not None else [np.nan] * n)
    return Records(ids, kinds, np.array(labels, dtype=np.str_), np.zeros(n), np.zeros(n), np.array(ciou), peak=peaks)


def by_class(records: Records, protocol: Protocol) -> dict[str, float]:
    return {name: value for name, value in loc_acc.compute(records, protocol).items() if "_of/" in name}


def test_a_class_has_the_numbers_of_its_own_positives() -> None:
    records = labelled(["dog", "cat", "dog", "dog"], [0.9, 0.1, 0.5, 0.4], [1.0, 0.0, 0.25, 0.5])
    numbers = by_class(records, EXACT)
    dogs = records.where(records.label == "dog")
    assert numbers["loc_acc_of/dog"] == loc_acc.compute(dogs, EXACT)["loc_acc"] == pytest.approx(2 / 3)
    assert numbers["pointing_of/dog"] == pytest.approx(loc_acc.compute(dogs, EXACT)["pointing"])
    assert numbers["loc_acc_of/cat"] == 0.0
    assert loc_acc.class_counts(records) == {"cat": 1, "dog": 3}


def test_unknown_classes_and_negatives_give_no_number() -> None:
    assert by_class(labelled([""], [1.0]), EXACT) == {}
    assert by_class(labelled(["dog"], [np.nan], kind="easy"), EXACT) == {}
    assert by_class(labelled([], []), EXACT) == {}


def test_perfect_worst_and_undefined_of_a_class() -> None:
    assert by_class(labelled(["a"], [1.0], [1.0]), EXACT) == {"loc_acc_of/a": 1.0, "pointing_of/a": 1.0}
    assert by_class(labelled(["a"], [0.0], [0.0]), EXACT) == {"loc_acc_of/a": 0.0, "pointing_of/a": 0.0}
    assert np.isnan(by_class(labelled(["a"], [1.0]), EXACT)["pointing_of/a"])
