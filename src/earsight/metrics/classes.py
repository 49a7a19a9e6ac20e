"""Localization accuracy and pointing of each class of sounds.

loc_acc_of/CLASS and pointing_of/CLASS: LocAcc (loc_acc.py) and the pointing game (pointing.py) of the positives of that
class. A class without positives, and clips whose class is not known, give no number.
In [0, 1]. Undefined (NaN): pointing where the peak was not measured.

>>> from earsight.protocols import get
>>> ciou, label, peak = np.array([0.9, 0.2, 0.7]), np.array(["dog", "dog", "cat"]), np.array([1.0, 0.0, 0.0])
>>> r = Records(np.array(list("abc")), np.array(["positive"] * 3), label, np.zeros(3), np.zeros(3), ciou, peak=peak)
>>> compute(r, get("exact"))
{'loc_acc_of/cat': 1.0, 'pointing_of/cat': 0.0, 'loc_acc_of/dog': 0.5, 'pointing_of/dog': 0.5}
"""

from __future__ import annotations

import numpy as np

from earsight.metrics.base import Records, hits
from earsight.protocols import Protocol

RANGE = (0.0, 1.0)
HIGHER_IS_BETTER = {"loc_acc_of/*": True, "pointing_of/*": True}


def compute(records: Records, protocol: Protocol) -> dict[str, float]:
    seen = records.positives
    names, which = np.unique(records.label[seen], return_inverse=True)
    hit, peak = hits(records, protocol)[seen], records.peak[seen]
    numbers: dict[str, float] = {}
    for i, name in enumerate(names.tolist()):
        if name:
            numbers[f"loc_acc_of/{name}"] = float(hit[which == i].mean())
            # Weights of ground truth may be any fraction; sorted, so that their order never changes a digit.
            numbers[f"pointing_of/{name}"] = float(np.sort(peak[which == i]).mean())
    return numbers


def counts(records: Records) -> dict[str, int]:
    """How many positives each known class has, in the order of the alphabet."""
    names, number = np.unique(records.label[records.positives], return_counts=True)
    return {name: int(count) for name, count in zip(names.tolist(), number, strict=True) if name}
