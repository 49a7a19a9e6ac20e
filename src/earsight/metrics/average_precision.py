"""Average precision and the highest F1: finding the source when it is visible, and staying silent when it is not.

ap, full: AP = sum over distinct confidences, highest first, of P_i (R_i - R_(i-1)) with R_0 = 0; no interpolation.
ap, official: the published code. Confidences in ascending order without the highest, walked down in steps of
max(1, N // 200); P_i becomes the highest precision from i on; AP = sum P_i (R_(i+1) - R_i). It leaves out the recall
reached at its first point, so equal confidences give 0.
ap_coco: with COCO's recall, where a source pointed at in the wrong place counts as missed: the full curve in every
protocol, P = TP / claims and R = TP / all positives. The recall of `ap` counts positives that make no claim as missed
and no others, so it always ends at 1; this one ends at LocAcc, which is therefore the upper bound of ap_coco. It equals
scikit-learn's average_precision_score of (hit, confidence) times LocAcc.
max_f1: the highest F1 = 2 P R / (P + R), 0 when both are 0. all: over every distinct confidence. official: over the
ascending confidences 0, s, 2s, ... with s = max(1, N // 10), which are 10 or 11. Floor: accepting everything has R = 1
and P = p = TP / N, so max-F1 >= 2p / (1 + p) whatever the confidence says.
In [0, 1]. Undefined (NaN) without positives.

>>> from earsight.protocols import get
>>> kind = np.array(["positive", "positive", "easy", "positive", "easy", "positive"])
>>> ciou = np.array([0.8, 0.6, np.nan, 0.3, np.nan, 0.7])
>>> confidence = np.array([0.9, 0.8, 0.7, 0.6, 0.5, 0.4])
>>> r = Records(np.array(list("abcdef")), kind, np.array([""] * 6), np.zeros(6), confidence, ciou)
>>> [round(compute(r, get(name))["ap"], 6) for name in ("exact", "official")], compute(r, get("exact"))["ap_coco"]
([0.75, 0.277778], 0.625)
>>> round(compute(r, get("exact"))["max_f1"], 6), round(f1_floor(r, get("exact")), 6)
(0.666667, 0.666667)
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from earsight.metrics.base import F64, Bools, OfCounts, Records, hits, ratio
from earsight.protocols import Protocol
from earsight.types import I64

RANGE = (0.0, 1.0)
HIGHER_IS_BETTER = {"ap": True, "ap_coco": True, "max_f1": True}


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

    These are whole numbers: their running sums are exact, and faster than those of floats. The sums have memory of
    their own: taken and given back a thousand times, it would cost more than the sums.
    """

    def __init__(self, records: Records, protocol: Protocol) -> None:
        clips, self.order = ranked(records, protocol), ranking(records)
        self.of_what = np.stack([np.ones(len(records), np.int64), clips.positive, clips.hit])
        self.each, self.sums = np.empty_like(self.of_what), np.empty_like(self.of_what)
        self.last = _last_of_equals(clips)[1]
        self.rising = np.unique(self.last[clips.positive])

    def walk(self, counts: I64, *looks: I64 | None) -> list[tuple[F64, F64]]:
        """Precision (K,) and recall (K,) of the sample with `counts` (N,), as `walk` has them, for each of `looks`.

        Those are ranks in the sample, or None for each threshold of a positive: elsewhere recall does not rise. 0/0 is
        0 here, which only occurs where nothing has been hit and so adds nothing to any number.
        """
        np.multiply(counts.take(self.order), self.of_what, out=self.each)
        claims, positive, tp = np.cumsum(self.each, axis=1, out=self.sums)
        found = []
        for at in looks:
            where = self.rising if at is None else self.last[np.searchsorted(claims, at, side="right")]
            hit, missed = tp.take(where), positive[-1] - positive.take(where)
            found.append((hit / np.maximum(claims.take(where), 1), hit / np.maximum(hit + missed, 1)))
        return found


