"""Rejection by kind of negative: real, easy, hard, or whatever the set calls them.

max_f1/KIND: max-F1 over that kind's negatives and as many random positives (all positives when there are fewer). The
paper draws these positives once, without a seed; here it is the mean over 20 seeded draws. The draws are made among the
ids in sorted order, so neither the order of the records nor how they were cut matters. auroc/KIND and
false_alarm_at_90/KIND: as in rejection.py, with that kind's negatives and all positives.
In [0, 1]. Undefined (NaN) without positives. A kind without negatives, and the kind "unknown", gives no number.

>>> from earsight.protocols import get
>>> kind = np.array(["positive", "positive", "easy", "hard", "unknown"])
>>> confidence, ciou = np.array([0.9, 0.6, 0.1, 0.7, 0.5]), np.array([0.8, 0.7, np.nan, np.nan, np.nan])
>>> r = Records(np.array(list("abcde")), kind, np.array([""] * 5), np.zeros(5), confidence, ciou)
>>> numbers = compute(r, get("exact"))
>>> sorted(numbers)[:4]
['auroc/easy', 'auroc/hard', 'false_alarm_at_90/easy', 'false_alarm_at_90/hard']
>>> numbers["max_f1/easy"], numbers["auroc/hard"]
(1.0, 0.5)
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from earsight.metrics.average_precision import ranked, ranking
from earsight.metrics.base import Bools, Records, hits
from earsight.metrics.max_f1 import f1_of
from earsight.metrics.rejection import separation
from earsight.protocols import Protocol
from earsight.types import POSITIVE

RANGE = (0.0, 1.0)
HIGHER_IS_BETTER = {"max_f1/*": True, "auroc/*": True, "false_alarm_at_90/*": False}
DRAWS = 20
UNKNOWN = "unknown"


def compute(records: Records, protocol: Protocol) -> dict[str, float]:
    numbers: dict[str, float] = {}
    positive = records.confidence[records.positives]
    for kind in kinds(records):
        of_kind = records.kind == kind
        numbers[f"max_f1/{kind}"] = matched_max_f1(records, protocol, of_kind)
        auroc, false_alarm = separation(positive, records.confidence[of_kind])
        numbers[f"auroc/{kind}"] = auroc
        numbers[f"false_alarm_at_90/{kind}"] = false_alarm
    return numbers


def kinds(records: Records) -> list[str]:
    """The kinds of negatives that are known, sorted."""
    return [kind for kind in np.unique(records.kind).tolist() if kind not in (POSITIVE, UNKNOWN)]


def floor(records: Records, protocol: Protocol, kind: str) -> float:
    """What accepting everything scores as max_f1/KIND, on the same draws; NaN without positives or without the kind."""
    hit = hits(records, protocol)
    found = []
    for chosen in _draws(records, records.kind == kind):
        p = hit[chosen].sum() / chosen.sum()
        found.append(2 * p / (1 + p))
    return float(np.mean(found)) if found else float("nan")


def matched_max_f1(records: Records, protocol: Protocol, negatives: Bools) -> float:
    """Mean max-F1 of these negatives, bool (N,), with as many positives, over the draws; NaN without positives."""
    order, clips = ranking(records), ranked(records, protocol)
    best = [f1_of(clips.only(chosen[order]), protocol)[0].max() for chosen in _draws(records, negatives)]
    return float(np.mean(best)) if best else float("nan")


def _draws(records: Records, negatives: Bools) -> Iterator[Bools]:
    """The clips of each draw, bool (N,): these negatives and as many positives. None without either."""
    positives = np.flatnonzero(records.positives)
    count = min(len(positives), int(negatives.sum()))
    if count == 0:
        return
    positives = positives[np.argsort(records.id[positives], kind="stable")]
    random = np.random.default_rng(0)
    # Every draw is the same when it takes all positives.
    for _ in range(DRAWS if count < len(positives) else 1):
        chosen = negatives.copy()
        chosen[random.permutation(positives)[:count]] = True
        yield chosen
