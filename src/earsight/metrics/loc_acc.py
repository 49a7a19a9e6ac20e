"""Localization accuracy: the share of positives found in the right place, and the area under it over cIoU thresholds.

LocAcc = #(positives with cIoU >= gamma) / #positives ("> gamma" where the protocol is strict). The confidence plays no
part. AUC = area, by the trapezoid rule, under the share of positives with cIoU >= 0.05 i for i = 0..20; the grid is
0.05 * i in floating point in every protocol, as all published numbers use it, so a cIoU of 0.3 misses i = 6.
Undefined (NaN) without positives.

>>> from earsight.protocols import get
>>> u = np.array([0.1, 0.3, 0.5, 0.75, 1.0])
>>> r = Records(np.array(list("abcde")), np.array(["positive"] * 5), np.array([""] * 5), u, u, u)
>>> {name: round(value, 6) for name, value in compute(r, get("exact")).items()}
{'loc_acc': 0.6, 'auc': 0.54}
"""

from __future__ import annotations

import numpy as np

from earsight.metrics.base import F64, Records, hits, reached
from earsight.protocols import Protocol

RANGE = (0.0, 1.0)
HIGHER_IS_BETTER = {"loc_acc": True, "auc": True}
GRID: F64 = 0.05 * np.arange(21, dtype=np.float64)


def compute(records: Records, protocol: Protocol) -> dict[str, float]:
    positives = int(records.positives.sum())
    if positives == 0:
        return {"loc_acc": np.nan, "auc": np.nan}
    found = int(hits(records, protocol).sum())
    return {"loc_acc": found / positives, "auc": auc(records.ciou[records.positives])}


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
