"""Facts about scores at a fixed prediction size."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from earsight.metrics import average_precision, loc_acc, prediction_size, sizes
from earsight.metrics.base import SIZES, Records
from earsight.protocols import PROTOCOLS, Protocol, get

EXACT = get("exact")


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
    numbers = prediction_size.compute(records, protocol)
    for i, share in enumerate(SIZES):
        at = replace(records, ciou=records.by_size[:, i])
        percent = round(100 * share)
        assert numbers[f"loc_acc/size_{percent}"] == loc_acc.compute(at, protocol)["loc_acc"]
        assert numbers[f"ap/size_{percent}"] == average_precision.compute(at, protocol)["ap"]


@pytest.mark.parametrize("number", ["loc_acc", "ap"])
def test_a_curve_per_bucket_is_the_metric_of_that_bucket(number: str) -> None:
    records = some()
    lines = prediction_size.curve(records, EXACT, number)  # type: ignore[arg-type]
    assert list(lines) == ["all", "small", "medium", "large", "huge"]
    whole = prediction_size.compute(records, EXACT)
    assert lines["all"].tolist() == [whole[f"{number}/size_{percent}"] for percent in range(10, 100, 10)]
    for i in range(9):
        at = sizes.compute(replace(records, ciou=records.by_size[:, i]), EXACT)
        for name in sizes.NAMES:
            assert lines[name][i] == at[f"{number}/{name}"]


def test_a_bucket_without_positives_has_a_curve_of_nan(make) -> None:  # type: ignore[no-untyped-def]
    records = make(["positive"], [0.5], [1], area=[100], by_size=np.ones((1, 9)))
    lines = prediction_size.curve(records, EXACT)
    assert lines["small"].tolist() == lines["all"].tolist() == [1.0] * 9
    for name in ("medium", "large", "huge"):
        assert lines[name].shape == (9,)
        assert np.isnan(lines[name]).all()


def test_undefined_when_sizes_were_not_measured(make) -> None:  # type: ignore[no-untyped-def]
    nan = np.full((2, 9), np.nan)
    for columns in ({}, {"by_size": nan}):
        records = make(["positive", "easy"], [0.5, 0.4], [1, np.nan], **columns)
        numbers = prediction_size.compute(records, EXACT)
        assert set(numbers) == set(prediction_size.HIGHER_IS_BETTER)
        assert all(np.isnan(value) for value in numbers.values())
        assert all(
            np.isnan(line).all() and line.shape == (9,) for line in prediction_size.curve(records, EXACT).values()
        )


def test_undefined_without_positives(make) -> None:  # type: ignore[no-untyped-def]
    records = make(["easy"], [0.5], [np.nan], by_size=np.full((1, 9), np.nan))
    assert all(np.isnan(value) for value in prediction_size.compute(records, EXACT).values())
