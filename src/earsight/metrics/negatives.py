"""Negatives by kind (real, easy, hard, or whatever the set calls them): how well they are rejected, how much is marked.

max_f1/KIND: max-F1 over that kind's negatives and as many random positives (all positives when there are fewer). The
paper draws these positives once, without a seed; here it is the mean over 20 seeded draws. The draws are made among the
ids in sorted order, so neither the order of the records nor how they were cut matters. auroc/KIND and
false_alarm_at_90/KIND: as in rejection.py, with that kind's negatives and all positives.
pIA of a negative = pixels that the protocol keeps / all pixels. pia = its mean over the negatives, pia/KIND that of one
kind; lower is better. auc_n = area, by the trapezoid rule, under the share of negatives with pIA <= 0.05 i, i = 0..20;
higher is better. mean_ciou = mean cIoU of the positives.
f_loc = harmonic mean of mean_ciou and 1 - (mean over the kinds of pIA). f_auc = harmonic mean of the AUC of loc_acc.py
and the mean over the kinds of auc_n. A harmonic mean of 0 and 0 is 0.
pIA is made for pixel thresholds that all maps share (`absolute`, `universal`). A threshold that follows each map, such
as `top_half`, marks the same share of every picture, so pia then says nothing of the model.
In [0, 1]. Undefined (NaN): rejection and mean_ciou without positives; pia and auc_n without negatives, or when the
marked pixels of a negative were not measured; f_loc and f_auc when a part is. A kind without negatives, and the kind
"unknown", gives no number of its own, but "unknown" counts as a kind in f_loc and f_auc.

>>> from earsight.protocols import get
>>> kind = np.array(["positive", "positive", "easy", "hard", "unknown"])
>>> confidence, ciou = np.array([0.9, 0.6, 0.1, 0.7, 0.5]), np.array([0.8, 0.7, np.nan, np.nan, np.nan])
>>> marked = np.array([9.0, 9.0, 0.0, 25088.0, 0.0])
>>> r = Records(np.array(list("abcde")), kind, np.array([""] * 5), np.zeros(5), confidence, ciou, predicted=marked)
>>> numbers = compute(r, get("exact:threshold=absolute"))
>>> numbers["max_f1/easy"], numbers["auroc/hard"], numbers["pia/hard"], round(numbers["pia"], 6)
(1.0, 0.5, 0.5, 0.166667)
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from earsight.metrics.average_precision import f1_of, ranked, ranking
from earsight.metrics.base import F64, Bools, Records, hits
from earsight.metrics.loc_acc import GRID, auc
from earsight.metrics.rejection import separation
from earsight.protocols import Protocol
from earsight.types import POSITIVE

RANGE = (0.0, 1.0)
HIGHER_IS_BETTER = {
    "max_f1/*": True,
    "auroc/*": True,
    "false_alarm_at_90/*": False,
    "mean_ciou": True,
    "pia": False,
    "auc_n": True,
    "pia/*": False,
    "f_loc": True,
    "f_auc": True,
}
DRAWS = 20
UNKNOWN = "unknown"


def compute(records: Records, protocol: Protocol) -> dict[str, float]:
    return _by_kind(records, protocol) | _marked(records, protocol)


def _by_kind(records: Records, protocol: Protocol) -> dict[str, float]:
    numbers: dict[str, float] = {}
    positive = records.confidence[records.positives]
    for kind in kinds(records):
        of_kind = records.kind == kind
        numbers[f"max_f1/{kind}"] = matched_max_f1(records, protocol, of_kind)
        auroc, false_alarm = separation(positive, records.confidence[of_kind])
        numbers[f"auroc/{kind}"] = auroc
        numbers[f"false_alarm_at_90/{kind}"] = false_alarm
    return numbers


def _marked(records: Records, protocol: Protocol) -> dict[str, float]:
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
