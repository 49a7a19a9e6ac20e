"""Average precision over confidence: finding the source when it is visible, and staying silent when it is not.

full: AP = sum over distinct confidences, highest first, of P_i (R_i - R_(i-1)) with R_0 = 0; no interpolation.
official: the published code. Confidences in ascending order without the highest, walked down in steps of
max(1, N // 200); P_i becomes the highest precision from i on; AP = sum P_i (R_(i+1) - R_i). It leaves out the recall
reached at its first point, so equal confidences give 0.
Undefined (NaN) without positives.

>>> from earsight.protocols import get
>>> kind = np.array(["positive", "positive", "easy", "positive", "easy", "positive"])
>>> ciou = np.array([0.8, 0.6, np.nan, 0.3, np.nan, 0.7])
>>> confidence = np.array([0.9, 0.8, 0.7, 0.6, 0.5, 0.4])
>>> r = Records(np.array(list("abcdef")), kind, np.array([""] * 6), np.zeros(6), confidence, ciou)
>>> [round(compute(r, get(name))["ap"], 6) for name in ("exact", "official")]
[0.75, 0.277778]
"""

from __future__ import annotations

import numpy as np

from earsight.metrics.base import F64, Records, distinct_descending, precision_recall
from earsight.protocols import Protocol

RANGE = (0.0, 1.0)
HIGHER_IS_BETTER = {"ap": True}


def compute(records: Records, protocol: Protocol) -> dict[str, float]:
    if not records.positives.any():
        return {"ap": np.nan}
    if protocol.average_precision == "official":
        precision, recall = precision_recall(records, protocol, official_thresholds(records))
        later = np.maximum.accumulate(precision[::-1])[::-1]
        return {"ap": float(np.sum(later[:-1] * np.diff(recall)))}
    precision, recall, _ = curve(records, protocol)
    return {"ap": float(np.sum(precision * np.diff(recall, prepend=0.0)))}


def curve(records: Records, protocol: Protocol) -> tuple[F64, F64, F64]:
    """Precision, recall and threshold at every distinct confidence, highest first."""
    thresholds = distinct_descending(records)
    return (*precision_recall(records, protocol, thresholds), thresholds)


def official_thresholds(records: Records) -> F64:
    """The confidences at which the published code looks, highest first."""
    step = max(1, len(records) // 200)
    return np.sort(records.confidence)[:-1][::-step]
