"""Average precision over confidence: finding the source when it is visible, and staying silent when it is not.

full: AP = sum over distinct confidences, highest first, of P_i (R_i - R_(i-1)) with R_0 = 0; no interpolation.
official: the published code. Confidences in ascending order without the highest, walked down in steps of
max(1, N // 200); P_i becomes the highest precision from i on; AP = sum P_i (R_(i+1) - R_i). It leaves out the recall
reached at its first point, so equal confidences give 0.
ap_coco: with COCO's recall, where a source pointed at in the wrong place counts as missed: the full curve in every
protocol, P = TP / claims and R = TP / all positives. The recall of `ap` counts positives that make no claim as missed
and no others, so it always ends at 1; this one ends at LocAcc, which is therefore the upper bound of ap_coco. It equals
scikit-learn's average_precision_score of (hit, confidence) times LocAcc.
In [0, 1]. Undefined (NaN) without positives.

>>> from earsight.protocols import get
>>> kind = np.array(["positive", "positive", "easy", "positive", "easy", "positive"])
>>> ciou = np.array([0.8, 0.6, np.nan, 0.3, np.nan, 0.7])
>>> confidence = np.array([0.9, 0.8, 0.7, 0.6, 0.5, 0.4])
>>> r = Records(np.array(list("abcdef")), kind, np.array([""] * 6), np.zeros(6), confidence, ciou)
>>> [round(compute(r, get(name))["ap"], 6) for name in ("exact", "official")], compute(r, get("exact"))["ap_coco"]
([0.75, 0.277778], 0.625)
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from earsight.metrics.base import F64, Bools, OfCounts, Records, hits, ratio
from earsight.protocols import Protocol
from earsight.types import I64

RANGE = (0.0, 1.0)
HIGHER_IS_BETTER = {"ap": True, "ap_coco": True}


class Ranked(NamedTuple):
    """Clips with the highest confidence first. One sort serves every curve over them.

    `hit` is bool (..., N): several rows are several ideas of what is found in the right place, such as other gammas.
    """

    confidence: F64
    positive: Bools
    hit: Bools

    def only(self, keep: Bools) -> Ranked:
        """The clips where `keep`, bool (N,) in ranked order."""
        return Ranked(self.confidence[keep], self.positive[keep], self.hit[..., keep])


class Weighted:
    """Clips with the highest confidence first, for samples that hold each of them a number of times.

    These are whole numbers: their running sums are exact, and faster than those of floats.
    """

    def __init__(self, records: Records, protocol: Protocol) -> None:
        clips, self.order = ranked(records, protocol), ranking(records)
        self.positive, self.hit = clips.positive.astype(np.int64), clips.hit.astype(np.int64)
        self.last = _last_of_equals(clips)[1]
        self.rising = np.unique(self.last[clips.positive])

    def walk(self, counts: I64, at: I64 | None = None) -> tuple[F64, F64]:
        """Precision (K,) and recall (K,) of the sample with `counts` (N,), as `walk` has them.

        Without `at`, ranks in the sample, at each threshold of a positive: elsewhere recall does not rise. 0/0 is 0
        here, which only occurs where nothing has been hit and so adds nothing to any number.
        """
        counts = counts.take(self.order)
        claims, positive, tp = np.cumsum(counts), np.cumsum(counts * self.positive), np.cumsum(counts * self.hit)
        where = self.rising if at is None else self.last[np.searchsorted(claims, at, side="right")]
        tp, missed = tp.take(where), positive[-1] - positive.take(where)
        return tp / np.maximum(claims.take(where), 1), tp / np.maximum(tp + missed, 1)


def compute(records: Records, protocol: Protocol) -> dict[str, float]:
    clips = ranked(records, protocol)
    precision, recall, _ = coco_walk(clips)
    ap_coco = float(np.sum(precision * np.diff(recall, prepend=0.0))) if clips.positive.any() else np.nan
    return {"ap": float(area(clips, protocol)), "ap_coco": ap_coco}


def of_counts(records: Records, protocol: Protocol) -> OfCounts:
    if not records.positives.any():
        return lambda counts: {"ap": np.nan}
    clips, official = Weighted(records, protocol), protocol.average_precision == "official"
    ranks = _official(len(records)) if official else None

    def numbers(counts: I64) -> dict[str, float]:
        precision, recall = clips.walk(counts, ranks)
        if official:
            return {"ap": float(_interpolated(precision, recall))}
        # Added one after another: clips that a sample leaves out then change no digit.
        return {"ap": float(np.cumsum(precision * np.diff(recall, prepend=0.0))[-1])}

    return numbers


def ranked(records: Records, protocol: Protocol, hit: Bools | None = None) -> Ranked:
    """The records by confidence; `hit` (..., N) in the order of the records, by default the protocol's hits."""
    order = ranking(records)
    hit = hits(records, protocol) if hit is None else hit
    return Ranked(records.confidence[order], records.positives[order], hit[..., order])


