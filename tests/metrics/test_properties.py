"""What holds for every metric on any records, and each metric against a slow loop written from its definition."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import average_precision_score, roc_auc_score

from earsight import registry
from earsight.metrics import average_precision, loc_acc, rejection, sizes, sweeps
from earsight.metrics.base import F64, Bools, Records, hits, reached
from earsight.protocols import PROTOCOLS, Protocol, get

EXACT, OFFICIAL = get("exact"), get("official")
NAMES = registry.names("metric")


@st.composite
def some_records(draw: st.DrawFn, most: int = 30, positives: int = 0) -> Records:
    n = draw(st.integers(max(1, positives), most))
    kinds = [draw(st.sampled_from(["positive", "easy", "hard", "real", "unknown"])) for _ in range(n)]
    kinds[:positives] = ["positive"] * positives
    # Few distinct values, so that ties are common.
    confidence = [draw(st.integers(0, 8)) / 8 for _ in range(n)]
    cious = [draw(st.integers(0, 20)) / 20 if kind == "positive" else np.nan for kind in kinds]
    ids = np.array([f"c{i}" for i in range(n)])
    texts = np.array(kinds), np.array([""] * n)
    random = np.random.default_rng(draw(st.integers(0, 99)))
    area = np.where(texts[0] == "positive", random.choice([0.0, 1024, 9216, 20736], n), 0)
    others: dict[str, Any] = {}
    if draw(st.booleans()):
        by_size = np.where(texts[0][:, None] == "positive", random.integers(0, 21, (n, 9)) / 20, np.nan)
        others = {"predicted": random.integers(0, 50177, n), "by_size": by_size}
    return Records(ids, *texts, area, np.array(confidence), np.array(cious), **others)


def searched(records: Records, protocol: Protocol, thresholds: F64) -> tuple[F64, F64]:
    """Precision and recall by three binary searches instead of sums along one ranking."""

    def claims(of: Bools) -> F64:
        ordered = np.sort(records.confidence[of])
        return (len(ordered) - np.searchsorted(ordered, thresholds, side="left")).astype(np.float64)

    tp = claims(hits(records, protocol))
    everything = claims(np.ones(len(records), dtype=bool))
    under = tp + records.positives.sum() - claims(records.positives)
    recall = np.where(under > 0, tp / np.maximum(under, 1), 1.0)
    return np.where(everything > 0, tp / np.maximum(everything, 1), 1.0), recall


def slow_pr(records: Records, protocol: Protocol, threshold: float) -> tuple[float, float]:
    tp = fp = fn = 0
    for kind, confidence, ciou in zip(records.kind, records.confidence, records.ciou, strict=True):
        right = ciou > protocol.gamma if protocol.strict_hits else ciou >= protocol.gamma
        if confidence >= threshold:
            if kind == "positive" and right:
                tp += 1
            else:
                fp += 1
        elif kind == "positive":
            fn += 1
    return (tp / (tp + fp) if tp + fp else 1.0), (tp / (tp + fn) if tp + fn else 1.0)


def slow_f1(pair: tuple[float, float]) -> float:
    p, r = pair
    return 2 * p * r / (p + r) if p + r else 0.0


@pytest.mark.parametrize("protocol", PROTOCOLS.values(), ids=str)
@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=30, deadline=None)
@given(records=some_records(), seed=st.integers(0, 99))
def test_order_and_sharding_never_change_a_number(name: str, protocol: Protocol, records: Records, seed: int) -> None:
    module = registry.load("metric", name)
    order = np.random.default_rng(seed).permutation(len(records))
    shards = Records.concat([records.where(part) for part in np.array_split(order, 1 + seed % 5)])
    expected, got = module.compute(records, protocol), module.compute(shards, protocol)
    assert list(got) == list(expected)
    np.testing.assert_array_equal(list(got.values()), list(expected.values()))
    for value in got.values():
        assert np.isnan(value) or module.RANGE[0] <= value <= module.RANGE[1] + 1e-12


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=30, deadline=None)
@given(records=some_records(), steps=st.lists(st.floats(0.01, 100), min_size=9, max_size=9), low=st.floats(-1e3, 1e3))
def test_a_rising_change_of_the_confidence_never_changes_a_number(
    name: str, records: Records, steps: list[float], low: float
) -> None:
    rising = low + np.cumsum(steps)
    changed = replace(records, confidence=rising[(8 * records.confidence).astype(int)])
    module = registry.load("metric", name)
    for protocol in (EXACT, OFFICIAL):
        expected, got = module.compute(records, protocol), module.compute(changed, protocol)
        np.testing.assert_array_equal(list(got.values()), list(expected.values()))


@pytest.mark.parametrize("protocol", PROTOCOLS.values(), ids=str)
@settings(max_examples=60, deadline=None)
@given(records=some_records(positives=1))
def test_curves_equal_those_of_binary_searches_to_the_last_digit(protocol: Protocol, records: Records) -> None:
    distinct = np.unique(records.confidence)[::-1]
    ascending = np.sort(records.confidence)
    precision, recall = searched(records, protocol, distinct)
    for got, expected in zip(average_precision.curve(records, protocol), (precision, recall, distinct), strict=True):
        np.testing.assert_array_equal(got, expected)
    looked_at = distinct
    ap = np.sum(precision * np.diff(recall, prepend=0.0))
    if protocol.average_precision == "official":
        precision, recall = searched(records, protocol, ascending[:-1][:: -max(1, len(records) // 200)])
        later = np.maximum.accumulate(precision[::-1])[::-1]
        ap = np.sum(later[:-1] * np.diff(recall))
    assert average_precision.compute(records, protocol)["ap"] == ap
    if protocol.f1 == "official":
        looked_at = ascending[:: max(1, len(records) // 10)][::-1]
    precision, recall = searched(records, protocol, looked_at)
    f1, thresholds = average_precision.f1_curve(records, protocol)
    np.testing.assert_array_equal(thresholds, looked_at)
    both = precision + recall
    np.testing.assert_array_equal(f1, np.divide(2 * precision * recall, both, out=np.zeros_like(both), where=both > 0))


@pytest.mark.parametrize("protocol", [EXACT, OFFICIAL], ids=str)
@pytest.mark.parametrize("distinct", [7, 400, 100000])
def test_curves_equal_those_of_binary_searches_on_thousands_of_clips(protocol: Protocol, distinct: int) -> None:
    random = np.random.default_rng(0)
    n = 5158
    kind = random.choice(["positive", "easy"], n)
    ciou = np.where(kind == "positive", random.random(n), np.nan)
    texts = np.array([f"c{i}" for i in range(n)]), kind, np.array([""] * n)
    records = Records(*texts, np.zeros(n), random.integers(0, distinct, n) / distinct, ciou)
    steps = np.sort(records.confidence)[:-1][:: -(n // 200)]
    at = average_precision.ap_ranks(n, OFFICIAL)
    thresholds = average_precision.walk(average_precision.ranked(records, OFFICIAL), at)[2]
    np.testing.assert_array_equal(thresholds, steps)
    precision, recall = searched(records, protocol, steps)
    later = np.maximum.accumulate(precision[::-1])[::-1]
    official = np.sum(later[:-1] * np.diff(recall))
    precision, recall = searched(records, protocol, np.unique(records.confidence)[::-1])
    full = np.sum(precision * np.diff(recall, prepend=0.0))
    expected = full if protocol is EXACT else official
    assert average_precision.compute(records, protocol)["ap"] == expected


@pytest.mark.parametrize("strict", [False, True])
@settings(max_examples=60, deadline=None)
@given(records=some_records(positives=1))
def test_full_average_precision_equals_a_loop_over_thresholds(strict: bool, records: Records) -> None:
    protocol = replace(EXACT, strict_hits=strict)
    total, before = 0.0, 0.0
    for threshold in sorted(set(records.confidence), reverse=True):
        p, r = slow_pr(records, protocol, threshold)
        total, before = total + p * (r - before), r
    assert average_precision.compute(records, protocol)["ap"] == pytest.approx(total, abs=1e-12)


@settings(max_examples=60, deadline=None)
@given(records=some_records(positives=1))
def test_official_average_precision_equals_a_loop(records: Records) -> None:
    ordered = sorted(records.confidence)
    points = [slow_pr(records, OFFICIAL, t) for t in reversed(ordered[:-1])]  # fewer than 400 clips: every one
    total = 0.0
    for i in range(len(points) - 1):
        total += max(p for p, _ in points[i:]) * (points[i + 1][1] - points[i][1])
    assert average_precision.compute(records, OFFICIAL)["ap"] == pytest.approx(total, abs=1e-12)


@settings(max_examples=60, deadline=None)
@given(records=some_records(positives=1))
def test_max_f1_equals_a_loop(records: Records) -> None:
    full = max(slow_f1(slow_pr(records, EXACT, t)) for t in records.confidence)
    assert average_precision.compute(records, EXACT)["max_f1"] == pytest.approx(full, abs=1e-12)
    few = sorted(records.confidence)[:: max(1, len(records) // 10)]
    official = max(slow_f1(slow_pr(records, OFFICIAL, t)) for t in few)
    assert average_precision.compute(records, OFFICIAL)["max_f1"] == pytest.approx(official, abs=1e-12)


@settings(max_examples=60, deadline=None)
@given(records=some_records(positives=1))
def test_max_f1_is_never_under_its_floor(records: Records) -> None:
    for protocol in PROTOCOLS.values():
        f1, thresholds = average_precision.f1_curve(records, protocol)
        value, threshold = f1.max(), float(thresholds[f1.argmax()])
        assert value >= average_precision.f1_floor(records, protocol) - 1e-12
        assert slow_f1(slow_pr(records, protocol, threshold)) == pytest.approx(value, abs=1e-12)


@settings(max_examples=60, deadline=None)
@given(records=some_records(positives=1))
def test_loc_acc_and_auc_equal_loops(records: Records) -> None:
    cious = records.ciou[records.positives]
    values = loc_acc.compute(records, EXACT)
    assert values["loc_acc"] == sum(u >= 0.5 for u in cious) / len(cious)
    shares = [sum(u >= 0.05 * i for u in cious) / len(cious) for i in range(21)]
    area = sum((a + b) / 2 * 0.05 for a, b in pairwise(shares))
    assert values["auc"] == pytest.approx(area, abs=1e-12)


@settings(max_examples=60, deadline=None)
@given(records=some_records(positives=1))
def test_average_precision_equals_sklearn_when_every_positive_is_found(records: Records) -> None:
    found = replace(records, ciou=np.where(records.positives, 1.0, np.nan))
    expected = average_precision_score(records.positives, records.confidence)
    assert average_precision.compute(found, EXACT)["ap"] == pytest.approx(expected, abs=1e-12)


@settings(max_examples=60, deadline=None)
@given(records=some_records(positives=1))
def test_auroc_equals_sklearn(records: Records) -> None:
    if records.positives.all():
        return
    expected = roc_auc_score(records.positives, records.confidence)
    assert rejection.compute(records, EXACT)["auroc"] == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("strict", [False, True])
@settings(max_examples=60, deadline=None)
@given(records=some_records(positives=1))
def test_coco_ap_equals_sklearn_on_hits_times_loc_acc(strict: bool, records: Records) -> None:
    protocol = replace(EXACT, strict_hits=strict)
    hit = hits(records, protocol)
    share = loc_acc.compute(records, protocol)["loc_acc"]
    expected = average_precision_score(hit, records.confidence) * share if hit.any() else 0.0
    value = average_precision.compute(records, protocol)["ap_coco"]
    assert value == pytest.approx(expected, abs=1e-12)
    assert value <= share + 1e-12


@settings(max_examples=60, deadline=None)
@given(records=some_records(positives=1))
def test_both_average_precisions_are_equal_when_every_positive_is_found(records: Records) -> None:
    found = replace(records, ciou=np.where(records.positives, 1.0, np.nan))
    expected = average_precision.compute(found, EXACT)["ap"]
    assert average_precision.compute(found, EXACT)["ap_coco"] == pytest.approx(expected, abs=1e-12)


@settings(max_examples=60, deadline=None)
@given(records=some_records(positives=1))
def test_a_perfect_answer_scores_one_and_the_worst_zero(records: Records) -> None:
    perfect, worst = (
        replace(
            records,
            ciou=np.where(records.positives, value, np.nan),
            by_size=np.where(np.isnan(records.by_size), np.nan, value),
        )
        for value in (1.0, 0.0)
    )
    perfect = replace(perfect, confidence=records.confidence + 2 * records.positives)
    for module in (average_precision, sweeps, sizes):
        best = [value for value in module.compute(perfect, EXACT).values() if not np.isnan(value)]
        assert best == pytest.approx([1.0] * len(best), abs=1e-12)
        assert all(v == 0 for v in module.compute(worst, EXACT).values() if not np.isnan(v))
    if not records.positives.all():
        assert rejection.compute(perfect, EXACT) == {"auroc": 1.0, "false_alarm_at_90": 0.0}


@settings(max_examples=60, deadline=None)
@given(records=some_records(positives=1))
def test_a_stricter_hit_is_never_easier(records: Records) -> None:
    _, aps = sweeps.over_ious(records, EXACT)
    assert (np.diff(aps) <= 1e-12).all()
    assert loc_acc.compute(records, get("paper"))["loc_acc"] <= loc_acc.compute(records, EXACT)["loc_acc"]


@settings(max_examples=60, deadline=None)
@given(records=some_records())
def test_the_sizes_share_out_the_positives(records: Records) -> None:
    counts = sizes.counts(records, EXACT)
    assert sum(counts.values()) == records.positives.sum()
    numbers = sizes.compute(records, EXACT)
    found = sum(count * numbers[f"loc_acc/{name}"] for name, count in counts.items() if count)
    assert found == pytest.approx(hits(records, EXACT).sum(), abs=1e-9)


@settings(max_examples=60, deadline=None)
@given(records=some_records(), gamma=st.integers(0, 20), strict=st.booleans())
def test_reaching_gamma_is_what_makes_a_hit(records: Records, gamma: int, strict: bool) -> None:
    protocol = replace(EXACT, gamma=gamma / 20, strict_hits=strict)
    expected = [
        p and (u > gamma / 20 if strict else u >= gamma / 20)
        for p, u in zip(records.positives, records.ciou, strict=True)
    ]
    np.testing.assert_array_equal(hits(records, protocol), expected)
    np.testing.assert_array_equal(
        hits(records, protocol), reached(records.ciou, replace(protocol, gamma=0.1), gamma / 20)
    )
