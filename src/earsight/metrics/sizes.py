"""Localization accuracy and average precision by the size of the source.

Small < 32^2 <= Medium < 96^2 <= Large < 144^2 <= Huge: the sum of the ground-truth map (the union of the boxes, with
its weights) on a grid of 224 x 224. At another protocol size the borders are scaled by (size / 224)^2, so that a clip
stays in its bucket but for rounding. A positive whose map is empty is in Small, where it can only be missed.
loc_acc/small is LocAcc of the bucket's positives. ap/small is the AP of the bucket's positives together with all
negatives, in every protocol: it says what claims on such sources are worth. The published code leaves the negatives
out of these subsets, so its AP by size cannot fall through false alarms.
In [0, 1]. Undefined (NaN) for a bucket without positives.

>>> from earsight.protocols import get
>>> kind = np.array(["positive", "positive", "positive", "easy"])
>>> area, ciou = np.array([0.0, 9215, 9216, 0]), np.array([0, 0.6, 0.4, np.nan])
>>> r = Records(np.array(list("abcd")), kind, np.array([""] * 4), area, np.array([0.4, 0.9, 0.8, 0.5]), ciou)
>>> buckets(r, get("exact")).tolist(), counts(r, get("exact"))
(['small', 'medium', 'large', ''], {'small': 1, 'medium': 1, 'large': 1, 'huge': 0})
>>> compute(r, get("exact"))["loc_acc/medium"], compute(r, get("exact"))["ap/medium"]
(1.0, 1.0)
"""

from __future__ import annotations

import numpy as np

from earsight.metrics.average_precision import area, ranked, ranking
from earsight.metrics.base import Records, Strings, hits
from earsight.protocols import Protocol

RANGE = (0.0, 1.0)
NAMES = ("small", "medium", "large", "huge")
SIDES = (32, 96, 144)
"""Sides of the squares between the buckets, in pixels of the 224 grid."""
HIGHER_IS_BETTER = {f"{number}/{name}": True for number in ("loc_acc", "ap") for name in NAMES}


def compute(records: Records, protocol: Protocol) -> dict[str, float]:
    bucket, hit = buckets(records, protocol), hits(records, protocol)
    clips, ranked_bucket = ranked(records, protocol, hit), bucket[ranking(records)]
    numbers: dict[str, float] = {}
    for name, count in counts(records, protocol).items():
        found = int(hit[bucket == name].sum())
        numbers[f"loc_acc/{name}"] = found / count if count else np.nan
        with_negatives = clips.only((ranked_bucket == name) | ~clips.positive)
        numbers[f"ap/{name}"] = float(area(with_negatives, protocol))
    return numbers


def buckets(records: Records, protocol: Protocol) -> Strings:
    """The bucket of each clip, (N,): "small", "medium", "large" or "huge", and "" for negatives."""
    borders = [(side * protocol.size / 224) ** 2 for side in SIDES]
    names = np.array(NAMES)[np.searchsorted(borders, records.area, side="right")]
    return np.where(records.positives, names, "")


def counts(records: Records, protocol: Protocol) -> dict[str, int]:
    """How many positives each bucket holds, smallest first."""
    found = buckets(records, protocol)
    return {name: int((found == name).sum()) for name in NAMES}
