"""What holds for every metric on any records, and each metric against a slow loop written from its definition."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import average_precision_score, roc_auc_score

from earsight import registry
from earsight.metrics import average_precision, loc_acc, max_f1, rejection
from earsight.metrics.base import Records
from earsight.protocols import PROTOCOLS, Protocol, get

EXACT, OFFICIAL = get("exact"), get("official")
NAMES = registry.names("metric")


@st.composite
def some_records(draw: st.DrawFn, most: int = 30, positives: int = 0) -> Records:
    n = draw(st.integers(max(1, positives), most))
    kinds = [draw(st.sampled_from(["positive", "easy", "hard", "real"])) for _ in range(n)]
    kinds[:positives] = ["positive"] * positives
    # Few distinct values, so that ties are common.
    confidence = [draw(st.integers(0, 8)) / 8 for _ in range(n)]
    cious = [draw(st.integers(0, 20)) / 20 if kind == "positive" else np.nan for kind in kinds]
    ids = np.array([f"c{i}" for i in range(n)])
    texts = np.array(kinds), np.array([""] * n)
    return Records(ids, *texts, np.zeros(n), np.array(confidence), np.array(cious))


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


@pytest.mark.parametrize("name", NAMES)
def test_a_metric_says_its_range_and_direction(name: str, toy: Records) -> None:
    module = registry.load("metric", name)
    values = module.compute(toy, EXACT)
    assert set(values) == set(module.HIGHER_IS_BETTER)
    assert all(module.RANGE[0] <= value <= module.RANGE[1] for value in values.values())
    assert registry.summary("metric", name)


@pytest.mark.parametrize("protocol", PROTOCOLS.values(), ids=str)
@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=30, deadline=None)
@given(records=some_records(), seed=st.integers(0, 99))
def test_order_and_sharding_never_change_a_number(name: str, protocol: Protocol, records: Records, seed: int) -> None:
    module = registry.load("metric", name)
    order = np.random.default_rng(seed).permutation(len(records))
    cut = seed % (len(records) + 1)
    shards = Records.concat([records.where(order[:cut]), records.where(order[cut:])])
    expected, got = module.compute(records, protocol), module.compute(shards, protocol)
    np.testing.assert_array_equal(list(got.values()), list(expected.values()))
    for value in got.values():
        assert np.isnan(value) or module.RANGE[0] <= value <= module.RANGE[1] + 1e-12


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
    assert max_f1.compute(records, EXACT)["max_f1"] == pytest.approx(full, abs=1e-12)
    few = sorted(records.confidence)[:: max(1, len(records) // 10)]
    official = max(slow_f1(slow_pr(records, OFFICIAL, t)) for t in few)
    assert max_f1.compute(records, OFFICIAL)["max_f1"] == pytest.approx(official, abs=1e-12)


@settings(max_examples=60, deadline=None)
@given(records=some_records(positives=1))
def test_max_f1_is_never_under_its_floor(records: Records) -> None:
    for protocol in PROTOCOLS.values():
        value, threshold = max_f1.best(records, protocol)
        assert value >= max_f1.floor(records, protocol) - 1e-12
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
    found = Records(
        records.id, records.kind, records.label, records.area, records.confidence,
        np.where(records.positives, 1.0, np.nan),
    )  # fmt: skip
    expected = average_precision_score(records.positives, records.confidence)
    assert average_precision.compute(found, EXACT)["ap"] == pytest.approx(expected, abs=1e-12)


@settings(max_examples=60, deadline=None)
@given(records=some_records(positives=1))
def test_auroc_equals_sklearn(records: Records) -> None:
    if records.positives.all():
        return
    expected = roc_auc_score(records.positives, records.confidence)
    assert rejection.compute(records, EXACT)["auroc"] == pytest.approx(expected, abs=1e-12)
