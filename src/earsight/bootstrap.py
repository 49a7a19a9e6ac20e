"""Bootstrap: how far a number, or the difference of two, could move had other clips been in the set.

Clips are drawn with replacement, positives among the positives and negatives among the negatives: how many of each
there are is fixed by the design of a set, not by chance, so no draw may change it. Records are sorted by id first, so
their order plays no part, and the same seed gives the same draws. Not covered: another training run of the same model.

Numbers of something larger than a clip, such as pictures with several sounds, have files that define `units(records)`,
one value for each, and `of_units(values, protocol)`: for them whole units are drawn, all clips of a picture together.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from earsight.config import need
from earsight.errors import DataError
from earsight.metrics.base import F64, Records, hits, module_of, ratio
from earsight.metrics.loc_acc import GRID
from earsight.protocols import Protocol
from earsight.types import I64

NAMES = ("ap", "max_f1", "loc_acc", "auc", "auroc")
AT_ONCE = 4
"""Draws that are measured together, few enough to stay in the cache; changes the speed and nothing else."""


@dataclass(frozen=True)
class Difference:
    """What the first of two models has more than the second, on the clips that both have.

    Args:
        value: the difference, a fraction.
        low, high: the interval in which the middle share (95% by default) of the draws lies.
        p: how often draws fall on the other side of 0, twice: small when the sign hardly ever changes.
        shared: how many clips both have.
        unshared: how many clips only one of them has, which are left out.
    """

    value: float
    low: float
    high: float
    p: float
    shared: int
    unshared: int


def intervals(
    records: Records,
    protocol: Protocol,
    names: Sequence[str] = NAMES,
    draws: int = 1000,
    seed: int = 0,
    level: float = 0.95,
) -> dict[str, tuple[float, float]]:
    """For each number the interval in which the middle share `level` of its draws lies; NaN when it is undefined.

    A number that some draws leave undefined (a rare kind of clip may not be drawn) has the interval of the others.
    """
    _check(draws, level)
    records = records.sorted_by_id()
    values = _drawn([records], protocol, names, draws, seed)[0]
    return {name: _middle(values[name], level) for name in names}


def paired(
    a: Records,
    b: Records,
    protocol: Protocol,
    names: Sequence[str] = NAMES,
    draws: int = 2000,
    seed: int = 0,
    level: float = 0.95,
) -> dict[str, Difference]:
    """Each number of `a` minus that of `b`, with both measured on the same draws of the clips they share.

    p = 2 (k + 1) / (n + 1), at most 1, with k the number of the n draws whose difference is <= 0, or >= 0 if that is
    fewer. The added ones keep p above 0: n draws cannot tell chances smaller than about 2 / n.
    """
    _check(draws, level)
    shared, at_a, at_b = np.intersect1d(a.id, b.id, assume_unique=True, return_indices=True)
    if len(shared) == 0:
        raise DataError(
            f"Expected records of the same clips, but got {len(a)} and {len(b)} without one id in common. "
            "Compare results on the same set."
        )
    unshared = len(a) + len(b) - 2 * len(shared)
    a, b = a.where(at_a), b.where(at_b)  # in the order of their ids
    if (a.positives != b.positives).any():
        other = a.id[a.positives != b.positives][0]
        raise DataError(
            f"Expected clips that are positive in both or in neither, but got '{other}' as both. "
            "Compare results on the same list."
        )
    values_a, values_b = _drawn([a, b], protocol, names, draws, seed)
    once = np.ones((1, len(shared)))
    whole_a, whole_b = (_measured(_Ordered(one, protocol), one, protocol, names, once) for one in (a, b))
    out = {}
    for name in names:
        difference = values_a[name] - values_b[name]
        low, high = _middle(difference, level)
        value = float(whole_a[name][0] - whole_b[name][0])
        out[name] = Difference(value, low, high, _p(difference), len(shared), unshared)
    return out


def over_seeds(
    runs: Sequence[Records],
    protocol: Protocol,
    names: Sequence[str] = NAMES,
    draws: int = 1000,
    seed: int = 0,
    level: float = 0.95,
) -> dict[str, tuple[float, float, float]]:
    """Mean of each number over several trainings of one model, with the interval that other runs and clips could give.

    Each draw takes as many runs as there are, with replacement, and measures all of them on the same drawn clips.
    """
    _check(draws, level)
    need(len(runs) > 0, "at least one run", 0)
    runs = [records.sorted_by_id() for records in runs]
    if any(len(one) != len(runs[0]) or (one.id != runs[0].id).any() for one in runs):
        raise DataError("Expected runs measured on the same clips, but their ids differ. Measure all on one list.")
    values = _drawn(runs, protocol, names, draws, seed)
    chosen = np.random.default_rng((seed, 1)).integers(0, len(runs), (draws, len(runs)))
    once = np.ones((1, len(runs[0])))
    whole = [_measured(_Ordered(one, protocol), one, protocol, names, once) for one in runs]
    out = {}
    for name in names:
        by_run = np.stack([value[name] for value in values], axis=1)
        low, high = _middle(np.take_along_axis(by_run, chosen, axis=1).mean(axis=1), level)
        out[name] = (float(np.mean([one[name][0] for one in whole])), low, high)
    return out


class _Ordered:
    """Records in the order of their confidence, so that a draw is measured from how often each clip is in it.

    `last` holds the position of the last of each run of equal confidences, highest first: equal ones are one step.
    """

    def __init__(self, records: Records, protocol: Protocol) -> None:
        self.order = np.argsort(-records.confidence, kind="stable")
        confidence = records.confidence[self.order]
        self.last = np.flatnonzero(np.append(np.diff(confidence) != 0, True)[: len(records)])
        self.positive = records.positives[self.order].astype(np.float64)
        self.hit = hits(records, protocol)[self.order].astype(np.float64)
        self.reached = (records.ciou[self.order, None] >= GRID).astype(np.float64)  # NaN, a negative, reaches nothing
        self.protocol, self.positives = protocol, int(records.positives.sum())
        self.negatives = len(records) - self.positives

    def measure(self, counts: F64, names: Sequence[str] = NAMES) -> dict[str, F64]:
        """Those of NAMES for draws that hold each clip `counts` (B, N) times; equal to the metrics' own compute."""
        out = {name: np.full(len(counts), np.nan) for name in names}
        if self.positives == 0:
            return out
        counts = counts[:, self.order]
        claims = np.cumsum(counts, axis=1)[:, self.last]
        positive = np.cumsum(counts * self.positive, axis=1)[:, self.last]
        if "auc" in names:
            share: F64 = counts @ self.reached / self.positives
            out["auc"] = np.asarray(np.trapezoid(share, GRID, axis=1))
        if "auroc" in names and self.negatives:
            out["auroc"] = self._auroc(positive, claims - positive)
        if not {"ap", "max_f1", "loc_acc"}.intersection(names):
            return out
        tp = np.cumsum(counts * self.hit, axis=1)[:, self.last]
        if "loc_acc" in names:
            out["loc_acc"] = tp[:, -1] / self.positives
        precision, recall = ratio(tp, claims), ratio(tp, tp + self.positives - positive)
        if "ap" in names:
            out["ap"] = self._average_precision(precision, recall, claims)
        if "max_f1" in names:
            out["max_f1"] = self._max_f1(precision, recall, claims)
        return out

    def _average_precision(self, precision: F64, recall: F64, claims: F64) -> F64:
        if self.protocol.average_precision == "full":
            full: F64 = (precision * np.diff(recall, axis=1, prepend=0.0)).sum(axis=1)
            return full
        n = self.positives + self.negatives
        at = self._steps(claims, np.arange(1, n, max(1, n // 200)))
        precision, recall = np.take_along_axis(precision, at, axis=1), np.take_along_axis(recall, at, axis=1)
        later = np.maximum.accumulate(precision[:, ::-1], axis=1)[:, ::-1]
        total: F64 = (later[:, :-1] * np.diff(recall, axis=1)).sum(axis=1)
        return total

    def _max_f1(self, precision: F64, recall: F64, claims: F64) -> F64:
        if self.protocol.f1 == "official":
            n = self.positives + self.negatives
            at = self._steps(claims, np.arange(n)[:: -max(1, n // 10)])
            precision, recall = np.take_along_axis(precision, at, axis=1), np.take_along_axis(recall, at, axis=1)
        both = precision + recall
        f1: F64 = np.divide(2 * precision * recall, both, out=np.zeros_like(both), where=both > 0).max(axis=1)
        return f1

    def _steps(self, claims: F64, ranks: I64) -> I64:
        """Where in the curve the clips at these ranks of the draw (0 is the most confident) lie, (B, ranks)."""
        return np.stack([np.searchsorted(row, ranks, side="right") for row in claims]).astype(np.int64)

    def _auroc(self, positive: F64, negative: F64) -> F64:
        more, equal = np.diff(positive, axis=1, prepend=0.0), np.diff(negative, axis=1, prepend=0.0)
        below = self.negatives - negative
        won: F64 = (more * (below + 0.5 * equal)).sum(axis=1)
        return won / (self.positives * self.negatives)


def _drawn(
    models: list[Records], protocol: Protocol, names: Sequence[str], draws: int, seed: int
) -> list[dict[str, F64]]:
    """Each number of each model on the same draws, (draws,). The models have the same clips in the same order."""
    for name in names:
        module_of(name)
    ordered = [_Ordered(records, protocol) for records in models]
    parts: list[list[dict[str, F64]]] = [[] for _ in models]
    whole = [name for name in names if hasattr(module_of(name), "units")]
    of_clips = [name for name in names if name not in whole]
    for counts in _counts(models[0], draws, seed) if of_clips else ():
        for records, order, found in zip(models, ordered, parts, strict=True):
            found.append(_measured(order, records, protocol, of_clips, counts))
    return [
        {name: np.concatenate([part[name] for part in found]) for name in of_clips}
        | _units_drawn(records, protocol, whole, draws, seed)
        for records, found in zip(models, parts, strict=True)
    ]


def _units_drawn(records: Records, protocol: Protocol, names: Sequence[str], draws: int, seed: int) -> dict[str, F64]:
    """Numbers of draws of whole units, (draws,): the same units for the same seed whatever the model."""
    out = {name: np.full(draws, np.nan) for name in names}
    for module in dict.fromkeys(map(module_of, names)):
        values: F64 = module.units(records)
        random = np.random.default_rng((seed, 2))  # of their own, so that asking for them changes no other draw
        for i in range(draws if len(values) else 0):
            numbers = module.of_units(values[random.integers(0, len(values), len(values))], protocol)
            for name in set(out).intersection(numbers):
                out[name][i] = numbers[name]
    return out


def _counts(records: Records, draws: int, seed: int) -> Iterator[F64]:
    """How often each clip is in each draw, some draws at a time."""
    random = np.random.default_rng(seed)
    halves = [np.flatnonzero(records.positives), np.flatnonzero(~records.positives)]
    for start in range(0, draws, AT_ONCE):
        counts = np.zeros((min(AT_ONCE, draws - start), len(records)))
        for row in counts:
            for half in halves:
                if len(half):
                    row[half] = np.bincount(random.integers(0, len(half), len(half)), minlength=len(half))
        yield counts


def _measured(
    ordered: _Ordered, records: Records, protocol: Protocol, names: Sequence[str], counts: F64
) -> dict[str, F64]:
    """The numbers of draws: the usual ones from counts alone, all others by their own compute, which takes longer."""
    usual = [name for name in names if name in NAMES]
    out = ordered.measure(counts, usual) if usual else {}
    others = {name: module_of(name) for name in names if name not in NAMES}
    found: dict[str, list[float]] = {name: [] for name in others}
    for row in counts if others else ():
        drawn = records.drawn(np.repeat(np.arange(len(records)), row.astype(np.int64)))
        numbers: dict[str, float] = {}
        for module in dict.fromkeys(others.values()):
            numbers.update(module.compute(drawn, protocol))
        for name in others:
            found[name].append(numbers.get(name, np.nan))
    return out | {name: np.array(values) for name, values in found.items()}


def _middle(values: F64, level: float) -> tuple[float, float]:
    defined = values[~np.isnan(values)]
    if len(defined) == 0:
        return float("nan"), float("nan")
    low, high = np.quantile(defined, [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)


def _p(difference: F64) -> float:
    defined = difference[~np.isnan(difference)]
    if len(defined) == 0:
        return float("nan")
    fewer = min(int((defined <= 0).sum()), int((defined >= 0).sum()))
    return min(1.0, 2 * (fewer + 1) / (len(defined) + 1))


def _check(draws: int, level: float) -> None:
    need(draws >= 1, "at least 1 draw", draws)
    need(0 < level < 1, "a level between 0 and 1", level)
