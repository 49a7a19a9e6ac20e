"""Interactive localization: one picture, several sounds; a picture counts as found when each of its sources is.

Pictures are told by the names of their clips: PICTURE+SOUND shows PICTURE. Of the pictures that at least two positives
with different names show, iiou is the share in which every positive is a hit (cIoU >= gamma, or > gamma where the
protocol is strict): the mean over pictures of the minimum over their sounds. iauc is the area under that share over the
thresholds of loc_acc.py. A map that does not move with the sound finds one source and misses the others.
In [0, 1]. Undefined (NaN) without such pictures.

>>> from earsight.protocols import get
>>> ids = np.array(["a+dog", "a+cat", "b+dog", "b+cat", "c+cow"])
>>> ciou = np.array([0.6, 0.9, 0.8, 0.2, 1.0])
>>> r = Records(ids, np.array(["positive"] * 5), np.array([""] * 5), np.zeros(5), np.zeros(5), ciou)
>>> {name: round(value, 6) for name, value in compute(r, get("exact")).items()}
{'iiou': 0.5, 'iauc': 0.4}
"""

from __future__ import annotations

import numpy as np

from earsight.metrics.base import F64, Records, reached
from earsight.metrics.loc_acc import auc
from earsight.protocols import Protocol

RANGE = (0.0, 1.0)
HIGHER_IS_BETTER = {"iiou": True, "iauc": True}


def compute(records: Records, protocol: Protocol) -> dict[str, float]:
    return of_units(units(records), protocol)


def of_units(lowest: F64, protocol: Protocol) -> dict[str, float]:
    """The numbers of these pictures; one that is there several times counts as often."""
    found = float(np.mean(reached(lowest, protocol))) if len(lowest) else np.nan
    return {"iiou": found, "iauc": auc(lowest)}


def units(records: Records) -> F64:
    """The lowest cIoU of each picture that at least two positives show, in the order of their names.

    A bootstrap draws these in place of clips.
    """
    # Clips drawn several times by a bootstrap are still one sound of their picture.
    ids, first = np.unique(records.id[records.positives], return_index=True)
    ciou = records.ciou[records.positives][first]
    pictures = np.array([str(id).partition("+")[0] for id in ids], dtype=np.str_)
    _, at, count = np.unique(pictures, return_inverse=True, return_counts=True)
    lowest = np.full(len(count), np.inf)
    np.minimum.at(lowest, at, ciou)
    return np.asarray(lowest[count > 1], dtype=np.float64)
