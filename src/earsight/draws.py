"""Draws of a set's clips: how often each clip is in each, and the usual numbers of many draws from that alone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from earsight.metrics.base import F64, Bools, Records, hits
from earsight.metrics.loc_acc import GRID
from earsight.protocols import Protocol
from earsight.types import I64

NAMES = ("ap", "max_f1", "loc_acc", "auc", "auroc")
AT_ONCE = 4
"""Draws that are measured together, few enough to stay in the cache; changes the speed and nothing else."""


class Room:
    """Memory by name that is used for all draws: new memory of this size costs more than what is worked out in it."""

    def __init__(self, clips: int) -> None:
        self.size = AT_ONCE * clips
        self.memory: dict[str, I64] = {}

    def ints(self, name: str, rows: int, columns: int) -> I64:
        if name not in self.memory:
            self.memory[name] = np.empty(self.size, np.int64)
        return self.memory[name][: rows * columns].reshape(rows, columns)

    def floats(self, name: str, rows: int, columns: int) -> F64:
        return self.ints(name, rows, columns).view(np.float64)

    def take(self, name: str, values: I64, at: I64) -> I64:
        """The values (B, N) at places (K,) of every row, or (B, K) of its own."""
        out = self.ints(name, len(values), at.shape[-1])
        # Without "clip" numpy would take new memory, to find places that are not there before it writes.
        if at.ndim == 1:
            np.take(values, at, axis=1, out=out, mode="clip")
        else:
            np.take(values, at + values.shape[1] * np.arange(len(values))[:, None], out=out, mode="clip")
        return out


class Ordered:
    """Records in the orders of their confidence and cIoU, so that a draw is measured from how often each clip is in it.

    Clips are counted in whole numbers: their running sums are exact, and ten times as fast as those of floats.
    """

    def __init__(self, records: Records, protocol: Protocol, room: Room) -> None:
        positives, hit = records.positives, hits(records, protocol)
        self.protocol, self.room, self.positives = protocol, room, int(positives.sum())
        self.negatives = len(records) - self.positives
        self.order = np.argsort(-records.confidence, kind="stable")
        self.positive, self.hit = (which[self.order].astype(np.int64) for which in (positives, hit))
        # Equal confidences are one step. The last clip of each, of each clip's own, and of each that has a positive.
        confidence = records.confidence[self.order]
        self.last = np.flatnonzero(np.append(np.diff(confidence) != 0, True)[: len(records)])
        self.end = self.last[np.searchsorted(self.last, np.arange(len(records)))]
        self.rising = np.unique(self.end[self.positive > 0])
        # Positives, best placed first, and how many of them reach each threshold of AUC and that of a hit.
        ciou = records.ciou[positives]
        self.placed = np.flatnonzero(positives)[np.argsort(-ciou)]
        self.reaching = np.append((ciou[:, None] >= GRID).sum(axis=0), hit.sum())

    def measure(self, counts: I64, names: Sequence[str] = NAMES) -> dict[str, F64]:
        """Those of NAMES for draws that hold each clip `counts` (B, N) times; equal to the metrics' own compute."""
        out = {name: np.full(len(counts), np.nan) for name in names}
        if self.positives == 0:
            return out
        if {"loc_acc", "auc"}.intersection(names):
            share = self._shares(counts)
            placed = {"loc_acc": share[:, -1], "auc": np.asarray(np.trapezoid(share[:, :-1], GRID, axis=1))}
            out |= {name: placed[name] for name in placed if name in names}
        if not {"ap", "max_f1", "auroc"}.intersection(names):
            return out
        claims, positive, tp = self._sums(counts)
        if "auroc" in names and self.negatives:
            out["auroc"] = self._auroc(claims, positive)
        for_ap, for_f1 = self._places(claims)
        if "ap" in names:
            precision, recall = self._walk(claims, positive, tp, for_ap)
            out["ap"] = self._average_precision(precision, recall)
        if "max_f1" in names:
            if "ap" not in names or for_f1 is not for_ap:
                precision, recall = self._walk(claims, positive, tp, for_f1)
            out["max_f1"] = self._max_f1(precision, recall)
        return out

    def _shares(self, counts: I64) -> F64:
        """The share of the positives that reach each threshold of AUC, and the share of hits, (B, 21 + 1)."""
        found = self.room.take("placed", counts, self.placed)
        np.cumsum(found, axis=1, out=found)
        share: F64 = found.take(self.reaching - 1, axis=1) * (self.reaching > 0) / self.positives
        return share

    def _sums(self, counts: I64) -> tuple[I64, I64, I64]:
        """How many claims, positives and hits there are down to each clip, most confident first, (B, N) each."""
        inside = self.room.take("inside", counts, self.order)
        claims, positive, tp = (self.room.ints(name, *counts.shape) for name in ("claims", "positive", "tp"))
        np.cumsum(inside, axis=1, out=claims)
        np.cumsum(np.multiply(inside, self.positive, out=positive), axis=1, out=positive)
        np.cumsum(np.multiply(inside, self.hit, out=tp), axis=1, out=tp)
        return claims, positive, tp

    def _auroc(self, claims: I64, positive: I64) -> F64:
        """Share of the pairs of a positive and a negative that the positive wins, equal confidences counting half.

        Twice their number, which is whole, is twice the area under the curve of positives over negatives.
        """
        if len(self.last) < len(self.order):
            claims = self.room.take("claims there", claims, self.last)
            positive = self.room.take("positive there", positive, self.last)
        pairs = self.positives * self.negatives
        forth = np.einsum("bn,bn->b", claims[:, 1:], positive[:, :-1])
        back = np.einsum("bn,bn->b", claims[:, :-1], positive[:, 1:])
        share: F64 = (pairs + forth - back) / 2 / pairs
        return share

    def _places(self, claims: I64) -> tuple[I64, I64]:
        """The last clips that make a claim where average precision and F1 look, (K,), or (B, K) where draws differ."""
        n = len(self.order)
        for_ap = for_f1 = self.rising  # elsewhere recall does not rise, and F1 is lower
        if self.protocol.average_precision == "official":
            for_ap = self._steps(claims, np.arange(1, n, max(1, n // 200)))
        if self.protocol.f1 == "official":
            for_f1 = self._steps(claims, np.arange(n)[:: -max(1, n // 10)])
        return for_ap, for_f1

    def _steps(self, claims: I64, ranks: I64) -> I64:
        """The ends of the steps in which the clips at these ranks of the draw (0 is the most confident) lie, (B, K)."""
        at: I64 = self.end[np.stack([row.searchsorted(ranks, side="right") for row in claims])]
        return at

    def _walk(self, claims: I64, positive: I64, tp: I64, at: I64) -> tuple[F64, F64]:
        """Precision and recall at places (K,) or (B, K), from running sums, with 0 for 0/0.

        A metric has 1 there. But 0/0 is only where nothing has been hit, so that it adds nothing to any number.
        """
        claims = self.room.take("claims there", claims, at)
        positive = self.room.take("positive there", positive, at)
        tp = self.room.take("tp there", tp, at)
        missed = np.subtract(self.positives, positive, out=positive)
        accepted = np.maximum(np.add(tp, missed, out=missed), 1, out=missed)
        precision, recall = (self.room.floats(name, *tp.shape) for name in ("precision", "recall"))
        np.divide(tp, np.maximum(claims, 1, out=claims), out=precision)
        np.divide(tp, accepted, out=recall)
        return precision, recall

    def _average_precision(self, precision: F64, recall: F64) -> F64:
        if self.protocol.average_precision == "official":
            later = np.maximum.accumulate(precision[:, ::-1], axis=1)[:, ::-1]
            return np.asarray((later[:, :-1] * np.diff(recall, axis=1)).sum(axis=1))
        added = self.room.floats("added", *recall.shape)
        np.subtract(recall[:, 1:], recall[:, :-1], out=added[:, 1:])
        added[:, 0] = recall[:, 0]
        added *= precision
        total: F64 = np.cumsum(added, axis=1, out=added)[:, -1].copy()
        return total

    def _max_f1(self, precision: F64, recall: F64) -> F64:
        both = np.add(precision, recall, out=self.room.floats("both", *recall.shape))
        both[both == 0] = 1  # F1 is then 0, as they are
        f1 = np.multiply(precision, 2, out=precision)
        f1 *= recall
        f1 /= both
        return np.asarray(f1.max(axis=1))


def counted(positives: Bools, draws: int, seed: int) -> Iterator[I64]:
    """How often each clip is in each draw, some draws at a time, in the same memory each time."""
    random = np.random.default_rng(seed)
    halves = [np.flatnonzero(positives), np.flatnonzero(~positives)]
    counts = np.zeros((AT_ONCE, len(positives)), np.int64)
    for start in range(0, draws, AT_ONCE):
        some = counts[: draws - start]
        for row in some:
            for half in halves:
                if len(half):
                    row[half] = np.bincount(random.integers(0, len(half), len(half)), minlength=len(half))
        yield some
