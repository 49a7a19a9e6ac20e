"""Average precision with COCO's recall: a source pointed at in the wrong place counts as missed.

AP_coco = sum over distinct confidences, highest first, of P_i (R_i - R_(i-1)) with R_0 = 0, P = TP / claims and
R = TP / all positives; the full curve without interpolation in every protocol. The recall of `ap` counts positives
that make no claim as missed and no others, so it always ends at 1; this one ends at LocAcc, which is therefore its
upper bound. It equals scikit-learn's average_precision_score of (hit, confidence) times LocAcc.
In [0, 1]. Undefined (NaN) without positives.

>>> from earsight.protocols import get
>>> kind = np.array(["positive", "positive", "easy", "positive", "easy", "positive"])
>>> ciou = np.array([0.8, 0.6, np.nan, 0.3, np.nan, 0.7])
>>> confidence = np.array([0.9, 0.8, 0.7, 0.6, 0.5, 0.4])
>>> r = Records(np.array(list("abcdef")), kind, np.array([""] * 6), np.zeros(6), confidence, ciou)
>>> compute(r, get("exact"))
{'ap_coco': 0.625}
"""

from __future__ import annotations

import numpy as np

from earsight.metrics.average_precision import ranked, true_positives
from earsight.metrics.base import F64, Records
from earsight.protocols import Protocol

RANGE = (0.0, 1.0)
HIGHER_IS_BETTER = {"ap_coco": True}


def compute(records: Records, protocol: Protocol) -> dict[str, float]:
    if not records.positives.any():
        return {"ap_coco": np.nan}
    precision, recall, _ = curve(records, protocol)
    return {"ap_coco": float(np.sum(precision * np.diff(recall, prepend=0.0)))}


def curve(records: Records, protocol: Protocol) -> tuple[F64, F64, F64]:
    """Precision, COCO recall and threshold at every distinct confidence, highest first; needs positives."""
    clips = ranked(records, protocol)
    tp, last = true_positives(clips)
    return tp / (last + 1), tp / clips.positive.sum(), clips.confidence[last]
