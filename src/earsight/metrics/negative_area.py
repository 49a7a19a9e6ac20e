"""How much of the picture is marked where there is no source, and that weighed against how well sources are marked.

pIA of a negative = pixels that the protocol keeps / all pixels. pia = its mean over the negatives, pia/KIND that of one
kind; lower is better. auc_n = area, by the trapezoid rule, under the share of negatives with pIA <= 0.05 i, i = 0..20;
higher is better. mean_ciou = mean cIoU of the positives.
f_loc = harmonic mean of mean_ciou and 1 - (mean over the kinds of pIA). f_auc = harmonic mean of the AUC of loc_acc.py
and the mean over the kinds of auc_n. A harmonic mean of 0 and 0 is 0.
These numbers are made for pixel thresholds that all maps share (`absolute`, `universal`). A threshold that follows each
map, such as `top_half`, marks the same share of every picture, so pia then says nothing of the model.
In [0, 1]. Undefined (NaN): mean_ciou without positives; pia and auc_n without negatives, or when the marked pixels of a
negative were not measured; f_loc and f_auc when a part is. The kind "unknown" gives no pia/KIND, but counts as a kind
in f_loc and f_auc.

>>> from earsight.protocols import get
>>> kind, ciou = np.array(["positive", "easy", "hard"]), np.array([0.5, np.nan, np.nan])
>>> r = Records(np.array(list("abc")), kind, np.array([""] * 3), np.zeros(3), np.zeros(3), ciou,
...     predicted=np.array([9.0, 0.0, 25088.0]))
>>> {name: round(value, 6) for name, value in compute(r, get("exact:threshold=absolute")).items()}
{'mean_ciou': 0.5, 'pia': 0.25, 'auc_n': 0.7625, 'pia/easy': 0.0, 'pia/hard': 0.5, 'f_loc': 0.6, 'f_auc': 0.621845}
"""

from __future__ import annotations

import numpy as np

from earsight.metrics.base import F64, Records
from earsight.metrics.loc_acc import GRID, auc
from earsight.metrics.negative_kinds import UNKNOWN
from earsight.protocols import Protocol

RANGE = (0.0, 1.0)
HIGHER_IS_BETTER = {"mean_ciou": True, "pia": False, "auc_n": True, "pia/*": False, "f_loc": True, "f_auc": True}


def compute(records: Records, protocol: Protocol) -> dict[str, float]:
    cious = np.sort(records.ciou[records.positives])  # sorted, since the last digit of a sum depends on the order
    mean_ciou = float(cious.mean()) if len(cious) else float("nan")
    negative = ~records.positives
    share = records.predicted[negative] / protocol.size**2
    kind = records.kind[negative]
    names = np.unique(kind).tolist()
    pias = [_mean(share[kind == name]) for name in names]
    auc_ns = [auc_n(share[kind == name]) for name in names]
    return {
        "mean_ciou": mean_ciou,
        "pia": _mean(share),
        "auc_n": auc_n(share),
        **{f"pia/{name}": pia for name, pia in zip(names, pias, strict=True) if name != UNKNOWN},
        "f_loc": _harmonic(mean_ciou, 1 - _mean(np.array(pias))),
        "f_auc": _harmonic(auc(cious), _mean(np.array(auc_ns))),
    }


def auc_n(share: F64) -> float:
    """Area under the part of the negatives whose marked share is at most t, for t from 0 to 1; NaN when undefined."""
    if len(share) == 0 or np.isnan(share).any():
        return float("nan")
    below = np.searchsorted(np.sort(share), GRID, side="right") / len(share)
    return float(np.trapezoid(below, GRID))


def _mean(values: F64) -> float:
    return float(np.sort(values).mean()) if len(values) else float("nan")


def _harmonic(a: float, b: float) -> float:
    return 0.0 if a + b == 0 else 2 * a * b / (a + b)
