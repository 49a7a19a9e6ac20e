"""Which evaluations stand in one table: those on the same list under the same protocol."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from earsight import tabular
from earsight.errors import UsageError
from earsight.evaluation import Evaluation
from earsight.metrics.base import headings
from earsight.protocols import Protocol

CONTROLS = ("shuffled", "silent")
_AUDIO = ("real", *CONTROLS, "none")


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
    return tabular.called(e.model, e.audio)


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