def compute(records: Records, protocol: Protocol) -> dict[str, float]:
    clips = ranked(records, protocol)
    if not clips.positive.any():
        return {"ap": np.nan, "ap_coco": np.nan, "max_f1": np.nan}
    precision, recall, _ = coco_walk(clips)
    ap_coco = float(np.sum(precision * np.diff(recall, prepend=0.0)))
    return {"ap": float(area(clips, protocol)), "ap_coco": ap_coco, "max_f1": float(f1_of(clips, protocol)[0].max())}


def of_counts(records: Records, protocol: Protocol) -> OfCounts:
    if not records.positives.any():
        return lambda counts: {"ap": np.nan, "max_f1": np.nan}
    clips, official = Weighted(records, protocol), protocol.average_precision == "official"
    looks = [ap_ranks(len(records), protocol)]
    looks += [f1_ranks(len(records), protocol)] if official or protocol.f1 == "official" else []

    def numbers(counts: I64) -> dict[str, float]:
        walked = clips.walk(counts, *looks)
        precision, recall = walked[0]
        max_f1 = float(_f1(*walked[-1]).max())
        if official:
            return {"ap": float(_interpolated(precision, recall)), "max_f1": max_f1}
        # Added one after another: clips that a sample leaves out then change no digit.
        return {"ap": float(np.cumsum(precision * np.diff(recall, prepend=0.0))[-1]), "max_f1": max_f1}

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
    precision, recall, _ = walk(clips, ap_ranks(len(clips.confidence), protocol))
    if protocol.average_precision == "official":
        return _interpolated(precision, recall)
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


def f1_curve(records: Records, protocol: Protocol) -> tuple[F64, F64]:
    """F1 and threshold at every confidence the protocol looks at, highest first."""
    return f1_of(ranked(records, protocol), protocol)


def f1_of(clips: Ranked, protocol: Protocol) -> tuple[F64, F64]:
    """F1 (..., K) and threshold (K,) of ranked clips, highest threshold first."""
    precision, recall, thresholds = walk(clips, f1_ranks(len(clips.confidence), protocol))
    return _f1(precision, recall), thresholds


def f1_floor(records: Records, protocol: Protocol) -> float:
    """F1 of accepting everything, 2p / (1 + p) with p = TP / N; NaN without positives."""
    if not records.positives.any():
        return float("nan")
    p = int(hits(records, protocol).sum()) / len(records)
    return 2 * p / (1 + p)


def ap_ranks(count: int, protocol: Protocol) -> I64 | None:
    """The ranks at which the protocol looks for AP, of so many clips; None for all."""
    return np.arange(1, count, max(1, count // 200)) if protocol.average_precision == "official" else None


def f1_ranks(count: int, protocol: Protocol) -> I64 | None:
    """The ranks at which the protocol looks for F1, of so many clips; None for all."""
    return np.arange(count - 1, -1, -max(1, count // 10))[::-1] if protocol.f1 == "official" else None


def _last_of_equals(clips: Ranked) -> tuple[I64, I64]:
    """Ranks of the last clips of equal confidence: each once (K,), and that of each clip (N,).

    Equal confidences are accepted together, so each threshold looks at the last clip of its group.
    """
    last = np.flatnonzero(clips.confidence != np.append(clips.confidence[1:], np.nan))
    return last, last[np.searchsorted(last, np.arange(len(clips.confidence)))]


def _f1(precision: F64, recall: F64) -> F64:
    both = precision + recall
    return np.divide(2 * precision * recall, both, out=np.zeros_like(both), where=both > 0)


def _interpolated(precision: F64, recall: F64) -> F64:
    """The published code's sum: the precision at a threshold is the highest from there on."""
    later = np.maximum.accumulate(precision[..., ::-1], axis=-1)[..., ::-1]
    return _row_sums(later[..., :-1] * np.diff(recall, axis=-1))


def _row_sums(x: F64) -> F64:
    """Sum over the last axis. Rows lie side by side first, so that many rows give the digits that one alone gives."""
    return np.asarray(np.ascontiguousarray(x).sum(axis=-1))
