"""Scores when every prediction has the same size, 10% to 90% of the picture: the paper's figure on source size.

loc_acc/size_10 ... loc_acc/size_90 and ap/size_10 ... ap/size_90: the protocol's LocAcc and AP with the cIoU of the
highest 10%, ... 90% of the pixels in place of the cIoU of its own mask. The confidence stays the same.
In [0, 1]. Undefined (NaN) without positives, and when cIoUs at these sizes were not measured.

>>> from earsight.protocols import get
>>> kind = np.array(["positive", "positive", "easy"])
>>> at = np.array([np.linspace(0.1, 0.9, 9), np.linspace(0.9, 0.1, 9), np.full(9, np.nan)])
>>> sources, confidence, ciou = np.array([40000.0, 2000, 0]), np.array([0.9, 0.5, 0.1]), at[:, 4]
>>> r = Records(np.array(list("abc")), kind, np.array([""] * 3), sources, confidence, ciou, by_size=at)
>>> numbers = compute(r, get("exact"))
>>> numbers["loc_acc/size_10"], numbers["loc_acc/size_50"], numbers["ap/size_10"], numbers["ap/size_90"]
(0.5, 1.0, 0.5, 0.75)
>>> curve(r, get("exact"))["huge"].tolist()
[0.0, 0.0, 0.0, 0.0, 1.0, 1.0, 1.0, 1.0, 1.0]
"""

from __future__ import annotations

from typing import Literal

import numpy as np

from earsight.metrics.average_precision import area, ranked, ranking
from earsight.metrics.base import F64, SIZES, Bools, Records, reached
from earsight.metrics.sizes import NAMES, buckets
from earsight.protocols import Protocol

RANGE = (0.0, 1.0)
PERCENT = tuple(round(100 * size) for size in SIZES)
HIGHER_IS_BETTER = {f"{number}/size_{percent}": True for number in ("loc_acc", "ap") for percent in PERCENT}


def compute(records: Records, protocol: Protocol) -> dict[str, float]:
    numbers: dict[str, float] = {}
    everything = np.ones(len(records), dtype=bool)
    for number, values in (
        ("loc_acc", _loc_acc(records, protocol, everything)),
        ("ap", _ap(records, protocol, everything)),
    ):
        numbers |= {f"{number}/size_{percent}": float(v) for percent, v in zip(PERCENT, values, strict=True)}
    return numbers


def curve(records: Records, protocol: Protocol, number: Literal["loc_acc", "ap"] = "loc_acc") -> dict[str, F64]:
    """The number at each prediction size, (9,), for "all" sources and for each bucket of sizes.py.

    AP of a bucket is that of its positives with all negatives.
    """
    bucket = buckets(records, protocol)
    of = _loc_acc if number == "loc_acc" else _ap
    lines = {"all": of(records, protocol, np.ones(len(records), dtype=bool))}
    for name in NAMES:
        lines[name] = of(records, protocol, (bucket == name) | ~records.positives)
    return lines


def _loc_acc(records: Records, protocol: Protocol, keep: Bools) -> F64:
    positives = records.positives & keep
    if not _measured(records, positives):
        return np.full(len(SIZES), np.nan)
    return np.asarray(reached(records.by_size[positives], protocol).mean(axis=0))


def _ap(records: Records, protocol: Protocol, keep: Bools) -> F64:
    if not _measured(records, records.positives & keep):
        return np.full(len(SIZES), np.nan)
    hit = reached(records.by_size.T, protocol) & records.positives
    clips = ranked(records, protocol, hit).only(keep[ranking(records)])
    return area(clips, protocol)


def _measured(records: Records, positives: Bools) -> bool:
    """Whether there are such positives, and each has its cIoU at every size."""
    here = records.by_size[positives]
    return here.size > 0 and bool(np.isfinite(here).all())
