"""Rejection: how well the confidence alone tells visible sources from absent ones, wherever it points.

AUROC = share of (positive, negative) pairs in which the positive has the higher confidence, equal ones counting half.
False alarms at 90% recall: with the highest threshold at which at least 90% of the positives are accepted, the share of
negatives accepted too. Both are undefined (NaN) without positives or without negatives.

>>> from earsight.protocols import get
>>> kind = np.array(["positive", "positive", "easy", "hard"])
>>> confidence = np.array([0.9, 0.5, 0.5, 0.1])
>>> ciou = np.array([1, 1, np.nan, np.nan])
>>> compute(Records(np.array(list("abcd")), kind, np.array([""] * 4), ciou, confidence, ciou), get("exact"))
{'auroc': 0.875, 'false_alarm_at_90': 0.5}
"""

from __future__ import annotations

import numpy as np

from earsight.metrics.base import F64, OfCounts, Records
from earsight.protocols import Protocol
from earsight.types import I64

RANGE = (0.0, 1.0)
HIGHER_IS_BETTER = {"auroc": True, "false_alarm_at_90": False}


def compute(records: Records, protocol: Protocol) -> dict[str, float]:
    auroc, false_alarm = separation(records.confidence[records.positives], records.confidence[~records.positives])
    return {"auroc": auroc, "false_alarm_at_90": false_alarm}


def of_counts(records: Records, protocol: Protocol) -> OfCounts:
    positive, negative = np.flatnonzero(records.positives), np.flatnonzero(~records.positives)
    if len(positive) == 0 or len(negative) == 0:
        return lambda counts: {"auroc": np.nan}
    negative = negative[np.argsort(records.confidence[negative])]
    lower, not_higher = (
        np.searchsorted(records.confidence[negative], records.confidence[positive], side=side)
        for side in ("left", "right")
    )

    def numbers(counts: I64) -> dict[str, float]:
        below, drawn = np.append(0, np.cumsum(counts[negative])), counts[positive]
        twice = (below[lower] + below[not_higher]) @ drawn  # of the pairs that positives win, which is whole
        return {"auroc": float(twice / 2 / (drawn.sum() * below[-1]))}

    return numbers


def separation(positive: F64, negative: F64) -> tuple[float, float]:
    """AUROC and false alarms at 90% recall of these confidences; NaN when either side is empty."""
    if len(positive) == 0 or len(negative) == 0:
        return float("nan"), float("nan")
    positive, negative = np.sort(positive), np.sort(negative)
    below = np.searchsorted(negative, positive, side="left").sum()
    equal = np.searchsorted(negative, positive, side="right").sum() - below
    accepted = -(-9 * len(positive) // 10)  # whole numbers: 0.9 * n rounds up too far for some n
    threshold = positive[len(positive) - accepted]
    auroc = (below + 0.5 * equal) / (len(positive) * len(negative))
    return float(auroc), float(np.mean(negative >= threshold))
