"""Average precision at every IoU threshold: how fast a score falls when a hit must be more exact.

ap/iou_05 ... ap/iou_95: the protocol's AP with gamma 0.05, 0.10, ... 0.95 in place of its own. ap/iou_mean: the mean of
those from 0.50 to 0.95, as COCO averages. loc_acc/iou_75: LocAcc with gamma 0.75, which the published code reports too.
In [0, 1]. Undefined (NaN) without positives.

>>> from earsight.protocols import get
>>> kind, ciou = np.array(["positive", "positive", "easy"]), np.array([0.8, 0.6, np.nan])
>>> r = Records(np.array(list("abc")), kind, np.array([""] * 3), np.zeros(3), np.array([0.9, 0.5, 0.1]), ciou)
>>> numbers = compute(r, get("exact"))
>>> [round(numbers[name], 6) for name in ("ap/iou_50", "ap/iou_75", "ap/iou_95", "ap/iou_mean", "loc_acc/iou_75")]
[1.0, 0.75, 0.0, 0.6, 0.5]
"""

from __future__ import annotations

import numpy as np

from earsight.metrics.average_precision import area, ranked
from earsight.metrics.base import F64, Records, reached
from earsight.protocols import Protocol

RANGE = (0.0, 1.0)
PERCENT = tuple(range(5, 100, 5))
HIGHER_IS_BETTER = {
    **{f"ap/iou_{percent:02d}": True for percent in PERCENT},
    "ap/iou_mean": True,
    "loc_acc/iou_75": True,
}


def compute(records: Records, protocol: Protocol) -> dict[str, float]:
    thresholds, aps = curve(records, protocol)
    numbers = {f"ap/iou_{percent:02d}": float(ap) for percent, ap in zip(PERCENT, aps, strict=True)}
    numbers["ap/iou_mean"] = float(aps[thresholds >= 0.5].mean())
    positives = int(records.positives.sum())
    found = int((reached(records.ciou, protocol, 0.75) & records.positives).sum())
    numbers["loc_acc/iou_75"] = found / positives if positives else np.nan
    return numbers


def curve(records: Records, protocol: Protocol) -> tuple[F64, F64]:
    """IoU thresholds (19,) from 0.05 to 0.95, and the AP at each."""
    thresholds = np.array(PERCENT) / 100
    hit = np.stack([reached(records.ciou, protocol, gamma) for gamma in thresholds]) & records.positives
    return thresholds, area(ranked(records, protocol, hit), protocol)
