"""Localization accuracy: the share of positives found in the right place; its area under the curve; the pointing game.

LocAcc = #(positives with cIoU >= gamma) / #positives ("> gamma" where the protocol is strict). The confidence plays no
part. AUC = area, by the trapezoid rule, under the share of positives with cIoU >= 0.05 i for i = 0..20; the grid is
0.05 * i in floating point in every protocol, as all published numbers use it, so a cIoU of 0.3 misses i = 6.
pointing = mean, over positives, of the ground truth's weight at the map's highest pixel: with one annotator, how often
the peak is inside a box. It asks for no extent, so it separates a model that finds the source and covers it badly from
one that does not find it. Where several pixels are highest, their mean counts.
loc_acc_of/CLASS and pointing_of/CLASS: LocAcc and pointing of the positives of that class. A class without positives,
and clips whose class is not known, give no number.
In [0, 1]. Undefined (NaN): all without positives; pointing for records that were made without it.

>>> from earsight.protocols import get
>>> u = np.array([0.1, 0.3, 0.5, 0.75, 1.0])
>>> label = np.array(["", "", "dog", "dog", "owl"])
>>> r = Records(np.array(list("abcde")), np.array(["positive"] * 5), label, u, u, u, peak=np.array([0.0, 0, 0, 1, 1]))
>>> numbers = compute(r, get("exact"))
>>> {name: round(numbers[name], 6) for name in ("loc_acc", "auc", "pointing", "loc_acc_of/dog", "pointing_of/dog")}
{'loc_acc': 0.6, 'auc': 0.54, 'pointing': 0.4, 'loc_acc_of/dog': 1.0, 'pointing_of/dog': 0.5}
"""

from __future__ import annotations

import numpy as np

from earsight.metrics.base import F64, OfCounts, Records, hits, reached
from earsight.protocols import Protocol
from earsight.types import I64

RANGE = (0.0, 1.0)
HIGHER_IS_BETTER = {"loc_acc": True, "auc": True, "pointing": True, "loc_acc_of/*": True, "pointing_of/*": True}
GRID: F64 = 0.05 * np.arange(21, dtype=np.float64)


def compute(records: Records, protocol: Protocol) -> dict[str, float]:
    positive = records.positives
    if not positive.any():
        return {"loc_acc": np.nan, "auc": np.nan, "pointing": np.nan}
    hit, peak, label = hits(records, protocol)[positive], records.peak[positive], records.label[positive]
    numbers = {
        "loc_acc": int(hit.sum()) / len(hit),
        "auc": auc(records.ciou[positive]),
        "pointing": float(peak.mean()),
    }
    for name in class_counts(records):
        numbers[f"loc_acc_of/{name}"] = float(hit[label == name].mean())
        # Weights of ground truth may be any fraction; sorted, so that their order never changes a digit.
        numbers[f"pointing_of/{name}"] = float(np.sort(peak[label == name]).mean())
    return numbers


def of_counts(records: Records, protocol: Protocol) -> OfCounts:
    positive = np.flatnonzero(records.positives)
    if len(positive) == 0:
        return lambda counts: {"loc_acc": np.nan, "auc": np.nan}
    hit = hits(records, protocol)[positive].astype(np.int64)
    thresholds = np.searchsorted(GRID, records.ciou[positive], side="right")  # how many of them each clip reaches

    def numbers(counts: I64) -> dict[str, float]:
        drawn = counts[positive]
        at = np.bincount(thresholds, drawn, minlength=len(GRID) + 1)
        share = at[::-1].cumsum()[-2::-1] / drawn.sum()
        return {"loc_acc": float((drawn @ hit) / drawn.sum()), "auc": float(np.trapezoid(share, GRID))}

    return numbers


def class_counts(records: Records) -> dict[str, int]:
    """How many positives each known class has, in the order of the alphabet."""
    names, number = np.unique(records.label[records.positives], return_counts=True)
    return {name: int(count) for name, count in zip(names.tolist(), number, strict=True) if name}


def auc(cious: F64) -> float:
    """Area under the share of cIoUs at or above each grid value; NaN when there are none."""
    if len(cious) == 0:
        return float("nan")
    ordered = np.sort(cious)
    share = (len(ordered) - np.searchsorted(ordered, GRID, side="left")) / len(ordered)
    return float(np.trapezoid(share, GRID))


def best_ciou(area: F64, protocol: Protocol, support: F64 | None = None) -> F64:
    """The highest cIoU that a mask of the protocol's size can reach with ground truth of these areas.

    With a threshold policy that keeps k pixels and truth of area A: A/k when A <= k, else k/A. `support` counts the
    pixels with any truth where weights below 1 make that more than the area; the answer is then an upper bound.
    """
    area = np.asarray(area, dtype=np.float64)
    kept = protocol.kept
    if kept is None:
        return (area > 0).astype(np.float64)
    inside = np.minimum(area, kept)
    outside = np.maximum(kept - (area if support is None else support), 0)
    below = (area if protocol.ciou == "union" else inside) + outside
    return np.divide(inside, below, out=np.zeros_like(area), where=below > 0)


def ceiling(area: F64, protocol: Protocol, support: F64 | None = None) -> float:
    """The best LocAcc that the protocol's threshold policy allows on positives of these areas; NaN when none.

    >>> from earsight.protocols import get
    >>> ceiling(np.array([100.0, 12544.0, 50176.0]), get("exact"))
    0.6666666666666666
    """
    if len(area) == 0:
        return float("nan")
    return float(np.mean(reached(best_ciou(area, protocol, support), protocol)))
