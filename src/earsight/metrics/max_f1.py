"""The highest F1 over confidence thresholds, and the floor that accepting everything already reaches.

F1 = 2 P R / (P + R), 0 when both are 0. all: over every distinct confidence. official: over the ascending confidences
0, s, 2s, ... with s = max(1, N // 10), which are 10 or 11.
Floor: accepting everything has R = 1 and P = p = TP / N, so max-F1 >= 2p / (1 + p) whatever the confidence says.
Undefined (NaN) without positives.

>>> from earsight.protocols import get
>>> kind = np.array(["positive", "positive", "easy", "positive", "easy", "positive"])
>>> ciou = np.array([0.8, 0.6, np.nan, 0.3, np.nan, 0.7])
>>> confidence = np.array([0.9, 0.8, 0.7, 0.6, 0.5, 0.4])
>>> r = Records(np.array(list("abcdef")), kind, np.array([""] * 6), np.zeros(6), confidence, ciou)
>>> round(compute(r, get("exact"))["max_f1"], 6), best(r, get("exact"))[1], round(floor(r, get("exact")), 6)
(0.666667, 0.8, 0.666667)
"""

from __future__ import annotations

import numpy as np

from earsight.metrics.average_precision import Ranked, Weighted, ranked, walk
from earsight.metrics.base import F64, OfCounts, Records, hits
from earsight.protocols import Protocol
from earsight.types import I64

RANGE = (0.0, 1.0)
HIGHER_IS_BETTER = {"max_f1": True}


def compute(records: Records, protocol: Protocol) -> dict[str, float]:
    return {"max_f1": best(records, protocol)[0]}


def of_counts(records: Records, protocol: Protocol) -> OfCounts:
    if not records.positives.any():
        return lambda counts: {"max_f1": np.nan}
    clips, ranks = Weighted(records, protocol), _ranks(len(records), protocol)
    return lambda counts: {"max_f1": float(_f1(*clips.walk(counts, ranks)).max())}


def best(records: Records, protocol: Protocol) -> tuple[float, float]:
    """The highest F1 and the threshold that gives it (the highest such threshold); NaN without positives."""
    if not records.positives.any():
        return float("nan"), float("nan")
    f1, thresholds = curve(records, protocol)
    at = int(np.argmax(f1))
    return float(f1[at]), float(thresholds[at])


def curve(records: Records, protocol: Protocol) -> tuple[F64, F64]:
    """F1 and threshold at every confidence the protocol looks at, highest first."""
    return f1_of(ranked(records, protocol), protocol)


def f1_of(clips: Ranked, protocol: Protocol) -> tuple[F64, F64]:
    """F1 (..., K) and threshold (K,) of ranked clips, highest threshold first."""
    precision, recall, thresholds = walk(clips, _ranks(len(clips.confidence), protocol))
    return _f1(precision, recall), thresholds


def floor(records: Records, protocol: Protocol) -> float:
    """F1 of accepting everything, 2p / (1 + p) with p = TP / N; NaN without positives."""
    if not records.positives.any():
        return float("nan")
    p = int(hits(records, protocol).sum()) / len(records)
    return 2 * p / (1 + p)


def _ranks(count: int, protocol: Protocol) -> I64 | None:
    """The ranks at which the protocol looks, of so many clips; None for all."""
    return np.arange(count - 1, -1, -max(1, count // 10))[::-1] if protocol.f1 == "official" else None


def _f1(precision: F64, recall: F64) -> F64:
    both = precision + recall
    return np.divide(2 * precision * recall, both, out=np.zeros_like(both), where=both > 0)
