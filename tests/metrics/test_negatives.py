"""Facts about negatives: scores by kind, and the area that is marked on them."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from earsight.metrics import average_precision, loc_acc, negatives, rejection
from earsight.metrics.base import Records
from earsight.protocols import PROTOCOLS, Protocol, get

EXACT = get("exact")
SMALL = replace(get("exact:threshold=absolute"), size=10)


def by_kind(records: Records, protocol: Protocol) -> dict[str, float]:
    """How well each kind is rejected."""
    numbers = negatives.compute(records, protocol)
    return {name: value for name, value in numbers.items() if "/" in name and not name.startswith("pia/")}


def marked(records: Records, protocol: Protocol) -> dict[str, float]:
    """The numbers about marked area."""
    known = by_kind(records, protocol)
    return {name: value for name, value in negatives.compute(records, protocol).items() if name not in known}


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
        values.append(average_precision.compute(records.where(np.concatenate([drawn, easy])), protocol)["max_f1"])
    assert by_kind(some(), protocol)["max_f1/easy"] == pytest.approx(np.mean(values), abs=1e-12)
    assert len(set(values)) > 1


def test_all_positives_are_used_when_there_are_fewer() -> None:
    records = some()
    with_hard = records.where(records.positives | (records.kind == "hard"))
    expected = average_precision.compute(with_hard, EXACT)["max_f1"]
    assert by_kind(records, EXACT)["max_f1/hard"] == expected


def test_order_and_sharding_never_change_the_draws() -> None:
    records = some()
    expected = by_kind(records, EXACT)
    for seed in range(5):
        order = np.random.default_rng(seed).permutation(len(records))
        parts = [records.where(part) for part in np.array_split(order, 7)]
        assert by_kind(Records.concat(parts), EXACT) == expected


def test_a_kind_is_scored_alike_whatever_other_kinds_there_are() -> None:
    records = some()
    alone = records.where(records.positives | (records.kind == "easy"))
    everything = by_kind(records, EXACT)
    for name, value in by_kind(alone, EXACT).items():
        assert everything[name] == value


def test_rejection_of_a_kind_is_that_of_its_negatives_with_all_positives() -> None:
    records = some()
    numbers = by_kind(records, EXACT)
    for kind in ("easy", "hard"):
        expected = rejection.compute(records.where(records.positives | (records.kind == kind)), EXACT)
        assert {name: numbers[f"{name}/{kind}"] for name in expected} == expected


def test_the_unknown_kind_gives_no_number() -> None:
    numbers = by_kind(some(), EXACT)
    assert {name.partition("/")[2] for name in numbers} == {"easy", "hard"}
    assert by_kind(some(easy=0, hard=0), EXACT) == {}


def test_clips_that_a_bootstrap_drew_twice_count_twice() -> None:
    records = some()
    index = np.random.default_rng(0).integers(0, len(records), len(records))
    numbers = by_kind(records.drawn(index), EXACT)
    assert all(0 <= value <= 1 for value in numbers.values())
    assert numbers == by_kind(records.drawn(index[::-1]), EXACT)


def test_perfect_and_worst_rejection(make) -> None:  # type: ignore[no-untyped-def]
    kinds = ["positive"] * 3 + ["easy", "hard"]
    perfect = by_kind(make(kinds, [0.9, 0.8, 0.7, 0.1, 0.2], [1, 1, 1, np.nan, np.nan]), EXACT)
    worst = by_kind(make(kinds, [0.1, 0.1, 0.1, 0.8, 0.9], [0, 0, 0, np.nan, np.nan]), EXACT)
    for kind in ("easy", "hard"):
        assert [perfect[f"{n}/{kind}"] for n in ("max_f1", "auroc", "false_alarm_at_90")] == [1, 1, 0]
        assert [worst[f"{n}/{kind}"] for n in ("max_f1", "auroc", "false_alarm_at_90")] == [0, 0, 1]


def test_rejection_is_undefined_without_positives(make) -> None:  # type: ignore[no-untyped-def]
    numbers = by_kind(make(["easy"], [0.5], [np.nan]), EXACT)
    assert set(numbers) == {"max_f1/easy", "auroc/easy", "false_alarm_at_90/easy"}
    assert all(np.isnan(value) for value in numbers.values())


def test_a_useless_confidence_stays_on_the_floor_of_its_kind() -> None:
    records = some()
    flat = replace(records, confidence=np.full(len(records), 0.5))
    for kind in negatives.kinds(flat):
        floor = negatives.floor(flat, EXACT, kind)
        assert 0 < floor < 1
        assert by_kind(flat, EXACT)[f"max_f1/{kind}"] == pytest.approx(floor, abs=1e-12)
        assert by_kind(records, EXACT)[f"max_f1/{kind}"] >= floor
    assert np.isnan(negatives.floor(records, EXACT, "none such"))


def test_pia_is_the_mean_share_marked_on_negatives_and_by_kind(make) -> None:  # type: ignore[no-untyped-def]
    kinds = ["positive", "easy", "easy", "hard"]
    records = make(kinds, np.zeros(4), [0.5, *[np.nan] * 3], predicted=[77, 10, 20, 90])
    numbers = marked(records, SMALL)
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
    assert marked(records, SMALL)["auc_n"] == pytest.approx(expected, abs=1e-12)


def test_auc_n_counts_small_areas_and_not_the_complement(make) -> None:  # type: ignore[no-untyped-def]
    nothing = make(["easy"], [0], [np.nan], predicted=[0])
    everything = make(["easy"], [0], [np.nan], predicted=[100])
    assert marked(nothing, SMALL)["auc_n"] == pytest.approx(1, abs=1e-12)
    assert marked(everything, SMALL)["auc_n"] == pytest.approx(0.025, abs=1e-12)


def test_f_auc_weighs_the_auc_against_auc_n(make) -> None:  # type: ignore[no-untyped-def]
    cious = np.array([0.1, 0.3, 0.5, 0.75, 1.0])
    records = make(["positive"] * 5 + ["easy"], np.zeros(6), [*cious, np.nan], predicted=[0] * 5 + [0])
    auc = loc_acc.auc(cious)
    assert auc == pytest.approx(0.54, abs=1e-12)
    assert marked(records, SMALL)["f_auc"] == pytest.approx(2 * auc / (1 + auc), abs=1e-12)


def test_the_unknown_kind_counts_in_f_loc_without_a_number_of_its_own(make) -> None:  # type: ignore[no-untyped-def]
    records = make(["positive", "unknown"], [0, 0], [0.5, np.nan], predicted=[0, 50])
    numbers = marked(records, SMALL)
    assert not [name for name in numbers if name.startswith("pia/")]
    assert (numbers["pia"], numbers["f_loc"]) == (0.5, 0.5)


def test_perfect_and_worst_marks(make) -> None:  # type: ignore[no-untyped-def]
    perfect = marked(make(["positive", "easy"], [1, 0], [1, np.nan], predicted=[9, 0]), SMALL)
    assert perfect == pytest.approx({"mean_ciou": 1, "pia": 0, "auc_n": 1, "pia/easy": 0, "f_loc": 1, "f_auc": 1})
    worst = marked(make(["positive", "easy"], [1, 0], [0, np.nan], predicted=[9, 100]), SMALL)
    expected = {"mean_ciou": 0, "pia": 1, "auc_n": 0.025, "pia/easy": 1, "f_loc": 0, "f_auc": 0.025}
    assert worst == pytest.approx(expected)


def test_the_order_never_changes_the_last_digit_of_the_mean_ciou(make) -> None:  # type: ignore[no-untyped-def]
    cious = np.random.default_rng(0).random(1000)
    one = marked(make(["positive"] * 1000, np.zeros(1000), cious), SMALL)
    other = marked(make(["positive"] * 1000, np.zeros(1000), cious[::-1]), SMALL)
    assert one["mean_ciou"] == other["mean_ciou"]


def test_undefined_where_nothing_was_measured(make) -> None:  # type: ignore[no-untyped-def]
    not_measured = marked(make(["positive", "easy"], [0, 0], [0.5, np.nan]), SMALL)
    assert {name for name, value in not_measured.items() if not np.isnan(value)} == {"mean_ciou"}
    no_negatives = marked(make(["positive"], [0], [0.5], predicted=[5]), SMALL)
    assert {name for name, value in no_negatives.items() if not np.isnan(value)} == {"mean_ciou"}
    no_positives = marked(make(["easy"], [0], [np.nan], predicted=[5]), SMALL)
    assert {name for name, value in no_positives.items() if not np.isnan(value)} == {"pia", "auc_n", "pia/easy"}
