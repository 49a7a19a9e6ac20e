"""Facts about rejection by confidence."""

from __future__ import annotations

import numpy as np

from earsight.metrics import rejection
from earsight.protocols import get

EXACT = get("exact")


def test_equal_confidence_counts_half(make) -> None:  # type: ignore[no-untyped-def]
    assert rejection.compute(make(["positive", "easy"], [0.5, 0.5], [1, np.nan]), EXACT)["auroc"] == 0.5


def test_false_alarms_are_counted_where_nine_of_ten_positives_are_accepted(make) -> None:  # type: ignore[no-untyped-def]
    confidence = [*np.arange(1, 11) / 10, 0.15, 0.2, 0.3, 0.9]
    records = make(["positive"] * 10 + ["easy"] * 4, confidence, [1] * 10 + [np.nan] * 4)
    assert rejection.compute(records, EXACT)["false_alarm_at_90"] == 0.75  # threshold 0.2


def test_perfect_and_worst(make) -> None:  # type: ignore[no-untyped-def]
    perfect = make(["positive", "easy"], [0.9, 0.1], [0, np.nan])
    assert rejection.compute(perfect, EXACT) == {"auroc": 1.0, "false_alarm_at_90": 0.0}
    worst = make(["positive", "easy"], [0.1, 0.9], [1, np.nan])
    assert rejection.compute(worst, EXACT) == {"auroc": 0.0, "false_alarm_at_90": 1.0}


def test_undefined_without_one_side(make) -> None:  # type: ignore[no-untyped-def]
    for kind, ciou in (("positive", 1.0), ("easy", np.nan)):
        assert all(np.isnan(v) for v in rejection.compute(make([kind], [0.5], [ciou]), EXACT).values())
