"""LocAcc and AP over thresholds and sizes: when a hit must be more exact, and when every prediction has the same size.

ap/iou_05 ... ap/iou_95: the protocol's AP with gamma 0.05, 0.10, ... 0.95 in place of its own. ap/iou_mean: the mean of
those from 0.50 to 0.95, as COCO averages. loc_acc/iou_75: LocAcc with gamma 0.75, which the published code reports too.
loc_acc/size_10 ... loc_acc/size_90 and ap/size_10 ... ap/size_90, the paper's figure on source size: the protocol's
LocAcc and AP with the cIoU of the highest 10%, ... 90% of the pixels in place of the cIoU of its own mask. The
confidence stays the same.
In [0, 1]. Undefined (NaN) without positives, and by size when cIoUs at these sizes were not measured.

>>> from earsight.protocols import get
>>> kind, ciou = np.array(["positive", "positive", "easy"]), np.array([0.8, 0.6, np.nan])
>>> at = np.array([np.linspace(0.1, 0.9, 9), np.linspace(0.9, 0.1, 9), np.full(9, np.nan)])
>>> sources, confidence = np.array([40000.0, 2000, 0]), np.array([0.9, 0.5, 0.1])
>>> r = Records(np.array(list("abc")), kind, np.array([""] * 3), sources, confidence, ciou, by_size=at)
>>> numbers = compute(r, get("exact"))
>>> [round(numbers[name], 6) for name in ("ap/iou_50", "ap/iou_75", "ap/iou_95", "ap/iou_mean", "loc_acc/iou_75")]
[1.0, 0.75, 0.0, 0.6, 0.5]
>>> numbers["loc_acc/size_10"], numbers["loc_acc/size_50"], numbers["ap/size_10"], numbers["ap/size_90"]
(0.5, 1.0, 0.5, 0.75)
>>> over_sizes(r, get("exact"))["huge"].tolist()
[0.0, 0.0, 0.0, 0.0, 1.0, 1.0, 1.0, 1.0, 1.0]
"""

from __future__ import annotations

import numpy as np

from earsight.metrics.average_precision import area, ranked
from earsight.metrics.base import F64, SIZES, Records, reached
from earsight.metrics.sizes import NAMES, buckets
from earsight.protocols import Protocol

RANGE = (0.0, 1.0)
IOU_PERCENT = tuple(range(5, 100, 5))
SIZE_PERCENT = tuple(round(100 * size) for size in SIZES)
HIGHER_IS_BETTER = {
    **{f"ap/iou_{percent:02d}": True for percent in IOU_PERCENT},
    "ap/iou_mean": True,
    "loc_acc/iou_75": True,
    **{f"{number}/size_{percent}": True for number in ("loc_acc", "ap") for percent in SIZE_PERCENT},
}


def compute(records: Records, protocol: Protocol) -> dict[str, float]:
    thresholds, aps = over_ious(records, protocol)
    numbers = {f"ap/iou_{percent:02d}": float(ap) for percent, ap in zip(IOU_PERCENT, aps, strict=True)}
    numbers["ap/iou_mean"] = float(aps[thresholds >= 0.5].mean())
    positives = int(records.positives.sum())
    found = int((reached(records.ciou, protocol, 0.75) & records.positives).sum())
    numbers["loc_acc/iou_75"] = found / positives if positives else np.nan
    for number, values in (("loc_acc", _loc_acc(records, protocol)), ("ap", _ap(records, protocol))):
        numbers |= {f"{number}/size_{percent}": float(v) for percent, v in zip(SIZE_PERCENT, values, strict=True)}
    return numbers


def over_ious(records: Records, protocol: Protocol) -> tuple[F64, F64]:
    """IoU thresholds (19,) from 0.05 to 0.95, and the AP at each."""
    thresholds = np.array(IOU_PERCENT) / 100
    hit = np.stack([reached(records.ciou, protocol, gamma) for gamma in thresholds]) & records.positives
    return thresholds, area(ranked(records, protocol, hit), protocol)


def over_sizes(records: Records, protocol: Protocol) -> dict[str, F64]:
    """LocAcc at each prediction size, (9,), for "all" sources and for each bucket of sizes.py."""
    bucket = buckets(records, protocol)
    some = {name: records.where(bucket == name) for name in NAMES}
    return {name: _loc_acc(clips, protocol) for name, clips in {"all": records, **some}.items()}


def _loc_acc(records: Records, protocol: Protocol) -> F64:
    if not _measured(records):
        return np.full(len(SIZES), np.nan)
    return np.asarray(reached(records.by_size[records.positives], protocol).mean(axis=0))


def _ap(records: Records, protocol: Protocol) -> F64:
    if not _measured(records):
        return np.full(len(SIZES), np.nan)
    hit = reached(records.by_size.T, protocol) & records.positives
    return area(ranked(records, protocol, hit), protocol)


def _measured(records: Records) -> bool:
    """Whether there are positives, and each has its cIoU at every size."""
    here = records.by_size[records.positives]
    return here.size > 0 and bool(np.isfinite(here).all())
