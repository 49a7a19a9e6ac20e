"""Bootstrap: how far a number, or the difference of two, could move had other clips been in the set.

Clips are drawn with replacement, positives among the positives and negatives among the negatives: how many of each
there are is fixed by the design of a set, not by chance, so no draw may change it. Records are sorted by id first, so
their order plays no part, and the same seed gives the same draws. Not covered: another training run of the same model.

Numbers of something larger than a clip, such as pictures with several sounds, have files that define `units(records)`,
one value for each, and `of_units(values, protocol)`: for them whole units are drawn, all clips of a picture together.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import ModuleType

import numpy as np

from earsight.config import need
from earsight.draws import NAMES, Ordered, Room, counted
from earsight.errors import DataError
from earsight.metrics.base import F64, Records, module_of
from earsight.protocols import Protocol
from earsight.types import I64


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


@dataclass(frozen=True)
class Drawn:
    """What was measured of one model: each number of all clips, and of each draw.

    Args:
        records: the model's, in the order of their ids.
        protocol, draws, seed: how they were measured and drawn.
        whole: each number of all clips, each once.
        values: each number of each draw, (draws,).
    """

    records: Records
    protocol: Protocol
    draws: int
    seed: int
    whole: Mapping[str, float]
    values: Mapping[str, F64]

    def intervals(self, level: float = 0.95) -> dict[str, tuple[float, float]]:
        """What `intervals` gives for these records."""
        return {name: _middle(values, level) for name, values in self.values.items()}

    def minus(self, other: Drawn, names: Sequence[str], level: float = 0.95) -> dict[str, Difference]:
        """What `paired` gives for the records of both; clips are drawn again only where the two have not the same."""
        a, b = self.records, other.records
        how, theirs = ((one.protocol.hash, one.draws, one.seed) for one in (self, other))
        if how != theirs or not np.array_equal(a.id, b.id) or not np.array_equal(a.positives, b.positives):
            return paired(a, b, self.protocol, names, self.draws, self.seed, level)
        return _differences(self, other, names, level, unshared=0)


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
    return drawn([records], protocol, names, draws, seed)[0].intervals(level)


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
    a, b = a.where(at_a), b.where(at_b)
    if (a.positives != b.positives).any():
        other = a.id[a.positives != b.positives][0]
        raise DataError(
            f"Expected clips that are positive in both or in neither, but got '{other}' as both. "
            "Compare results on the same list."
        )
    first, second = drawn([a, b], protocol, names, draws, seed)
    return _differences(first, second, names, level, unshared)


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
    ids = [np.sort(records.id) for records in runs]
    if any(not np.array_equal(one, ids[0]) for one in ids):
        raise DataError("Expected runs measured on the same clips, but their ids differ. Measure all on one list.")
    found = drawn(runs, protocol, names, draws, seed)
    chosen = np.random.default_rng((seed, 1)).integers(0, len(runs), (draws, len(runs)))
    out = {}
    for name in names:
        by_run = np.stack([one.values[name] for one in found], axis=1)
        low, high = _middle(np.take_along_axis(by_run, chosen, axis=1).mean(axis=1), level)
        out[name] = (float(np.mean([one.whole[name] for one in found])), low, high)
    return out


def drawn(
    models: Sequence[Records], protocol: Protocol, names: Sequence[str] = NAMES, draws: int = 1000, seed: int = 0
) -> list[Drawn]:
    """Each number of each model on draws of its clips, the same draws for models with the same clips."""
    _check(draws)
    modules = {name: module_of(name) for name in names}
    of_units = {name: module for name, module in modules.items() if hasattr(module, "units")}
    of_clips = {name: module for name, module in modules.items() if name not in of_units}
    models = [records.sorted_by_id() for records in models]
    parts: list[list[dict[str, F64]]] = [[] for _ in models]
    # Draws depend on nothing but which clips are positives: those that agree in that are measured together.
    alike: dict[bytes, list[int]] = {}
    for i, records in enumerate(models):
        alike.setdefault(records.positives.tobytes(), []).append(i)
    for group in alike.values() if of_clips else ():
        positives = models[group[0]].positives
        room = Room(len(positives))
        ordered = {i: Ordered(models[i], protocol, room) for i in group}
        for counts in counted(positives, draws, seed):
            for i in group:
                parts[i].append(_measured(ordered[i], models[i], protocol, of_clips, counts))
    out = []
    for records, found in zip(models, parts, strict=True):
        values = {name: np.concatenate([part[name] for part in found]) for name in of_clips}
        values |= _units_drawn(records, protocol, of_units, draws, seed)
        whole = _whole(records, protocol, modules)
        out.append(Drawn(records, protocol, draws, seed, whole, {name: values[name] for name in names}))
    return out


def _units_drawn(
    records: Records, protocol: Protocol, modules: Mapping[str, ModuleType], draws: int, seed: int
) -> dict[str, F64]:
    """Numbers of draws of whole units, (draws,): the same units for the same seed whatever the model."""
    out = {name: np.full(draws, np.nan) for name in modules}
    for module in dict.fromkeys(modules.values()):
        values: F64 = module.units(records)
        random = np.random.default_rng((seed, 2))  # of their own, so that asking for them changes no other draw
        for i in range(draws if len(values) else 0):
            numbers = module.of_units(values[random.integers(0, len(values), len(values))], protocol)
            for name in set(out).intersection(numbers):
                out[name][i] = numbers[name]
    return out


def _measured(
    ordered: Ordered, records: Records, protocol: Protocol, modules: Mapping[str, ModuleType], counts: I64
) -> dict[str, F64]:
    """The numbers of draws: the usual ones from counts alone, all others by their own compute, which takes longer."""
    usual = [name for name in modules if name in NAMES]
    out = ordered.measure(counts, usual) if usual else {}
    others = {name: module for name, module in modules.items() if name not in NAMES}
    rows = counts if others else ()
    found = [_whole(records.drawn(np.repeat(np.arange(len(records)), row)), protocol, others) for row in rows]
    return out | {name: np.array([numbers[name] for numbers in found]) for name in others}


def _whole(records: Records, protocol: Protocol, modules: Mapping[str, ModuleType]) -> dict[str, float]:
    """The numbers of these records by their own compute; NaN for those that it leaves out."""
    numbers: dict[str, float] = {}
    for module in dict.fromkeys(modules.values()):
        numbers.update(module.compute(records, protocol))
    return {name: numbers.get(name, np.nan) for name in modules}


def _differences(a: Drawn, b: Drawn, names: Sequence[str], level: float, unshared: int) -> dict[str, Difference]:
    out = {}
    for name in names:
        difference = a.values[name] - b.values[name]
        low, high = _middle(difference, level)
        value = float(a.whole[name] - b.whole[name])
        out[name] = Difference(value, low, high, _p(difference), len(a.records), unshared)
    return out


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


def _check(draws: int, level: float = 0.95) -> None:
    need(draws >= 1, "at least 1 draw", draws)
    need(0 < level < 1, "a level between 0 and 1", level)
