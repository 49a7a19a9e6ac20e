"""Facts about scores by kind of negative."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from earsight.metrics import max_f1, negative_kinds, rejection
from earsight.metrics.base import Records
from earsight.protocols import PROTOCOLS, Protocol, get

EXACT = get("exact")


def some(positives: int = 60, easy: int = 20, hard: int = 90, unknown: int = 5) -> Records:
    random = np.random.default_rng(2)
    kind = np.repeat(["positive", "easy", "hard", "unknown"], [positives, easy, hard, unknown])
    n = len(kind)
    ciou = np.where(kind == "positive", random.random(n), np.nan)
    texts = np.array([f"c{i:03d}" for i in random.permutation(n)]), kind, np.array([""] * n)
    return Records(*texts, np.zeros(n), random.integers(0, 40, n) / 40, ciou)


@pytest.mark.parametrize("protocol", PROTOCOLS.values(), ids=str)
def test_max_f1_of_a_kind_is_the_mean_over_seeded_draws_of_as_many_positives(protocol: Protocol) -> None:
    records = some().sorted_by_id()
    random = np.random.default_rng(0)
    easy, positives = np.flatnonzero(records.kind == "easy"), np.flatnonzero(records.positives)
    values = []
    for _ in range(20):
        drawn = random.permutation(positives)[: len(easy)]
        values.append(max_f1.compute(records.where(np.concatenate([drawn, easy])), protocol)["max_f1"])
    assert negative_kinds.compute(some(), protocol)["max_f1/easy"] == pytest.approx(np.mean(values), abs=1e-12)
    assert len(set(values)) > 1


def test_all_positives_are_used_when_there_are_fewer() -> None:
    records = some()
    with_hard = records.where(records.positives | (records.kind == "hard"))
    expected = max_f1.compute(with_hard, EXACT)["max_f1"]
    assert negative_kinds.compute(records, EXACT)["max_f1/hard"] == expected


def test_order_and_sharding_never_change_the_draws() -> None:
    records = some()
    expected = negative_kinds.compute(records, EXACT)
    for seed in range(5):
        order = np.random.default_rng(seed).permutation(len(records))
        parts = [records.where(part) for part in np.array_split(order, 7)]
        assert negative_kinds.compute(Records.concat(parts), EXACT) == expected


def test_a_kind_is_scored_alike_whatever_other_kinds_there_are() -> None:
    records = some()
    alone = records.where(records.positives | (records.kind == "easy"))
    everything = negative_kinds.compute(records, EXACT)
    for name, value in negative_kinds.compute(alone, EXACT).items():
        assert everything[name] == value


def test_rejection_of_a_kind_is_that_of_its_negatives_with_all_positives() -> None:
    records = some()
    numbers = negative_kinds.compute(records, EXACT)
    for kind in ("easy", "hard"):
        expected = rejection.compute(records.where(records.positives | (records.kind == kind)), EXACT)
        assert {name: numbers[f"{name}/{kind}"] for name in expected} == expected


def test_the_unknown_kind_gives_no_number() -> None:
    numbers = negative_kinds.compute(some(), EXACT)
    assert {name.partition("/")[2] for name in numbers} == {"easy", "hard"}
    assert negative_kinds.compute(some(easy=0, hard=0), EXACT) == {}


def test_clips_that_a_bootstrap_drew_twice_count_twice() -> None:
    records = some()
    index = np.random.default_rng(0).integers(0, len(records), len(records))
    numbers = negative_kinds.compute(records.drawn(index), EXACT)
    assert all(0 <= value <= 1 for value in numbers.values())
    assert numbers == negative_kinds.compute(records.drawn(index[::-1]), EXACT)


def test_perfect_and_worst(make) -> None:  # type: ignore[no-untyped-def]
    kinds = ["positive"] * 3 + ["easy", "hard"]
    perfect = negative_kinds.compute(make(kinds, [0.9, 0.8, 0.7, 0.1, 0.2], [1, 1, 1, np.nan, np.nan]), EXACT)
    worst = negative_kinds.compute(make(kinds, [0.1, 0.1, 0.1, 0.8, 0.9], [0, 0, 0, np.nan, np.nan]), EXACT)
    for kind in ("easy", "hard"):
        assert [perfect[f"{n}/{kind}"] for n in ("max_f1", "auroc", "false_alarm_at_90")] == [1, 1, 0]
        assert [worst[f"{n}/{kind}"] for n in ("max_f1", "auroc", "false_alarm_at_90")] == [0, 0, 1]


def test_undefined_without_positives(make) -> None:  # type: ignore[no-untyped-def]
    numbers = negative_kinds.compute(make(["easy"], [0.5], [np.nan]), EXACT)
    assert set(numbers) == {"max_f1/easy", "auroc/easy", "false_alarm_at_90/easy"}
    assert all(np.isnan(value) for value in numbers.values())


def test_a_useless_confidence_stays_on_the_floor_of_its_kind() -> None:
    records = some()
    flat = replace(records, confidence=np.full(len(records), 0.5))
    for kind in negative_kinds.kinds(flat):
        floor = negative_kinds.floor(flat, EXACT, kind)
        assert 0 < floor < 1
        assert negative_kinds.compute(flat, EXACT)[f"max_f1/{kind}"] == pytest.approx(floor, abs=1e-12)
        assert negative_kinds.compute(records, EXACT)[f"max_f1/{kind}"] >= floor
    assert np.isnan(negative_kinds.floor(records, EXACT, "none such"))
