"""Maps that any program made, scored on a set: no model, no pictures and no sounds are needed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from earsight import registry
from earsight.config import need
from earsight.data.clips import ClipSet, open_set
from earsight.data.lists import some
from earsight.errors import DataError, EarsightError, UsageError
from earsight.escape import visible
from earsight.evaluation import Evaluation, need_truth
from earsight.mapfile import MapFile
from earsight.metrics.base import Records
from earsight.protocols import Protocol
from earsight.scoring import score

NO_MAP = "no map"
SLACK = 1e-3
"""Share of the bounds by which values may leave them through rounding, which half precision does."""


@dataclass(frozen=True)
class Matched:
    """Which map of a file belongs to which row of a set.

    Args:
        rows: position in the file -> position in the set.
        missing: clips of the set without a map, in the set's order.
        extra: maps of clips that the set does not have, in the file's order.
    """

    rows: dict[int, int]
    missing: tuple[str, ...]
    extra: tuple[str, ...]


@dataclass(frozen=True)
class ScoreSettings:
    """How a file of maps is scored, and what the result is called."""

    audio: str = "real"
    """The sound that the maps are of: "real", or the control "shuffled" or "silent"."""
    name: str = ""
    """What to call the model in tables; by default the file's own name."""
    allow_missing: bool = False
    """Clips without a map are failures of the evaluation, and no reason to refuse the file."""
    ignore_extra: bool = False
    """Maps of clips that the set does not have are left out, and no reason to refuse the file."""
    sizes: bool = True
    """Measure fixed prediction sizes too."""
    metrics: tuple[str, ...] = ()
    """Metrics from outside the package that are measured too, by the names of their modules."""
    batch_size: int = 512
    """Most maps that are held at a time; changes no number."""
    warnings: tuple[str, ...] = ()
    """What a reader of the numbers should know."""
    data: Path | None = None
    """Where to look for the lists of the set's other splits, to which maps that do not fit may belong."""

    def __post_init__(self) -> None:
        need(self.batch_size >= 1, "a batch_size of at least 1", self.batch_size)


def match(maps_file: MapFile, clip_set: ClipSet, settings: ScoreSettings | None = None) -> Matched:
    """Match maps and clips by id; reads no map. What does not fit is named and refused unless it is allowed."""
    settings = settings or ScoreSettings()
    where = f"in {maps_file.path} for {clip_set.name}"
    twice = [id for id, count in Counter(maps_file.ids).items() if count > 1]
    if twice:
        raise DataError(
            f"Expected one map for each clip {where}, but got several for {_named(twice)}. "
            "Leave out all but the right one."
        )
    place = {row.id: i for i, row in enumerate(clip_set.rows)}
    rows = {at: place[id] for at, id in enumerate(maps_file.ids) if id in place}
    extra = tuple(id for id in maps_file.ids if id not in place)
    there = set(maps_file.ids)
    missing = tuple(row.id for row in clip_set.rows if row.id not in there)
    if not rows:
        raise DataError(
            f"Expected maps of the {len(place)} clips of {clip_set.name} ({some(list(place))}), but got only those of "
            f"others in {maps_file.path} ({some(extra)}). "
            f"{other_split(maps_file, clip_set, settings.data) or 'Check the set and how the ids are written.'}"
        )
    if missing and not settings.allow_missing:
        raise DataError(
            f"Expected a map for each of the {len(place)} clips {where}, but got none for {_named(missing)}. "
            + (
                other_split(maps_file, clip_set, settings.data)
                or "Add them, or use --allow-missing to score the rest and have these counted."
            )
        )
    if extra and not settings.ignore_extra:
        raise DataError(
            f"Expected maps of the set's clips only {where}, but got some for {_named(extra)}. "
            + (
                other_split(maps_file, clip_set, settings.data)
                or "Check that it is the right set, or use --ignore-extra to leave these out."
            )
        )
    return Matched(rows, missing, extra)