def ranking(records: Records) -> I64:
    """Positions of the records, highest confidence first. Equal ones come in any order: no curve depends on it."""
    return np.argsort(-records.confidence)


def area(clips: Ranked, protocol: Protocol) -> F64:
    """Average precision for each row of hits, (...,); NaN without positives."""
    if not clips.positive.any():
        return np.full(clips.hit.shape[:-1], np.nan)
    if protocol.average_precision == "official":
        precision, recall, _ = walk(clips, _official(len(clips.confidence)))
        return _interpolated(precision, recall)
    precision, recall, _ = walk(clips)
    return _row_sums(precision * np.diff(recall, prepend=0.0, axis=-1))


def walk(clips: Ranked, at: I64 | None = None) -> tuple[F64, F64, F64]:
    """Precision (..., K), recall (..., K) and threshold (K,), when clips with confidence >= threshold claim a source.

    The thresholds are the confidences at the ranks `at`, by default every distinct one. TP: a positive found in the
    right place; FP: a negative, or a positive in the wrong place; FN: a positive that makes no claim. A claim in the
    wrong place is no FN, so recall is 1 at the lowest threshold. 0/0 counts as 1.
    """
    tp, last = true_positives(clips, at)
    missed = clips.positive.sum() - np.cumsum(clips.positive)[last]
    claims = (last + 1).astype(np.float64)
    return ratio(tp, claims), ratio(tp, tp + missed), clips.confidence[last]


def coco_walk(clips: Ranked) -> tuple[F64, F64, F64]:
    """Precision, COCO recall and threshold at every distinct confidence, highest first."""
    tp, last = true_positives(clips)
    return tp / (last + 1), tp / max(clips.positive.sum(), 1), clips.confidence[last]


def true_positives(clips: Ranked, at: I64 | None = None) -> tuple[F64, I64]:
    """Hits among the claims at each threshold, (..., K), and the rank (K,) of the last clip that makes a claim."""
    last, of_each = _last_of_equals(clips)
    last = last if at is None else of_each[at]
    return np.cumsum(clips.hit, axis=-1, dtype=np.float64)[..., last], last


def curve(records: Records, protocol: Protocol) -> tuple[F64, F64, F64]:
    """Precision, recall and threshold at every distinct confidence, highest first."""
    return walk(ranked(records, protocol))


def official_thresholds(records: Records) -> F64:
    """The confidences at which the published code looks, highest first."""
    return records.confidence[ranking(records)[_official(len(records))]]


def _official(count: int) -> I64:
    """The ranks at which the published code looks: all but the highest, in steps."""
    return np.arange(1, count, max(1, count // 200))


def _last_of_equals(clips: Ranked) -> tuple[I64, I64]:
    """Ranks of the last clips of equal confidence: each once (K,), and that of each clip (N,).

    Equal confidences are accepted together, so each threshold looks at the last clip of its group.
    """
    last = np.flatnonzero(clips.confidence != np.append(clips.confidence[1:], np.nan))
    return last, last[np.searchsorted(last, np.arange(len(clips.confidence)))]


def _interpolated(precision: F64, recall: F64) -> F64:
    """The published code's sum: the precision at a threshold is the highest from there on."""
    later = np.maximum.accumulate(precision[..., ::-1], axis=-1)[..., ::-1]
    return _row_sums(later[..., :-1] * np.diff(recall, axis=-1))


def _row_sums(x: F64) -> F64:
    """Sum over the last axis. Rows lie side by side first, so that many rows give the digits that one alone gives."""
    return np.asarray(np.ascontiguousarray(x).sum(axis=-1))
