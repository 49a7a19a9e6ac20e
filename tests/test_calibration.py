"""Facts about thresholds that are chosen on a validation list."""

from __future__ import annotations

import json
from dataclasses import asdict

import numpy as np
import pytest

from earsight.calibration import calibrate, universal_level
from earsight.errors import UsageError
from earsight.metrics.base import Records
from earsight.types import Row


def some_records(positive: list[float], negative: list[float]) -> Records:
    n = len(positive) + len(negative)
    kinds = ["positive"] * len(positive) + ["easy"] * len(negative)
    rows = [Row(f"c{i}", kind=kind) for i, kind in enumerate(kinds)]
    return Records.of(rows, area=np.zeros(n), confidence=np.array(positive + negative), ciou=np.ones(n))


def test_calibration_takes_the_smallest_threshold_that_keeps_the_promise() -> None:
    records = some_records([0.3, 0.6, 0.8, 0.95], [i / 10 for i in range(10)])
    got = calibrate(records, false_alarm=0.2)
    assert (got.threshold, got.false_alarm, got.recall, got.negatives) == (0.8, 0.2, 0.5, 10)
    assert calibrate(records, false_alarm=1.0).threshold == 0.0
    assert calibrate(records, false_alarm=0.0).threshold == 0.95
    assert json.loads(json.dumps(asdict(got)))["negatives"] == 10


def test_calibration_rejects_everything_when_negatives_are_highest() -> None:
    got = calibrate(some_records([0.1], [0.9, 0.9]), false_alarm=0.1)
    assert got.threshold > 0.9
    assert (got.false_alarm, got.recall) == (0, 0)


def test_calibration_needs_both_kinds_and_names_what_is_missing() -> None:
    with pytest.raises(
        UsageError, match="positives and negatives to calibrate on, but got 2 positives and 0 negatives"
    ):
        calibrate(some_records([0.1, 0.2], []))
    with pytest.raises(UsageError, match=r"0 negatives\. Use a split that holds clips without a visible source"):
        calibrate(some_records([0.1, 0.2], []))
    with pytest.raises(UsageError, match=r"0 positives and 1 negatives\. .* that holds clips with a visible source"):
        calibrate(some_records([], [0.1]))
    with pytest.raises(UsageError, match="false-alarm rate between 0 and 1, but got 7"):
        calibrate(some_records([0.1], [0.2]), false_alarm=7)


def test_the_universal_level_is_the_highest_third_quartile_of_the_kinds() -> None:
    rows = [Row(f"c{i}", kind=kind) for i, kind in enumerate(["positive"] * 2 + ["easy"] * 5 + ["hard"] * 5)]
    confidence = np.array([0.9, 0.99, 0.1, 0.2, 0.3, 0.4, 0.5, 0.2, 0.3, 0.4, 0.5, 0.6])
    records = Records.of(rows, area=np.zeros(12), confidence=confidence, ciou=np.ones(12))
    assert universal_level(records) == pytest.approx(0.5)
    with pytest.raises(UsageError, match="Expected negatives to estimate a universal level on, but got none"):
        universal_level(records.where(records.positives))