def other_split(maps_file: MapFile, clip_set: ClipSet, data: Path | None = None) -> str:
    """Which other split of the set the maps are of, and how to score them on it; "" where there is none.

    Maps that have nothing of the set itself may be of a part of another split.
    """
    name, _, split = clip_set.name.partition("+")[0].partition(":")
    if name not in registry.names("set"):
        return ""
    module, ids, most = registry.load("set", name), set(maps_file.ids), ("", 0)
    alone = f" ({name} alone means {name}:{module.DEFAULTS['test']})" if module.DEFAULTS.get("test") else ""
    for other in module.SPLITS:
        if other == split:
            continue
        try:
            theirs = {row.id for row in open_set(f"{name}:{other}", data).rows}
        except (EarsightError, OSError):  # its lists are not here
            continue
        if ids == theirs:
            return f"The ids are exactly those of {name}:{other}: use --on {name}:{other}{alone}."
        if len(ids & theirs) > most[1]:
            most = f"{name}:{other}", len(ids & theirs)
    if not most[1] or ids & {row.id for row in clip_set.rows}:
        return ""
    return f"{most[1]} of the {len(ids)} ids are of {most[0]}: use --on {most[0]}{alone}."


def score_file(
    maps_file: MapFile,
    clip_set: ClipSet,
    protocols: Sequence[Protocol],
    settings: ScoreSettings | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> list[Evaluation]:
    """Measure a file of maps on a set under each protocol, in one pass over the file.

    `progress(done, total)` is called after each batch.
    """
    settings = settings or ScoreSettings()
    need(len(protocols) > 0, "at least one protocol", "none", "For example: --protocol exact")
    need_truth(clip_set)
    matched = match(maps_file, clip_set, settings)
    need_confidence(maps_file, protocols)
    warnings = settings.warnings + unused_confidence(maps_file, protocols)
    parts: list[list[Records]] = []
    order: list[int] = []
    outside: list[int] = []
    for at, maps in maps_file.batches(matched.rows, settings.batch_size):
        rows = [matched.rows[i] for i in at]
        parts.append(score(maps, [clip_set.rows[i] for i in rows], protocols, settings.sizes, settings.metrics))
        order += rows
        if maps.bounds is not None:
            low, high = maps.bounds
            room = SLACK * (high - low)
            bad = (maps.dense.min((1, 2)) < low - room) | (maps.dense.max((1, 2)) > high + room)
            outside += [at[i] for i in np.flatnonzero(bad)]
        if progress is not None:
            progress(len(order), len(matched.rows))
    if outside:
        names = _named([maps_file.ids[i] for i in sorted(outside)])
        low, high = maps_file.bounds or (0.0, 0.0)
        warnings += (f"Maps have values outside their bounds {low:g} and {high:g}: {names}",)
    if matched.missing and (told := other_split(maps_file, clip_set, settings.data)):
        warnings += (f"Scored on {clip_set.name}, of which {len(matched.missing)} clips have no map. {told}",)
    if matched.extra:
        warnings += (f"Maps of clips that are not in the list were left out: {_named(matched.extra)}",)
    back = np.argsort(np.array(order), kind="stable")
    failures = tuple((id, NO_MAP) for id in matched.missing)
    name = visible(settings.name.strip()) or called(maps_file)
    found = []
    for i, protocol in enumerate(protocols):
        records = Records.concat([part[i] for part in parts]).where(back)
        one = Evaluation.of(records, clip_set, protocol, failures=failures, warnings=warnings, metrics=settings.metrics)
        found.append(replace(one, audio=settings.audio, model=name))
    return found


def need_confidence(maps_file: MapFile, protocols: Sequence[Protocol]) -> None:
    """Refuse a protocol that asks for the model's own confidence where the file holds none."""
    native = [protocol.name for protocol in protocols if protocol.confidence == "native"]
    if native and maps_file.confidence is None:
        raise UsageError(
            f"Expected a confidence for each map in {maps_file.path}, since {native[0]} uses the model's own, but got "
            "none. Add them to the file, or use a protocol with confidence=max."
        )


def unused_confidence(maps_file: MapFile, protocols: Sequence[Protocol]) -> tuple[str, ...]:
    """A warning where the file's own confidences serve for nothing, because a protocol takes them from the maps."""
    if maps_file.confidence is None or any(one.confidence == "native" for one in protocols):
        return ()
    names = [one.name for one in protocols]
    own = f"{names[0]}{',' if ':' in names[0] else ':'}confidence=native"
    told = f"The confidences in {maps_file.path} are not used by {', '.join(names)}. To use them: --protocol {own}"
    return (told,)


def called(maps_file: MapFile) -> str:
    """What to call the model that made a file: the file's own name."""
    path = maps_file.path.resolve()
    return visible(path.name if path.is_dir() else path.stem)


def _named(ids: Sequence[str]) -> str:
    return f"{len(ids)} clip{'s' * (len(ids) > 1)} ({some(ids)})"
