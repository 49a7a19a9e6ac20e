"""Facts about average precision over IoU thresholds."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from earsight.metrics import average_precision, iou_sweep, loc_acc
from earsight.metrics.base import Records
from earsight.protocols import PROTOCOLS, Protocol, get

EXACT, PAPER = get("exact"), get("paper")


@pytest.mark.parametrize("protocol", PROTOCOLS.values(), ids=str)
def test_each_point_is_the_ap_of_the_protocol_with_that_gamma(protocol: Protocol) -> None:
    random = np.random.default_rng(0)
    n = 300
    kind = random.choice(["positive", "easy"], n)
    ciou = np.where(kind == "positive", random.integers(0, 21, n) / 20, np.nan)
    texts = np.array([f"c{i}" for i in range(n)]), kind, np.array([""] * n)
    records = Records(*texts, np.zeros(n), random.integers(0, 50, n) / 50, ciou)
    thresholds, aps = iou_sweep.curve(records, protocol)
    numbers = iou_sweep.compute(records, protocol)
    assert thresholds.tolist() == [i / 100 for i in range(5, 100, 5)]
    for gamma, ap in zip(thresholds, aps, strict=True):
        expected = average_precision.compute(records, replace(protocol, gamma=gamma))["ap"]
        assert ap == numbers[f"ap/iou_{round(100 * gamma):02d}"] == expected
    assert numbers["ap/iou_50"] == average_precision.compute(records, protocol)["ap"]
    assert numbers["loc_acc/iou_75"] == loc_acc.compute(records, replace(protocol, gamma=0.75))["loc_acc"]
    coco = [numbers[f"ap/iou_{i}"] for i in (50, 55, 60, 65, 70, 75, 80, 85, 90, 95)]
    assert numbers["ap/iou_mean"] == pytest.approx(sum(coco) / 10, abs=1e-12)


def test_toy_values(toy: Records) -> None:
    numbers = iou_sweep.compute(toy, EXACT)
    assert numbers["ap/iou_50"] == pytest.approx(0.75, abs=1e-12)
    assert numbers["loc_acc/iou_75"] == 0.25
    # Only the first is found at 0.75: recall 1/4, 1/3, 1/3, 1/2, 1/2, 1 with precision 1, 1/2, 1/3, 1/4, 1/5, 1/6.
    expected = 1 / 4 + 1 / 2 * (1 / 3 - 1 / 4) + 1 / 4 * (1 / 2 - 1 / 3) + 1 / 6 * (1 - 1 / 2)
    assert numbers["ap/iou_75"] == pytest.approx(expected, abs=1e-12)


def test_a_ciou_on_a_threshold_is_a_hit_unless_the_protocol_is_strict(make) -> None:  # type: ignore[no-untyped-def]
    for i in range(1, 20):
        records = make(["positive"], [1.0], [i / 20])
        name = f"ap/iou_{5 * i:02d}"
        assert iou_sweep.compute(records, EXACT)[name] == 1
        assert iou_sweep.compute(records, PAPER)[name] == 0


def test_perfect_and_worst(make) -> None:  # type: ignore[no-untyped-def]
    kinds, right = ["positive", "positive", "easy"], [0.9, 0.8, 0.1]
    assert set(iou_sweep.compute(make(kinds, right, [1, 1, np.nan]), EXACT).values()) == {1.0}
    assert set(iou_sweep.compute(make(kinds, right, [0, 0, np.nan]), EXACT).values()) == {0.0}


def test_undefined_without_positives(make) -> None:  # type: ignore[no-untyped-def]
    numbers = iou_sweep.compute(make(["easy"], [0.5], [np.nan]), EXACT)
    assert set(numbers) == set(iou_sweep.HIGHER_IS_BETTER)
    assert all(np.isnan(value) for value in numbers.values())
