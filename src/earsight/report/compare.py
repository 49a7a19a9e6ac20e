"""Comparison: reports in one table beside published numbers, with what keeps rows apart and which differences count."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from earsight.errors import UsageError
from earsight.metrics.base import higher_is_better, module_of, without_negatives
from earsight.protocols import PROTOCOLS
from earsight.report import published
from earsight.report.bootstrap import Difference, paired
from earsight.report.results import Result

TABLES = ("table2", "table3", "table5", "table6", "table7")
"""Published tables that reports stand beside unless one is named: all results but the ablations."""
NONE = "none"
Group = tuple[str, str, int]
"""List hash, protocol hash and number of clips: rows with the same can be compared."""


@dataclass(frozen=True)
class Shown:
    """One line of the table: a model of a report, or a published method. Values are fractions.

    `n` is how many clips were scored, None where that is not known, as of published numbers.
    `group` is None for rows that nothing else can be compared with, such as a control or a number with early stopping.
    """

    name: str
    source: str
    trained_on: str
    early_stop: str
    protocol: str
    n: int | None
    values: dict[str, float]
    group: Group | None
    ours: bool


@dataclass(frozen=True)
class Pair:
    """Two models on the clips that both have, under one protocol."""

    first: str
    second: str
    protocol: str
    differences: dict[str, Difference]


@dataclass(frozen=True)
class Comparison:
    """Everything about one set.

    Args:
        rows: reports in the order given, then published numbers.
        warnings: what must not be compared, and why.
        tests: the first model against each other, where list and protocol are the same.
        untested: why there is no test between others.
        gammas: the cIoU that makes a hit in each row; 0.5 in published ones.
    """

    set: str
    rows: tuple[Shown, ...]
    warnings: tuple[str, ...]
    tests: tuple[Pair, ...]
    untested: tuple[str, ...]
    gammas: tuple[float, ...]


def compare(
    reports: Sequence[Sequence[Result]], metrics: Sequence[str], table: str = "", draws: int = 2000, seed: int = 0
) -> list[Comparison]:
    """One comparison for each set of the reports. `table` is a published one, "none", or empty for all that fit."""
    for name in metrics:
        module_of(name)
    chosen = TABLES if not table else () if table == NONE else (published.table(table).name,)
    results = [result for report in reports for result in report]
    for name in metrics:
        _need_somewhere(name, results)
    out = []
    for set_name in dict.fromkeys(result.set for result in results):
        mine = _once([result for result in results if result.set == set_name])
        names = _names(mine)
        beside = published.for_set(set_name, metrics, chosen) if chosen else []
        rows = [_ours(result, names[i], metrics) for i, result in enumerate(mine)]
        rows += [_theirs(line, metrics, _official(mine, set_name)) for line in beside]
        real = [(names[i], result) for i, result in enumerate(mine) if result.audio == "real"]
        tests, untested = _tests(real, metrics, draws, seed)
        untested += [
            f"No test with {report[0].report}: it has nothing on {set_name}."
            for report in reports
            if all(result.set != set_name for result in report)
        ]
        told = [*_apart(real, tests), *_controls(mine), *_against_published(real, set_name, beside)]
        if table and table != NONE and not beside:
            told.append(f"{table} has no number of these on {set_name}.")
        gammas = sorted({float(r.protocol.get("gamma", 0.5)) for r in mine} | ({0.5} if beside else set()))
        out.append(Comparison(set_name, tuple(rows), tuple(told), tuple(tests), tuple(untested), tuple(gammas)))
    return out


def leading(reports: Sequence[Sequence[Result]]) -> Sequence[str]:
    """AP, max-F1 and LocAcc, or LocAcc and AUC where no list of these reports has negatives."""
    alone = all(without_negatives(result.metrics) for report in reports for result in report)
    return ("loc_acc", "auc") if alone and reports else ("ap", "max_f1", "loc_acc")


def _need_somewhere(metric: str, results: Sequence[Result]) -> None:
    """Refuse a part of a number, such as the one of a size, that no report and no published table has."""
    if any(metric in result.metrics for result in results):
        return
    if any(published.for_set(name, [metric]) for name in {result.set for result in results}):
        return
    family = f"{metric.partition('/')[0]}/"
    parts = sorted({key for result in results for key in result.metrics if key.startswith(family)})
    raise UsageError(
        f"Expected a number that a report has, but none has {metric}. "
        + (f"They have {', '.join(parts)}." if parts else "Measure it anew, or leave it out.")
    )


def best(rows: Sequence[Shown], metric: str) -> set[int]:
    """Positions of the best values among rows that can be compared; a value alone in its group is the best of none."""
    found: set[int] = set()
    for group in {row.group for row in rows if row.group is not None}:
        at = [i for i, row in enumerate(rows) if row.group == group and not math.isnan(row.values[metric])]
        if len(at) > 1:
            pick = max if higher_is_better(metric) else min
            top = pick(round(100 * rows[i].values[metric], 2) for i in at)
            found |= {i for i in at if round(100 * rows[i].values[metric], 2) == top}
    return found


def _once(results: list[Result]) -> list[Result]:
    """Without the second centre prior of the same list and protocol: each report carries its own."""
    seen: set[tuple[Group, str]] = set()
    out = []
    for result in results:
        key = (_group(result), result.called)
        if result.audio != "none" or key not in seen:
            out.append(result)
        seen.add(key)
    return out


def _group(result: Result) -> Group:
    return result.list_hash, result.protocol_hash, result.n


def _names(results: Sequence[Result]) -> list[str]:
    """What to call each; with its folder where two models of different reports have the same name."""
    names = []
    for result in results:
        others = {other.report: other.folder for other in results if other.model == result.model}
        where = result.folder if len(set(others.values())) == len(others) else result.report
        names.append(result.called if len(others) == 1 else f"{result.called} ({where})")
    return names


def _ours(result: Result, name: str, metrics: Sequence[str]) -> Shown:
    values = {metric: result.metrics.get(metric, math.nan) for metric in metrics}
    group = _group(result) if result.audio == "real" else None
    protocol = str(result.protocol.get("name", result.protocol_hash))
    return Shown(name, result.folder, result.trained_on, result.early_stop, protocol, result.n, values, group, True)


def _theirs(cells: Sequence[published.Cell], metrics: Sequence[str], official: Group | None) -> Shown:
    line, values = cells[0], {cell.metric: cell.value / 100 for cell in cells}
    number = line.table.replace("table", "Table ")
    quoted = line.reported_by == published.ORIGINAL
    untrained = line.early_stop is None and not line.trained_on
    stop = "-" if untrained else {True: "yes", False: "no", None: "not stated"}[line.early_stop]
    return Shown(
        line.method,
        f"{number}, quoted" if quoted else number,
        line.trained_on or "-",
        stop,
        "-",
        None,
        {metric: values.get(metric, math.nan) for metric in metrics},
        official if stop in ("no", "-") and not quoted else None,
        False,
    )


def _official(results: Iterable[Result], set_name: str) -> Group | None:
    """The rows that published numbers can be held against: the published arithmetic on as many clips."""
    same = PROTOCOLS["official"].hash, published.clips(set_name)
    return next((_group(r) for r in results if r.audio == "real" and (r.protocol_hash, r.n) == same), None)


def _tests(
    real: Sequence[tuple[str, Result]], metrics: Sequence[str], draws: int, seed: int
) -> tuple[list[Pair], list[str]]:
    """The first model of each list and protocol against the others, and why the rest has no test."""
    first: dict[tuple[str, str], tuple[str, Result]] = {}
    tests, untested = [], []
    for name, result in real:
        key = (result.full_list_hash, result.protocol_hash)  # a test leaves out what only one of them scored
        if key not in first:
            if first and not any(name == other for other, _ in first.values()):
                same_list = any(result.full_list_hash == list_hash for list_hash, _ in first)
                why = "under another protocol" if same_list else "on another list of clips"
                before = next(iter(first.values()))[0]
                untested.append(f"No test of {name}, protocol {_protocol(result)}: {before} was measured {why}.")
            first[key] = (name, result)
            continue
        reference, other = first[key]
        protocol = result.rebuilt()
        if protocol is None:
            untested.append(
                f"No test of {reference} against {name}: this version of earsight does not know their protocol "
                f"{_protocol(result)}. Write the reports again."
            )
            continue
        found = paired(other.read_records(), result.read_records(), protocol, metrics, draws, seed)
        tests.append(Pair(reference, name, _protocol(result), found))
    return tests, untested


def _apart(real: Sequence[tuple[str, Result]], tests: Sequence[Pair]) -> list[str]:
    """One line for each thing that differs between models and so keeps their rows from being compared."""
    out = []
    lists = _by((name, result.full_list_hash) for name, result in real)
    if len(lists) > 1:
        out.append(f"Rows of different lists of clips are not comparable: {_told(lists)}.")
    protocols = _by((name, _protocol(result)) for name, result in real)
    if len(protocols) > 1:
        out.append(f"Rows of different protocols are not comparable: {_told(protocols)}.")
    numbers = _by((name, f"{result.n} clips") for name, result in real)
    if len(numbers) > 1:
        out.append(f"Rows with different numbers of clips are not comparable: {_told(numbers)}.")
        if any(difference.unshared for test in tests for difference in test.differences.values()):
            out.append("The tests below are of the clips that both models have.")
    elif len({result.missing for _, result in real}) > 1:
        out.append("Compare with care: as many clips, but not the same ones are missing.")
    trained = _by((name, result.trained_on) for name, result in real if result.trained_on != "-")
    if len(trained) > 1:
        out.append(f"Not trained on the same: {_told(trained)}.")
    out += dict.fromkeys(f"{name}: {warning.rstrip('.')}." for name, result in real for warning in result.warnings)
    return out


def _controls(results: Sequence[Result]) -> list[str]:
    have = {r.model: set[str]() for r in results if r.audio == "real"}
    for result in results:
        if result.audio not in ("real", "none"):
            have.setdefault(result.model, set()).add(result.audio)
    kinds = _by((model, " and ".join(sorted(found)) or "none") for model, found in have.items())
    out = ["Rows with shuffled or silent audio are controls, not results."] if any(have.values()) else []
    if len(kinds) > 1:
        out.append(f"Not every model has the same controls: {_told(kinds)}.")
    return out


def _against_published(
    real: Sequence[tuple[str, Result]], set_name: str, beside: Sequence[Sequence[published.Cell]]
) -> list[str]:
    if not beside:
        return []
    out = []
    official = PROTOCOLS["official"]
    other = list(dict.fromkeys(_protocol(r) for _, r in real if r.protocol_hash != official.hash))
    if other:
        out.append(
            f"Published numbers follow the published code's arithmetic, protocol {official}; "
            f"rows under {', '.join(other)} are not comparable with them."
        )
    clips = published.clips(set_name)
    numbers = list(dict.fromkeys(f"{name} with {r.n}" for name, r in real if clips is not None and r.n != clips))
    if numbers:
        out.append(f"Published numbers are on {clips} clips; not comparable with them: {', '.join(numbers)}.")
    if any(cells[0].early_stop for cells in beside):
        out.append(
            "Rows with early stop 'yes' chose their epoch by results on a test list; do not rank others by them."
        )
    if len({cells[0].trained_on for cells in beside if cells[0].trained_on}) > 1:
        out.append("Published rows were trained on different lists; see the column.")
    notes = [f"{c.method}, {c.table.replace('table', 'Table ')}: {c.note}" for cells in beside for c in cells if c.note]
    return out + notes


def _protocol(result: Result) -> str:
    return f"{result.protocol.get('name', '')} ({result.protocol_hash})".strip()


def _by(pairs: Iterable[tuple[str, str]]) -> dict[str, list[str]]:
    out: dict[str, list[str]] = {}
    for name, key in pairs:
        if name not in out.setdefault(key, []):
            out[key].append(name)
    return out


def _told(groups: dict[str, list[str]]) -> str:
    return "; ".join(f"{key}: {', '.join(names)}" for key, names in groups.items())
