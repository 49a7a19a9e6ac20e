"""Pointing game: how often the highest place of the map is on the source.

pointing is the mean, over positives, of the ground truth's weight at the map's highest pixel: with one annotator, how
often the peak is inside a box. It asks for no extent, so it tells a model that finds the source and covers it badly
from one that does not find it. Where several pixels are highest, their mean counts. Negatives play no part.
In [0, 1]. Undefined (NaN) without positives, and for records that were made without it.

>>> from earsight.protocols import get
>>> kind, ciou = np.array(["positive", "positive", "easy"]), np.array([0.2, 0.6, np.nan])
>>> zero, peak = np.zeros(3), np.array([1.0, 0.0, np.nan])
>>> r = Records(np.array(list("abc")), kind, np.array([""] * 3), zero, zero, ciou, peak=peak)
>>> compute(r, get("exact"))
{'pointing': 0.5}
"""

from __future__ import annotations

import numpy as np

from earsight.metrics.base import Records
from earsight.protocols import Protocol

RANGE = (0.0, 1.0)
HIGHER_IS_BETTER = {"pointing": True}


def compute(records: Records, protocol: Protocol) -> dict[str, float]:
    peaks = records.peak[records.positives]
    return {"pointing": float(peaks.mean()) if len(peaks) else np.nan}
