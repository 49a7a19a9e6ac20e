"""Facts about numbers by class."""

from __future__ import annotations

import numpy as np
import pytest

from earsight.metrics import classes, loc_acc, pointing
from earsight.metrics.base import Records
from earsight.protocols import get

EXACT = get("exact")


def some(labels: list[str], ciou: list[float], peak: list[float] | None = None, kind: str = "positive") -> Records:
    n = len(labels)
    ids, kinds = np.array([f"c{i}" for i in range(n)]), np.array([kind] * n)
    peaks = np.array(peak if peak is not None else [np.nan] * n)
    return Records(ids, kinds, np.array(labels, dtype=np.str_), np.zeros(n), np.zeros(n), np.array(ciou), peak=peaks)


def test_a_class_has_the_numbers_of_its_own_positives() -> None:
    records = some(["dog", "cat", "dog", "dog"], [0.9, 0.1, 0.5, 0.4], [1.0, 0.0, 0.25, 0.5])
    numbers = classes.compute(records, EXACT)
    dogs = records.where(records.label == "dog")
    assert numbers["loc_acc_of/dog"] == loc_acc.compute(dogs, EXACT)["loc_acc"] == pytest.approx(2 / 3)
    assert numbers["pointing_of/dog"] == pytest.approx(pointing.compute(dogs, EXACT)["pointing"])
    assert numbers["loc_acc_of/cat"] == 0.0
    assert classes.counts(records) == {"cat": 1, "dog": 3}


def test_unknown_classes_and_negatives_give_no_number() -> None:
    assert classes.compute(some([""], [1.0]), EXACT) == {}
    assert classes.compute(some(["dog"], [np.nan], kind="easy"), EXACT) == {}
    assert classes.compute(some([], []), EXACT) == {}


def test_perfect_worst_and_undefined() -> None:
    assert classes.compute(some(["a"], [1.0], [1.0]), EXACT) == {"loc_acc_of/a": 1.0, "pointing_of/a": 1.0}
    assert classes.compute(some(["a"], [0.0], [0.0]), EXACT) == {"loc_acc_of/a": 0.0, "pointing_of/a": 0.0}
    assert np.isnan(classes.compute(some(["a"], [1.0]), EXACT)["pointing_of/a"])
