"""Bootstrap: how far a number, or the difference of two, could move had other clips been in the set.

Clips are drawn with replacement, positives among the positives and negatives among the negatives: how many of each
there are is fixed by the design of a set, not by chance, so no draw may change it. Records are sorted by id first, so
their order plays no part, and the same seed gives the same draws. Not covered: another training run of the same model.

Numbers of something larger than a clip, such as pictures with several sounds, have files that define `units(records)`,
one value for each, and `of_units(values, protocol)`: for them whole units are drawn, all clips of a picture together.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import ModuleType

import numpy as np

from earsight.config import need
from earsight.errors import DataError
from earsight.metrics.base import F64, Bools, OfCounts, Records, module_of
from earsight.protocols import Protocol
from earsight.types import I64

LEVEL = 0.95
"""Share of the draws, the middle ones, that lie in an interval."""


@dataclass(frozen=True)
class Difference:
    """What the first of two models has more than the second, on the clips that both have.

    Args:
        value: the difference, a fraction.
        low, high: the interval in which the middle 95% of the draws lie.
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

    def intervals(self) -> dict[str, tuple[float, float]]:
        """For each number the interval in which the middle of its draws lies; NaN when it is undefined.

        A number that some draws leave undefined (a rare kind of clip may not be drawn) has the interval of the others.
        """
        return {name: middle(values) for name, values in self.values.items()}

    def minus(self, other: Drawn, names: Sequence[str]) -> dict[str, Difference]:
        """What `paired` gives for the records of both, drawn together; clips that differ are drawn again."""
        a, b = self.records, other.records
        if not np.array_equal(a.id, b.id) or not np.array_equal(a.positives, b.positives):
            return paired(a, b, self.protocol, names, self.draws, self.seed)
        return _differences(self, other, names, unshared=0)


def paired(
    a: Records, b: Records, protocol: Protocol, names: Sequence[str], draws: int = 2000, seed: int = 0
) -> dict[str, Difference]:
    """Each number of `a` minus that of `b`, with both measured on the same draws of the clips they share.

    p = 2 (k + 1) / (n + 1), at most 1, with k the number of the n draws whose difference is <= 0, or >= 0 if that is
    fewer. The added ones keep p above 0: n draws cannot tell chances smaller than about 2 / n.
    """
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
    return _differences(first, second, names, unshared)


def drawn(
    models: Sequence[Records], protocol: Protocol, names: Sequence[str], draws: int = 1000, seed: int = 0
) -> list[Drawn]:
    """Each number of each model on draws of its clips, the same draws for models with the same clips."""
    need(draws >= 1, "at least 1 draw", draws)
    modules = {name: module_of(name) for name in names}
    of_clips = {name: module for name, module in modules.items() if not hasattr(module, "units")}
    models = [records.sorted_by_id() for records in models]
    values = [{name: np.full(draws, np.nan) for name in names} for _ in models]
    # Draws depend on nothing but which clips are positives: those that agree in that are measured together.
    alike: dict[bytes, list[int]] = {}
    for i, records in enumerate(models):
        alike.setdefault(records.positives.tobytes(), []).append(i)
    for group in alike.values() if of_clips else ():
        measures = {i: _of_counts(models[i], protocol, of_clips) for i in group}
        for draw, counts in enumerate(counted(models[group[0]].positives, draws, seed)):
            for i, measure in measures.items():
                for name, number in measure(counts).items():
                    values[i][name][draw] = number
    for records, found in zip(models, values, strict=True):
        _draw_units(found, records, protocol, {name: modules[name] for name in modules if name not in of_clips}, seed)
    return [
        Drawn(records, protocol, draws, seed, _whole(records, protocol, modules), found)
        for records, found in zip(models, values, strict=True)
    ]


def counted(positives: Bools, draws: int, seed: int) -> Iterator[I64]:
    """How often each clip is in each draw, (N,)."""
    random = np.random.default_rng(seed)
    halves = [half for half in (np.flatnonzero(positives), np.flatnonzero(~positives)) if len(half)]
    for _ in range(draws):
        counts = np.zeros(len(positives), np.int64)
        for half in halves:
            counts[half] = np.bincount(random.integers(0, len(half), len(half)), minlength=len(half))
        yield counts


def _of_counts(records: Records, protocol: Protocol, modules: Mapping[str, ModuleType]) -> OfCounts:
    """These numbers of a draw: by the metrics' `of_counts` where these give them, else by `compute`, which is slow."""
    able = [module for module in dict.fromkeys(modules.values()) if hasattr(module, "of_counts")]
    quick: list[OfCounts] = [module.of_counts(records, protocol) for module in able]
    once = np.ones(len(records), np.int64)
    known = {name for measure in quick for name in measure(once)}
    slow = {name: module for name, module in modules.items() if name not in known}

    def numbers(counts: I64) -> dict[str, float]:
        found = {name: value for measure in quick for name, value in measure(counts).items() if name in modules}
        if slow:
            found |= _whole(records.drawn(np.repeat(np.arange(len(records)), counts)), protocol, slow)
        return found

    return numbers


def _draw_units(
    values: Mapping[str, F64], records: Records, protocol: Protocol, modules: Mapping[str, ModuleType], seed: int
) -> None:
    """Fill in these numbers for draws of whole units: the same units for the same seed whatever the model."""
    for module in dict.fromkeys(modules.values()):
        names = [name for name in modules if modules[name] is module]
        units: F64 = module.units(records)
        random = np.random.default_rng((seed, 2))  # of their own, so that asking for them changes no other draw
        for draw in range(len(values[names[0]]) if len(units) else 0):
            numbers = module.of_units(units[random.integers(0, len(units), len(units))], protocol)
            for name in names:
                values[name][draw] = numbers[name]


def _whole(records: Records, protocol: Protocol, modules: Mapping[str, ModuleType]) -> dict[str, float]:
    """The numbers of these records by their own compute; NaN for those that it leaves out."""
    numbers: dict[str, float] = {}
    for module in dict.fromkeys(modules.values()):
        numbers.update(module.compute(records, protocol))
    return {name: numbers.get(name, np.nan) for name in modules}


def _differences(a: Drawn, b: Drawn, names: Sequence[str], unshared: int) -> dict[str, Difference]:
    out = {}
    for name in names:
        difference = a.values[name] - b.values[name]
        low, high = middle(difference)
        value = float(a.whole[name] - b.whole[name])
        out[name] = Difference(value, low, high, _p(difference), len(a.records), unshared)
    return out


def middle(values: F64) -> tuple[float, float]:
    """The ends of the middle LEVEL of the values that are defined; NaN where none is."""
    defined = values[~np.isnan(values)]
    if len(defined) == 0:
        return float("nan"), float("nan")
    low, high = np.quantile(defined, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return float(low), float(high)


def _p(difference: F64) -> float:
    defined = difference[~np.isnan(difference)]
    if len(defined) == 0:
        return float("nan")
    fewer = min(int((defined <= 0).sum()), int((defined >= 0).sum()))
    return min(1.0, 2 * (fewer + 1) / (len(defined) + 1))
