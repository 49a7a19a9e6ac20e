"""What a report says of a group beyond its numbers: intervals, audio drops, references, and warnings."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from earsight.escape import visible
from earsight.metrics.base import TITLES, defined, hits
from earsight.report import bootstrap
from earsight.report.groups import Group, listed, shareable
from earsight.report.tables import percent, points, span

if TYPE_CHECKING:
    from earsight.evaluation import Evaluation

DROPS = ("loc_acc", "ap")
"""The numbers of which the audio drop is measured."""
Interval = tuple[float, float]
HELPS = 0.005
"""max-F1 must be this far above its floor for the confidence to count as a help."""
LISTENS = 0.005
"""What a model must lose at least, with another sound, to count as one that listens."""
ALIKE = (
    "All confidences are equal: AP, max-F1 and AUROC say nothing about this model. Maps that were stretched one by one "
    "have lost theirs; save them as the model gives them."
)
NO_POSITIVES = "No clip has a visible source: whether the model finds one was not measured."
MISSING = 0.01
"""Share of missing clips above which a report says so first."""


@dataclass(frozen=True)
class Drop:
    """What a model loses with another sound, as fractions: real minus control, and its 95% interval."""

    value: float
    interval: Interval

    @property
    def seen(self) -> bool:
        """Whether the loss is too large and too certain to be nothing."""
        return self.value >= LISTENS and self.interval[0] > 0


@dataclass(frozen=True)
class Reference:
    """A number that gives another one its meaning.

    Args:
        label: what it is.
        value: a fraction.
        bound: "low" when nothing can lie below it, "high" when nothing can lie above it, else "".
    """

    label: str
    value: float
    bound: str = ""


@dataclass(frozen=True)
class Headline:
    """One of the numbers that come first, with its interval, what it stands beside, and what it says."""

    title: str
    value: float
    interval: Interval
    references: tuple[Reference, ...]
    sentence: str


@dataclass(frozen=True)
class Card:
    """One group with everything that was worked out about it.

    Args:
        group: the evaluations.
        intervals: by model and audio, the 95% interval of each number.
        drops: by model and control, what the model loses with that sound (real minus control), for DROPS.
        warnings: by model, what a reader must know before believing a number.
    """

    group: Group
    intervals: Mapping[tuple[str, str], Mapping[str, Interval]]
    drops: Mapping[str, Mapping[str, Mapping[str, Drop]]]
    warnings: Mapping[str, tuple[str, ...]]

    @classmethod
    def of(cls, group: Group, draws: int) -> Card:
        """Everything about a group; `draws` is how many times the clips are drawn for intervals."""
        records = [e.records for e in group.evaluations]
        measured = bootstrap.drawn(records, group.protocol, tuple(TITLES), draws)
        drawn = {id(e): one for e, one in zip(group.evaluations, measured, strict=True)}
        intervals = {(e.model, e.audio): drawn[id(e)].intervals() for e in group.evaluations}
        drops: dict[str, dict[str, dict[str, Drop]]] = {}
        for e in group.models:
            for audio, control in group.controls(e.model).items():
                found = drawn[id(e)].minus(drawn[id(control)], DROPS)
                drop = {name: Drop(one.value, (one.low, one.high)) for name, one in found.items()}
                drops.setdefault(e.model, {})[audio] = drop
        centre = group.centre
        beside = (
            None if centre is None else (centre.metrics["loc_acc"], intervals[centre.model, centre.audio]["loc_acc"])
        )
        warnings = {e.model: warnings_of(e, beside, drops.get(e.model, {})) for e in group.models}
        return cls(group, intervals, drops, warnings)

    @property
    def told(self) -> list[str]:
        """The warnings of all models, each once, with the model's name where there are several."""
        models = list(self.warnings)
        everyone = set(self.warnings[models[0]]).intersection(*self.warnings.values()) if models else set()
        alone = len(models) == 1
        return list(
            dict.fromkeys(
                text if alone or text in everyone else f"{visible(model)}: {text}"
                for model, texts in self.warnings.items()
                for text in texts
            )
        )

    def headlines(self, e: Evaluation) -> list[Headline]:
        """The numbers of one model that come first."""
        found = {name: e.metrics.get(name, math.nan) for name in TITLES}
        beside = _references(e, self.group.centre)
        intervals = self.intervals[e.model, e.audio]
        return [
            Headline(title, found[name], intervals[name], beside[name], _sentence(name, e, beside[name]))
            for name, title in self.group.headings.items()
        ]

    def to_json(self, e: Evaluation, records: str) -> dict[str, Any]:
        """One evaluation's part of metrics.json; `records` is the file with its records."""
        return {
            **e.to_json(),
            "failures": [{"id": id, "reason": shareable(reason)} for id, reason in e.failures],
            "intervals": {name: _pair(one) for name, one in self.intervals[e.model, e.audio].items()},
            "missing": [id for id, _ in e.failures],
            "records": records,
            "rows": listed(e),
            "warnings": list(self.warnings.get(e.model, ()) if e.audio == "real" else e.warnings),
        }

    def group_json(self) -> dict[str, Any]:
        """What metrics.json says of the group as a whole."""
        drops = {
            model: {
                audio: {
                    name: {"interval": _pair(one.interval), "value": defined(one.value)} for name, one in drop.items()
                }
                for audio, drop in controls.items()
            }
            for model, controls in self.drops.items()
        }
        return {
            "audio_drop": drops,
            "full_list_hash": self.group.full_list_hash,
            "protocol": self.group.protocol.name,
            "protocol_hash": self.group.protocol.hash,
            "set": self.group.set_name,
            "warnings": self.told,
        }


