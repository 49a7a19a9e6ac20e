"""Facts about LocAcc and AP over IoU thresholds and prediction sizes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from earsight.metrics import average_precision, loc_acc, sizes, sweeps
from earsight.metrics.base import SIZES, Records
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
    thresholds, aps = sweeps.over_ious(records, protocol)
    numbers = sweeps.compute(records, protocol)
    assert thresholds.tolist() == [i / 100 for i in range(5, 100, 5)]
    for gamma, ap in zip(thresholds, aps, strict=True):
        expected = average_precision.compute(records, replace(protocol, gamma=gamma))["ap"]
        assert ap == numbers[f"ap/iou_{round(100 * gamma):02d}"] == expected
    assert numbers["ap/iou_50"] == average_precision.compute(records, protocol)["ap"]
    assert numbers["loc_acc/iou_75"] == loc_acc.compute(records, replace(protocol, gamma=0.75))["loc_acc"]
    coco = [numbers[f"ap/iou_{i}"] for i in (50, 55, 60, 65, 70, 75, 80, 85, 90, 95)]
    assert numbers["ap/iou_mean"] == pytest.approx(sum(coco) / 10, abs=1e-12)


def test_toy_values(toy: Records) -> None:
    numbers = sweeps.compute(toy, EXACT)
    assert numbers["ap/iou_50"] == pytest.approx(0.75, abs=1e-12)
    assert numbers["loc_acc/iou_75"] == 0.25
    # Only the first is found at 0.75: recall 1/4, 1/3, 1/3, 1/2, 1/2, 1 with precision 1, 1/2, 1/3, 1/4, 1/5, 1/6.
    expected = 1 / 4 + 1 / 2 * (1 / 3 - 1 / 4) + 1 / 4 * (1 / 2 - 1 / 3) + 1 / 6 * (1 - 1 / 2)
    assert numbers["ap/iou_75"] == pytest.approx(expected, abs=1e-12)


def test_a_ciou_on_a_threshold_is_a_hit_unless_the_protocol_is_strict(make) -> None:  # type: ignore[no-untyped-def]
    for i in range(1, 20):
        records = make(["positive"], [1.0], [i / 20])
        name = f"ap/iou_{5 * i:02d}"
        assert sweeps.compute(records, EXACT)[name] == 1
        assert sweeps.compute(records, PAPER)[name] == 0


def by_iou(records: Records) -> set[float]:
    return {value for name, value in sweeps.compute(records, EXACT).items() if "/iou_" in name}


def test_perfect_and_worst(make) -> None:  # type: ignore[no-untyped-def]
    kinds, right = ["positive", "positive", "easy"], [0.9, 0.8, 0.1]
    assert by_iou(make(kinds, right, [1, 1, np.nan])) == {1.0}
    assert by_iou(make(kinds, right, [0, 0, np.nan])) == {0.0}


def some(n: int = 200) -> Records:
    random = np.random.default_rng(1)
    kind = random.choice(["positive", "positive", "easy"], n)
    by_size = random.integers(0, 21, (n, 9)) / 20
    by_size[kind != "positive"] = np.nan
    texts = np.array([f"c{i}" for i in range(n)]), kind, np.array([""] * n)
    area = np.where(kind == "positive", random.choice([100.0, 5000, 15000, 40000], n), 0)
    return Records(*texts, area, random.integers(0, 30, n) / 30, by_size[:, 0], by_size=by_size)


@pytest.mark.parametrize("protocol", PROTOCOLS.values(), ids=str)
def test_each_size_is_the_metric_with_the_ciou_of_that_size(protocol: Protocol) -> None:
    records = some()
    numbers = sweeps.compute(records, protocol)
    for i, share in enumerate(SIZES):
        at = replace(records, ciou=records.by_size[:, i])
        percent = round(100 * share)
        assert numbers[f"loc_acc/size_{percent}"] == loc_acc.compute(at, protocol)["loc_acc"]
        assert numbers[f"ap/size_{percent}"] == average_precision.compute(at, protocol)["ap"]


def test_a_curve_per_bucket_is_loc_acc_of_that_bucket() -> None:
    records = some()
    lines = sweeps.over_sizes(records, EXACT)
    assert list(lines) == ["all", "small", "medium", "large", "huge"]
    whole = sweeps.compute(records, EXACT)
    assert lines["all"].tolist() == [whole[f"loc_acc/size_{percent}"] for percent in range(10, 100, 10)]
    for i in range(9):
        at = sizes.compute(replace(records, ciou=records.by_size[:, i]), EXACT)
        for name in sizes.NAMES:
            assert lines[name][i] == at[f"loc_acc/{name}"]


def test_a_bucket_without_positives_has_a_curve_of_nan(make) -> None:  # type: ignore[no-untyped-def]
    records = make(["positive"], [0.5], [1], area=[100], by_size=np.ones((1, 9)))
    lines = sweeps.over_sizes(records, EXACT)
    assert lines["small"].tolist() == lines["all"].tolist() == [1.0] * 9
    for name in ("medium", "large", "huge"):
        assert lines[name].shape == (9,)
        assert np.isnan(lines[name]).all()


def test_undefined_when_sizes_were_not_measured(make) -> None:  # type: ignore[no-untyped-def]
    nan = np.full((2, 9), np.nan)
    for columns in ({}, {"by_size": nan}):
        records = make(["positive", "easy"], [0.5, 0.4], [1, np.nan], **columns)
        numbers = sweeps.compute(records, EXACT)
        assert set(numbers) == set(sweeps.HIGHER_IS_BETTER)
        assert all(np.isnan(value) for name, value in numbers.items() if "/size_" in name)
        assert all(np.isnan(line).all() and line.shape == (9,) for line in sweeps.over_sizes(records, EXACT).values())


def test_undefined_without_positives(make) -> None:  # type: ignore[no-untyped-def]
    records = make(["easy"], [0.5], [np.nan], by_size=np.full((1, 9), np.nan))
    assert all(np.isnan(value) for value in sweeps.compute(records, EXACT).values())
