"""What a report says of a group beyond its numbers: intervals, audio drops, references, and warnings."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from earsight.escape import visible
from earsight.evaluation import ALIKE, NO_POSITIVES, alike
from earsight.metrics.base import TITLES, defined, hits
from earsight.report import bootstrap
from earsight.report.bootstrap import Difference
from earsight.report.groups import Group, listed, shareable
from earsight.report.tables import percent, points, span

if TYPE_CHECKING:
    from earsight.evaluation import Evaluation

Interval = tuple[float, float]
DROPS = ("loc_acc", "ap")
"""The numbers of which the audio drop is measured."""
HELPS = 0.005
"""max-F1 must be this far above its floor for the confidence to count as a help."""
LISTENS = 0.005
"""What a model must lose at least, with another sound, to count as one that listens."""
MISSING = 0.01
"""Share of missing clips above which a report warns."""


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
    """One of the numbers that come first, with its interval, its references, and what it says."""

    title: str
    value: float
    interval: Interval
    references: tuple[Reference, ...]
    sentence: str

    @property
    def known(self) -> bool:
        return not math.isnan(self.value)

    @property
    def ends(self) -> Interval:
        """The interval; where it is undefined, the value alone."""
        low, high = (self.value if math.isnan(end) else end for end in self.interval)
        return low, high


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
    drops: Mapping[str, Mapping[str, Mapping[str, Difference]]]
    warnings: Mapping[str, tuple[str, ...]]

    @classmethod
    def of(cls, group: Group, draws: int) -> Card:
        """Everything about a group; `draws` is how many times the clips are drawn for intervals."""
        records = [e.records for e in group.evaluations]
        measured = bootstrap.drawn(records, group.protocol, tuple(TITLES), draws)
        drawn = {id(e): one for e, one in zip(group.evaluations, measured, strict=True)}
        intervals = {(e.model, e.audio): drawn[id(e)].intervals() for e in group.evaluations}
        drops: dict[str, dict[str, dict[str, Difference]]] = {}
        for e in group.models:
            for audio, control in group.controls(e.model).items():
                drops.setdefault(e.model, {})[audio] = drawn[id(e)].minus(drawn[id(control)], DROPS)
        centre = group.centre
        middle = None if centre is None else (centre.metrics["loc_acc"], intervals[centre.model, "none"]["loc_acc"])
        warnings = {e.model: warnings_of(e, middle, drops.get(e.model, {})) for e in group.models}
        return cls(group, intervals, drops, warnings)

    @property
    def all_warnings(self) -> list[str]:
        """The warnings of all models, each once, with the model's name where it is not about all of them."""
        shared = set.intersection(*map(set, self.warnings.values())) if self.warnings else set()
        return list(
            dict.fromkeys(
                text if text in shared else f"{visible(model)}: {text}"
                for model, texts in self.warnings.items()
                for text in texts
            )
        )

    def headlines(self, e: Evaluation) -> list[Headline]:
        """The numbers of one model that come first."""
        references, intervals = _references(e, self.group.centre), self.intervals[e.model, e.audio]
        return [
            Headline(
                title,
                e.metrics.get(name, math.nan),
                intervals[name],
                references[name],
                _sentence(name, e, references[name]),
            )
            for name, title in self.group.headings.items()
        ]

    def drop_rows(self, e: Evaluation) -> list[dict[str, str]]:
        """The audio drops of one model as rows of a table."""
        return [
            {
                "sound": audio,
                "number": TITLES[name],
                "drop": points(one.value),
                "95% interval": span((one.low, one.high), signed=True),
            }
            for audio, drop in self.drops.get(e.model, {}).items()
            for name, one in drop.items()
        ]

    def headline_rows(self, e: Evaluation) -> list[dict[str, str]]:
        """The numbers of one model that come first, as rows of a table."""
        return [
            {
                "number": one.title,
                "value": percent(one.value),
                "95% interval": span(one.interval),
                "beside": ", ".join(f"{other.label} {percent(other.value)}" for other in one.references) or "-",
            }
            for one in self.headlines(e)
        ]

    def to_json(self, e: Evaluation, records: str) -> dict[str, Any]:
        """One evaluation's part of metrics.json; `records` is the file with its records."""
        return {
            **e.to_json(),
            "failures": [{"id": id, "reason": shareable(reason)} for id, reason in e.failures],
            "intervals": {name: _pair(*one) for name, one in self.intervals[e.model, e.audio].items()},
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
                    name: {"interval": _pair(one.low, one.high), "value": defined(one.value)}
                    for name, one in drop.items()
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
            "warnings": self.all_warnings,
        }


def warnings_of(
    e: Evaluation, centre: tuple[float, Interval] | None, drops: Mapping[str, Mapping[str, Difference]]
) -> tuple[str, ...]:
    """Warnings about one model; `centre` is the LocAcc of the centre prior with its interval."""
    found = [*e.warnings, *_about_the_list(e)]
    value = e.metrics.get("loc_acc", math.nan)
    if centre is not None and value <= centre[1][1]:
        found.append(
            f"LocAcc {percent(value)} is not above the centre prior ({percent(centre[0])}, 95% interval "
            f"{span(centre[1])}): pointing at the middle does as well."
        )
    more = e.metrics.get("max_f1", math.nan) - e.floor
    if alike(e):
        found.append(ALIKE)
    elif more < HELPS and not e.records.positives.all():
        found.append(
            f"max-F1 is only {percent(more)} points above its floor: accepting every clip does as well, so the "
            "confidence does not help."
        )
    found += filter(None, (_about_listening(audio, drop) for audio, drop in drops.items()))
    return tuple(dict.fromkeys(found))


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


def _about_listening(audio: str, drop: Mapping[str, Difference]) -> str | None:
    known = {name: one for name, one in drop.items() if not math.isnan(one.value)}
    if not known or any(one.value >= LISTENS and one.low > 0 for one in known.values()):
        return None
    lost = " and ".join(f"{points(one.value)} points of {TITLES[name]}" for name, one in known.items())
    sound = "another clip's sound" if audio == "shuffled" else "silence"
    largest = max(one.value for one in known.values())
    if largest >= LISTENS:
        return f"With {sound} it loses {lost}, which could be chance: nothing shows that it listens."
    if largest <= 0:
        return f"With {sound} it loses nothing ({lost}): it does not seem to listen."
    return f"With {sound} it loses only {lost}: it does not seem to listen."


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
    known = {one.label: percent(one.value) for one in references}
    if name == "ap":
        return (
            "How well it finds visible sources and claims nothing where there is none, over all confidences. "
            f"A random confidence would give about {known['random confidence']}."
        )
    if name == "max_f1":
        return (
            "The best balance of precision and recall that one confidence threshold gives. Accepting every clip gives "
            f"{known['floor']}: the confidence is worth {percent(value - e.floor)} points."
        )
    middle = f" Pointing at the middle gives {known['centre prior']}." if "centre prior" in known else ""
    if name == "loc_acc":
        sign = ">" if e.protocol.strict_hits else "\u2265"
        return (
            f"{100 * value:.0f} of 100 visible sources are found in the right place (cIoU {sign} {e.protocol.gamma:g})."
            f"{middle} The pixel threshold allows at most {known['ceiling']}."
        )
    if name == "auc":
        return f"LocAcc averaged over every cIoU from 0 to 1 that could make a hit.{middle}"
    return (
        f"In {100 * value:.0f} of 100 pairs the clip with a visible source has the higher confidence than the clip "
        "without, wherever it points. 50 is chance."
    )


def _pair(low: float, high: float) -> list[float | None]:
    return [defined(low), defined(high)]