def _references(e: Evaluation, centre: Evaluation | None) -> dict[str, tuple[Reference, ...]]:
    at_random = float(hits(e.records, e.protocol).mean()) if e.records.positives.any() else math.nan
    middle = {name: math.nan if centre is None else centre.metrics.get(name, math.nan) for name in ("loc_acc", "auc")}
    found = {
        "ap": [Reference("random confidence", at_random)],
        "max_f1": [Reference("floor", e.floor, "low")],
        "loc_acc": [Reference("centre prior", middle["loc_acc"]), Reference("ceiling", e.ceiling, "high")],
        "auc": [Reference("centre prior", middle["auc"])],
        "auroc": [Reference("chance", 0.5)],
    }
    return {name: tuple(one for one in some if not math.isnan(one.value)) for name, some in found.items()}


def _sentence(name: str, e: Evaluation, references: tuple[Reference, ...]) -> str:
    """What a number says, in one or two plain sentences."""
    value = e.metrics.get(name, math.nan)
    if math.isnan(value):
        lacks = "without" if e.records.positives.any() else "with"
        return f"Undefined: the list has no clips {lacks} a visible source."
    beside = {one.label: percent(one.value) for one in references}
    if name == "ap":
        return (
            "How well it finds visible sources and claims nothing where there is none, over all confidences. "
            f"A random confidence would give about {beside['random confidence']}."
        )
    if name == "max_f1":
        more = percent(value - e.floor)
        return (
            "The best balance of precision and recall that one confidence threshold gives. "
            f"Accepting every clip gives {beside['floor']}: the confidence is worth {more} points."
        )
    middle = f" Pointing at the middle gives {beside['centre prior']}." if "centre prior" in beside else ""
    if name == "loc_acc":
        sign = ">" if e.protocol.strict_hits else "\u2265"
        return (
            f"{100 * value:.0f} of 100 visible sources are found in the right place (cIoU {sign} {e.protocol.gamma:g})."
            f"{middle} The pixel threshold allows at most {beside['ceiling']}."
        )
    if name == "auc":
        return f"LocAcc averaged over every cIoU from 0 to 1 that could make a hit.{middle}"
    return (
        f"In {100 * value:.0f} of 100 pairs the clip with a visible source has the higher confidence than the clip "
        "without, wherever it points. 50 is chance."
    )


def _pair(interval: Interval) -> list[float | None]:
    return [defined(end) for end in interval]


def warnings_of(
    e: Evaluation, centre: tuple[float, Interval] | None, drops: Mapping[str, Mapping[str, Drop]]
) -> tuple[str, ...]:
    """Warnings about one model; `centre` is the LocAcc of the centre prior with its interval."""
    found = [*e.warnings, *_about_the_list(e)]
    value = e.metrics.get("loc_acc", math.nan)
    if centre is not None and not math.isnan(value) and value <= centre[1][1]:
        found.append(
            f"LocAcc {percent(value)} is not above the centre prior ({percent(centre[0])}, 95% interval "
            f"{span(centre[1])}): pointing at the middle does as well."
        )
    negatives = bool((~e.records.positives).any())
    if alike(e):
        found.append(ALIKE)
    elif negatives and e.metrics.get("max_f1", math.nan) - e.floor < HELPS:
        more = percent(e.metrics["max_f1"] - e.floor)
        found.append(
            f"max-F1 is only {more} points above its floor: accepting every clip does as well, so the confidence "
            "does not help."
        )
    found += filter(None, (_about_listening(audio, drop) for audio, drop in drops.items()))
    return tuple(dict.fromkeys(found))


def alike(e: Evaluation) -> bool:
    """Whether all clips have the same confidence."""
    return len(e.records) > 1 and len(np.unique(e.records.confidence)) == 1


def _about_the_list(e: Evaluation) -> list[str]:
    found = []
    rows = listed(e)
    missing = rows - e.n
    if missing > MISSING * rows:
        found.append(
            f"{missing} of {rows} clips are missing ({100 * missing / rows:.1f}%): the numbers are of the rest."
        )
    positives = int(e.records.positives.sum())
    unknown = int((e.records.kind == "unknown").sum())
    if unknown:
        found.append(f"The kind of {unknown} negatives is unknown: there are no numbers for each kind.")
    if positives == e.n:
        found.append(
            "Every clip has a visible source: AP and max-F1 do not measure whether the model claims nothing where "
            "there is none."
        )
    if positives == 0:
        found.append(NO_POSITIVES)
    if e.protocol.threshold == "adaptive":
        found.append("The protocol looks at the size of the ground truth: its masks are no predictions.")
    return found


def _about_listening(audio: str, drop: Mapping[str, Drop]) -> str | None:
    defined = {name: one for name, one in drop.items() if not math.isnan(one.value)}
    if not defined or any(one.seen for one in defined.values()):
        return None
    lost = " and ".join(f"{points(one.value)} points of {TITLES[name]}" for name, one in defined.items())
    sound = "another clip's sound" if audio == "shuffled" else "silence"
    largest = max(one.value for one in defined.values())
    if largest >= LISTENS:
        return f"With {sound} it loses {lost}, which could be chance: nothing shows that it listens."
    if largest <= 0:
        return f"With {sound} it loses nothing ({lost}): it does not seem to listen."
    return f"With {sound} it loses only {lost}: it does not seem to listen."
