"""Warnings: what a reader must know before believing a number."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from earsight.evaluation import Evaluation
from earsight.metrics.base import TITLES
from earsight.report.groups import listed
from earsight.report.text import percent, points, span

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
