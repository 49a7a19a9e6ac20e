"""What a report may expect of every metric in the metrics folder."""

from __future__ import annotations

import math

import numpy as np
import pytest

from earsight import registry
from earsight.metrics.base import Records
from earsight.protocols import PROTOCOLS, get

METRICS = registry.names("metric")
EVERY = [(name, protocol) for name in METRICS for protocol in PROTOCOLS]


def records(count: int, seed: int = 0, kinds: tuple[str, ...] = ("positive", "easy", "hard", "real")) -> Records:
    """Random records; few distinct confidences, so that ties are common."""
    random = np.random.default_rng(seed)
    kind = random.choice(np.array(kinds), count)
    ciou = np.where(kind == "positive", random.integers(0, 21, count) / 20, np.nan)
    ids = np.array([f"clip{i}" for i in range(count)])
    area = random.uniform(1, 50000, count)
    return Records(ids, kind, np.array(["x"] * count), area, random.integers(0, 9, count) / 8, ciou)


def compute(name: str, of: Records, protocol: str) -> dict[str, float]:
    numbers: dict[str, float] = registry.load("metric", name).compute(of, get(protocol))
    return numbers


@pytest.mark.parametrize("name", METRICS)
def test_a_metric_file_says_what_it_measures(name: str) -> None:
    module = registry.load("metric", name)
    low, high = module.RANGE
    assert low < high
    assert module.HIGHER_IS_BETTER
    assert all(type(value) is bool for value in module.HIGHER_IS_BETTER.values())
    assert ">>>" in (module.__doc__ or "")
    assert "Undefined" in (module.__doc__ or "") or "undefined" in (module.__doc__ or "")


def test_no_two_metrics_give_a_number_of_the_same_name() -> None:
    numbers = [number for name in METRICS for number in registry.load("metric", name).HIGHER_IS_BETTER]
    assert len(set(numbers)) == len(numbers)


@pytest.mark.parametrize(("name", "protocol"), EVERY)
def test_numbers_are_plain_floats_in_range(name: str, protocol: str) -> None:
    module = registry.load("metric", name)
    for seed in range(5):
        numbers = compute(name, records(40, seed), protocol)
        assert set(numbers) == set(module.HIGHER_IS_BETTER)
        for value in numbers.values():
            assert isinstance(value, float)
            assert module.RANGE[0] <= value <= module.RANGE[1] + 1e-12


@pytest.mark.parametrize(("name", "protocol"), EVERY)
def test_the_order_of_the_records_never_matters(name: str, protocol: str) -> None:
    whole = records(450)
    expected = compute(name, whole, protocol)
    for seed in range(3):
        order = np.random.default_rng(seed).permutation(len(whole))
        assert compute(name, whole.where(order), protocol) == expected


@pytest.mark.parametrize(("name", "protocol"), EVERY)
@pytest.mark.parametrize("count", [0, 1, 2, 30])
def test_without_positives_every_number_is_nan(name: str, protocol: str, count: int) -> None:
    numbers = compute(name, records(count, kinds=("easy", "hard")), protocol)
    assert set(numbers) == set(registry.load("metric", name).HIGHER_IS_BETTER)
    assert all(math.isnan(value) for value in numbers.values())


@pytest.mark.parametrize(("name", "protocol"), EVERY)
@pytest.mark.parametrize("count", [1, 2, 30])
def test_without_negatives_a_number_is_in_range_or_nan(name: str, protocol: str, count: int) -> None:
    low, high = registry.load("metric", name).RANGE
    for value in compute(name, records(count, kinds=("positive",)), protocol).values():
        assert math.isnan(value) or low <= value <= high + 1e-12


@pytest.mark.parametrize(("name", "protocol"), EVERY)
def test_a_perfect_answer_is_never_worse_than_a_useless_one(name: str, protocol: str) -> None:
    better = registry.load("metric", name).HIGHER_IS_BETTER
    kind = np.array(["positive"] * 20 + ["easy"] * 20)
    ids, label, area = np.array([f"c{i}" for i in range(40)]), np.array([""] * 40), np.ones(40)
    rising = np.linspace(0.1, 0.9, 40)
    perfect = Records(ids, kind, label, area, rising[::-1], np.where(kind == "positive", 1.0, np.nan))
    useless = Records(ids, kind, label, area, rising, np.where(kind == "positive", 0.0, np.nan))
    best, worst = compute(name, perfect, protocol), compute(name, useless, protocol)
    for number, higher in better.items():
        assert best[number] > worst[number] if higher else best[number] < worst[number]
