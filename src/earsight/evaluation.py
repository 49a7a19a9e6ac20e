"""Evaluation: one record per clip and the numbers they make, with what a reader needs to know to trust them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np

from earsight import registry
from earsight.data.clips import ClipSet, Some
from earsight.errors import DataError, UsageError
from earsight.metrics import average_precision, loc_acc
from earsight.metrics.base import Records, defined
from earsight.protocols import Protocol
from earsight.resampling import centre_disc
from earsight.scoring import score
from earsight.types import MapArrays

Failures = tuple[tuple[str, str], ...]
AT_ONCE = 1024
"""Clips that the centre prior is scored on together: its map is ranked once for them, and all their truths are held."""
BARE = 0.01
"""Share of positives without ground truth above which an evaluation warns; VGG-SS has 2 of 5158."""

ALIKE = (
    "All confidences are equal: AP, max-F1 and AUROC say nothing about this model. Maps that were stretched one by one "
    "have lost theirs; save them as the model gives them."
)
NO_POSITIVES = "No clip has a visible source: whether the model finds one was not measured."


@dataclass(frozen=True)
class Evaluation:
    """One model on one set under one protocol. Numbers are fractions.

    Args:
        set_name: "set:split".
        list_hash: short hash of the rows that were scored: two numbers with the same one are of the same clips.
        protocol: how maps became numbers.
        audio: "real", "shuffled", "silent", or "none" for the centre prior.
        records: one line per clip that could be read, in the set's order.
        metrics: every metric by name.
        floor: F1 of accepting everything, which max-F1 cannot fall below.
        ceiling: best LocAcc that the protocol's pixel threshold allows on these positives.
        failures: (id, reason) of the clips that are missing or could not be read.
        model: what to call it in tables.
        maps: the maps on the method's own grid, in the order of the records, when they were asked for.
        rows: how many clips the list has.
        warnings: what a reader of the numbers should know, for example that test clips were trained on.
        threshold: the confidence from which on a source is called visible, where one is calibrated for the protocol.
        training: how the model was trained, as plain values ("on", "clips", ...); empty when that is unknown.
        full_list_hash: hash of the list with the clips that are missing or could not be read; empty without such.
    """

    set_name: str
    list_hash: str
    protocol: Protocol
    audio: str
    records: Records
    metrics: dict[str, float]
    floor: float
    ceiling: float
    failures: Failures = ()
    model: str = "model"
    maps: MapArrays | None = field(default=None, repr=False, compare=False)
    rows: int = 0
    warnings: tuple[str, ...] = ()
    threshold: float | None = None
    training: dict[str, Any] = field(default_factory=dict)
    full_list_hash: str = ""

    @classmethod
    def of(
        cls,
        records: Records,
        clip_set: ClipSet,
        protocol: Protocol,
        *,
        failures: Failures = (),
        warnings: tuple[str, ...] = (),
        metrics: Sequence[str] = (),
    ) -> Evaluation:
        """Measure records of a set's clips, as a model's on the real sound; `metrics` are from outside the package."""
        positive = records.where(records.positives)
        bare = len(
            {row.id for row in clip_set.rows if row.positive and not row.boxes}.intersection(positive.id.tolist())
        )
        if bare > BARE * len(positive):
            warnings += (f"{bare} of {len(positive)} positives have no ground truth, and count as not found.",)
        scored = set(records.id.tolist())
        at = [i for i, row in enumerate(clip_set.rows) if row.id in scored]
        whole = len(at) == len(clip_set)
        return cls(
            clip_set.name,
            (clip_set if whole else Some(clip_set, at)).list_hash(),
            protocol,
            "real",
            records,
            measure(records, protocol, metrics),
            average_precision.f1_floor(records, protocol),
            loc_acc.ceiling(positive.area, protocol, positive.support),
            failures,
            rows=len(clip_set),
            warnings=warnings,
            full_list_hash="" if whole else clip_set.list_hash(),
        )

    @property
    def n(self) -> int:
        return len(self.records)

    def to_json(self) -> dict[str, Any]:
        """Plain values: everything but the records and maps; what is undefined is null."""
        kinds, counts = np.unique(self.records.kind, return_counts=True)
        return {
            "model": self.model,
            "set": self.set_name,
            "list_hash": self.list_hash,
            **({"full_list_hash": self.full_list_hash} if self.full_list_hash else {}),
            "audio": self.audio,
            "protocol": {**asdict(self.protocol), "hash": self.protocol.hash},
            "n": self.n,
            "rows": self.rows,
            "kinds": {str(kind): int(count) for kind, count in zip(kinds, counts, strict=True)},
            "metrics": {name: defined(value) for name, value in sorted(self.metrics.items())},
            "floor": defined(self.floor),
            "ceiling": defined(self.ceiling),
            "failures": [{"id": id, "reason": reason} for id, reason in self.failures],
            "warnings": list(self.warnings),
            **({"training": self.training} if self.training else {}),
        }


def alike(e: Evaluation) -> bool:
    """Whether all clips have the same confidence."""
    return len(e.records) > 1 and len(np.unique(e.records.confidence)) == 1


def need_truth(clip_set: ClipSet) -> None:
    """Refuse positives of which none has ground truth: every one would count as missed, and every number be 0."""
    positives = [row for row in clip_set.rows if row.positive]
    if positives and not any(row.boxes for row in positives):
        raise DataError(
            f"Expected boxes for the positives of {clip_set.name}, but got none for all {len(positives)}: without "
            "ground truth there is no AP, LocAcc or ceiling. Add them (boxes.csv in a folder set), or name a set or "
            "split that has them."
        )


def measure(records: Records, protocol: Protocol, metrics: Sequence[str] = ()) -> dict[str, float]:
    """Every metric of the metrics folder on these records, and those of modules from outside the package."""
    numbers: dict[str, float] = {}
    for name in (*registry.names("metric"), *metrics):
        found = registry.load("metric", name).compute(records, protocol)
        if twice := sorted(set(found) & set(numbers)):
            raise UsageError(
                f"Expected numbers with names of their own from the metric {name}, but got {twice[0]}, which there is "
                "already. Rename it."
            )
        numbers.update(found)
    return numbers


def center_prior(
    clip_set: ClipSet, protocol: Protocol, unreadable: Failures = (), metrics: Sequence[str] = ()
) -> Evaluation:
    """The centre prior as an evaluation: what pointing at the middle of every picture scores. Reads no media.

    Clips that are `unreadable` for the models beside it are left out here too.
    """
    need_truth(clip_set)
    known = {id for id, _ in unreadable}
    used = [row for row in clip_set.rows if row.id not in known]
    if not used:
        raise DataError(f"Expected clips to evaluate in {clip_set.name}, but got none. Check the set and its limit.")
    one, parts = centre_disc(protocol.size), []
    for start in range(0, len(used), AT_ONCE):
        rows = used[start : start + AT_ONCE]
        maps = np.broadcast_to(one, (len(rows), *one.shape))
        own = np.ones(len(rows), np.float32)
        parts += score(MapArrays(maps, maps, (0.0, 1.0), own), rows, [protocol], True, metrics)
    records = Records.concat(parts)
    prior = Evaluation.of(records, clip_set, protocol, failures=unreadable, metrics=metrics)
    return replace(prior, audio="none", model="centre prior")
