"""Evaluations on the same list under the same protocol, and the tables of their numbers."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING

from earsight.errors import UsageError
from earsight.escape import visible
from earsight.metrics import interactive, loc_acc, negatives, sizes
from earsight.metrics.base import headings
from earsight.protocols import Protocol
from earsight.report import tables
from earsight.report.tables import percent

if TYPE_CHECKING:
    from earsight.evaluation import Evaluation

CONTROLS = ("shuffled", "silent")
_AUDIO = ("real", *CONTROLS, "none")
MOST_CLASSES = 40
"""Of more classes there is no table; their numbers are in metrics.json."""
_CHOICES = {
    "map": "which map was thresholded: the method's dense one, without plateaus, or the one that its paper draws",
    "size": "side of the square, in pixels, on which prediction and ground truth meet",
    "upsample": "how maps grow to that size",
    "align_corners": "whether the outer cells of a map are stretched to the picture's edge",
    "scaling": "what the pixel threshold sees: scores scaled by the method's bounds, or each map stretched to 0..1",
    "threshold": "which pixels are predicted",
    "level": "share of the pixels left out by top_half, or the score from which on pixels are predicted",
    "strict": "whether pixels must be above the threshold, not equal to it",
    "confidence": "what says how sure the model is that the source is visible",
    "ciou": "whether missed ground truth counts (union) or not (no_miss)",
    "gamma": "cIoU that makes a hit",
    "strict_hits": "whether a hit must be above gamma, not equal to it",
    "average_precision": "every threshold with recall from 0, or the published code's sub-sampled sum",
    "f1": "every threshold, or the published code's ten or eleven",
}


@dataclass(frozen=True)
class Group:
    """Evaluations on one list under one protocol, in the order of a table: models with their controls, then the prior.

    Args:
        evaluations: at least one.
        name: tells the group apart from the report's others in the name of a file.
    """

    evaluations: tuple[Evaluation, ...]
    name: str

    @property
    def set_name(self) -> str:
        return self.evaluations[0].set_name

    @property
    def title(self) -> str:
        return f"{self.set_name}, protocol {self.protocol.name}"

    @property
    def full_list_hash(self) -> str:
        """Of the list that all evaluations share, with the clips that some of them could not use."""
        return _full(self.evaluations[0])

    @property
    def lists(self) -> str:
        """The hash of the clips that were scored; of several, each with its number of clips."""
        found = {e.list_hash: e.n for e in self.evaluations}
        return ", ".join(f"{hash} ({n} clips)" if len(found) > 1 else hash for hash, n in found.items())

    @property
    def protocol(self) -> Protocol:
        return self.evaluations[0].protocol

    @property
    def headings(self) -> dict[str, str]:
        """The main numbers with their headings, in the order in which they lead on this list."""
        return headings({self.protocol.gamma}, negatives=self.negatives)

    @property
    def negatives(self) -> bool:
        """Whether there are any, or nothing but them."""
        positives = self.evaluations[0].records.positives
        return not (positives.any() and positives.all())

    @property
    def models(self) -> list[Evaluation]:
        """The evaluations with the sound that belongs to each clip."""
        return [e for e in self.evaluations if e.audio == "real"]

    @property
    def real(self) -> list[int]:
        """Positions of the models among the evaluations."""
        return [at for at, e in enumerate(self.evaluations) if e.audio == "real"]

    @property
    def centre(self) -> Evaluation | None:
        return next((e for e in self.evaluations if e.audio == "none"), None)

    def controls(self, model: str) -> dict[str, Evaluation]:
        return {e.audio: e for e in self.evaluations if e.model == model and e.audio in CONTROLS}

    @property
    def failures(self) -> dict[str, str]:
        """Id and reason of every clip that some evaluation could not use."""
        return dict(failure for e in self.evaluations for failure in e.failures)


def groups(evaluations: Sequence[Evaluation]) -> list[Group]:
    """The groups in the order in which they first occur."""
    found: dict[tuple[str, str, str], list[Evaluation]] = {}
    for e in evaluations:
        found.setdefault((e.set_name, _full(e), e.protocol.hash), []).append(e)
    several = len({e.protocol.hash for e in evaluations}) > 1
    out = []
    for group in found.values():
        models = list(dict.fromkeys(e.model for e in group))
        group.sort(key=lambda e: (e.audio == "none", models.index(e.model), _AUDIO.index(e.audio)))
        first = group[0]
        out.append(Group(tuple(group), slug(first.set_name, *([first.protocol.name] if several else []))))
    names = [group.name for group in out]
    return [
        Group(group.evaluations, slug(group.name, group.full_list_hash)) if names.count(group.name) > 1 else group
        for group in out
    ]


def _full(e: Evaluation) -> str:
    return e.full_list_hash or e.list_hash


def called(e: Evaluation) -> str:
    """What a line of a table is called."""
    return tables.called(e.model, e.audio)


def listed(e: Evaluation) -> int:
    """How many clips the list has."""
    return e.rows or e.n + len(e.failures)


def names(evaluations: Sequence[Evaluation]) -> list[str]:
    """A file name for each evaluation: the set, and what else it takes to tell them apart."""
    models = {e.model for e in evaluations if e.audio != "none"}
    protocols = {e.protocol.hash for e in evaluations}
    found = []
    for e in evaluations:
        parts = [e.set_name]
        parts += [e.model] if len(models) > 1 and e.audio != "none" else []
        parts += [e.protocol.name] if len(protocols) > 1 else []
        parts += {"real": [], "none": ["centre"]}.get(e.audio, [e.audio])
        found.append(slug(*parts))
    twice = sorted({name for name in found if found.count(name) > 1})
    if twice:
        raise UsageError(f"Expected evaluations that differ in set, model, protocol or audio, but got two {twice[0]}.")
    return found


def slug(*parts: str) -> str:
    """Words as part of a file name.

    >>> slug("toybox:extended", "ez/vsl")
    'toybox-extended-ez-vsl'
    """
    return re.sub(r"[^A-Za-z0-9._]+", "-", "-".join(parts)).strip("-.")


def shareable(reason: str) -> str:
    """A reason without the folders of this computer: a report is passed on, and is the same wherever it was made.

    >>> shareable("/home/me/data/frames/a.jpg: ends too early.")
    'a.jpg: ends too early.'
    """
    return re.sub(r"(?<![\w.:/-])(?:[A-Za-z]:)?[\\/](?:[^\s\\/:'\"]+[\\/])+", "", visible(" ".join(reason.split())))


def lines(evaluations: Sequence[Evaluation]) -> list[dict[str, str]]:
    """The lines of the result table: per set each model, its controls, the centre prior, then the ceiling.

    "F1 floor" is what accepting everything would score as max-F1. Values are in percent with two decimals; what is
    undefined or does not apply is a dash. Where there are several protocols, each line says its own.
    """
    several = len({e.protocol.hash for e in evaluations}) > 1
    grouped = groups(evaluations)
    columns = headings({e.protocol.gamma for e in evaluations}, negatives=any(group.negatives for group in grouped))
    pictures = any(by_picture(group) for group in grouped)
    return [
        {"set": group.set_name, **({"protocol": group.protocol.name} if several else {}), **line}
        for group in grouped
        for line in group_lines(group, columns, pictures)
    ]


def group_lines(
    group: Group, columns: Mapping[str, str] | None = None, pictures: bool | None = None
) -> list[dict[str, str]]:
    """The lines of one set and protocol.

    `columns` are the main numbers with their headings, by default as they lead on the group's list. `pictures` asks for
    IIoU too, by default where pictures have several sounds.
    """
    columns = columns or group.headings
    several_sounds = by_picture(group)
    pictures = bool(several_sounds) if pictures is None else pictures

    def line(model: str, numbers: Mapping[str, str], floor: str, iiou: str, n: str) -> dict[str, str]:
        found = {"model": model}
        for name, title in columns.items():
            found[title] = numbers.get(name, "-")
            if name == "max_f1":  # beside the number that it is the floor of
                found["F1 floor"] = floor
        return {**found, **({"IIoU": iiou} if pictures else {}), "N": n}

    out = []
    for e in group.evaluations:
        numbers = {name: _number(e, name) for name in columns}
        out.append(line(called(e), numbers, percent(e.floor), _number(e, "iiou"), str(e.n)))
    first = (*group.models, *group.evaluations)[0]
    positive = first.records.positives
    best = loc_acc.best_ciou(first.records.area[positive], group.protocol, first.records.support[positive])
    ceiling = {"loc_acc": percent(first.ceiling), "auc": percent(loc_acc.auc(best))}
    iiou = several_sounds[-1]["IIoU"] if several_sounds else "-"
    return [*out, line(f"ceiling ({group.protocol.threshold})", ceiling, "-", iiou, "-")]


def details(group: Group) -> dict[str, list[dict[str, str]]]:
    """The tables by size, by kind, by class and by picture under their titles, those that hold anything."""
    alone = len(group.models) == 1  # else a column is a model, and the title says which number it holds
    found = {"Pictures with several sounds: all sources found": by_picture(group)}
    if group.models:
        found = {
            "By size of the source" if alone else "LocAcc by size of the source": by_size(group),
            "By kind of negative" if alone else "max-F1 by kind of negative": by_kind(group),
            "By class of the sound" if alone else "LocAcc by class of the sound": by_class(group),
            **found,
        }
    return {title: rows for title, rows in found.items() if rows}


def by_size(group: Group) -> list[dict[str, str]]:
    """LocAcc, and AP where there is one model, for sources of each size, beside the centre prior."""
    first = group.models[0]
    counts = sizes.counts(first.records, group.protocol)
    more = {"AP": lambda part: _number(first, f"ap/{part}")} if len(group.models) == 1 else {}
    return _by_part(group, "size", counts, ("LocAcc", "loc_acc"), more)


def by_kind(group: Group) -> list[dict[str, str]]:
    """max-F1, and what else the confidence is worth where there is one model, against each kind of negative."""
    first = group.models[0]
    counts = {kind: int((first.records.kind == kind).sum()) for kind in negatives.kinds(first.records)}
    more: dict[str, Callable[[str], str]] = {}
    if len(group.models) == 1:
        more["F1 floor"] = lambda kind: percent(negatives.floor(first.records, group.protocol, kind))
        more["AUROC"] = lambda kind: _number(first, f"auroc/{kind}")
        more["false alarms at 90% recall"] = lambda kind: _number(first, f"false_alarm_at_90/{kind}")
    return _by_part(group, "kind", counts, ("max-F1", "max_f1"), more, centre=False)


def by_class(group: Group) -> list[dict[str, str]]:
    """LocAcc, with its ceiling and the pointing game where there is one model, of each class; none where they are many.

    Classes are small or large things, so their ceilings differ, and pointing tells who is found but badly covered.
    """
    first = group.models[0]
    counts = loc_acc.class_counts(first.records)
    if not 1 < len(counts) <= MOST_CLASSES:
        return []

    def ceiling(name: str) -> str:
        of_class = first.records.where(first.records.positives & (first.records.label == name))
        return percent(loc_acc.ceiling(of_class.area, group.protocol, of_class.support))

    more: dict[str, Callable[[str], str]] = {"ceiling": ceiling}
    if len(group.models) == 1:
        more["pointing"] = lambda name: _number(first, f"pointing_of/{name}")
    return _by_part(group, "class", counts, ("LocAcc", "loc_acc_of"), more)


def by_picture(group: Group) -> list[dict[str, str]]:
    """How often all sources of a picture are found that has several sounds, beside controls and ceiling."""
    rows = []
    for e in group.evaluations:
        pictures = len(interactive.units(e.records))
        if pictures:
            numbers = {"IIoU": _number(e, "iiou"), "IAUC": _number(e, "iauc")}
            rows.append({"model": called(e), "pictures": str(pictures), **numbers})
    if rows:
        records = group.evaluations[0].records
        best = loc_acc.best_ciou(records.area, group.protocol, records.support)
        most = interactive.compute(replace(records, ciou=best), group.protocol)
        named = {"model": f"ceiling ({group.protocol.threshold})", "pictures": "-"}
        rows.append({**named, "IIoU": percent(most["iiou"]), "IAUC": percent(most["iauc"])})
    return rows


def choices(protocol: Protocol, about: bool = True) -> list[dict[str, str]]:
    """Every choice of a protocol and, with `about`, what it decides."""
    words: dict[object, str] = {True: "yes", False: "no"}
    rows = []
    for name, value in asdict(protocol).items():
        if name != "name":
            said = words[value] if isinstance(value, bool) else str(value)
            rows.append({"choice": name, "value": said, **({"what it decides": _CHOICES[name]} if about else {})})
    return rows


def _by_part(
    group: Group,
    column: str,
    counts: Mapping[str, int],
    number: tuple[str, str],
    more: Mapping[str, Callable[[str], str]],
    centre: bool = True,
) -> list[dict[str, str]]:
    """A number, its title and name, for each part of the clips, with `more` columns; none where nothing was measured.

    Its column has its title where there is one model; where there are more, there is one of each model's name.
    """
    (title, name), alone = number, len(group.models) == 1
    rows = []
    for part, count in counts.items():
        row = {title if alone else called(e): _number(e, f"{name}/{part}") for e in group.models}
        row |= {heading: value(part) for heading, value in more.items()}
        if centre and group.centre:
            row["centre prior: " + title if alone else "centre prior"] = _number(group.centre, f"{name}/{part}")
        rows.append({column: part, "clips": str(count), **row})
    return rows if any(value != "-" for row in rows for value in list(row.values())[2:]) else []


def _number(e: Evaluation, name: str) -> str:
    return percent(e.metrics.get(name, math.nan))
