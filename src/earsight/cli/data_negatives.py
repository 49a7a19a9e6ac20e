"""`earsight data negatives`: a csv file of negatives for any annotated set, new ones or a published list's."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

from earsight import registry
from earsight.cli.screen import columns, note, say, say_json
from earsight.cli.settings import Switch, word
from earsight.config import need
from earsight.errors import EarsightError, UsageError
from earsight.files import refuse_existing

if TYPE_CHECKING:
    from earsight.types import Row


@dataclass(frozen=True, kw_only=True)
class DataNegatives:
    """Build negatives for an annotated set: pictures with a sound that nothing in them makes."""

    spec: Annotated[str, tyro.conf.Positional, word("SET", default=None)]
    """The set whose positives are paired anew, NAME or NAME:SPLIT."""
    data: Annotated[Path | None, word("DIR")] = None
    """Folder of the data, for sets that need one."""
    out: Annotated[Path, word("FILE", "-o", default=None)]
    """The csv file to write; SET+FILE is then the extended set."""
    count: Annotated[int, word("N")] = 0
    """How many in all; by default as many as there are positives."""
    same_class: float = 0.25
    """Share of the new pairs whose sound is of the picture's class (hard); the others are easy."""
    real: Annotated[Path | None, word("FILE")] = None
    """List of clips that are known to have no visible source; they come first."""
    published: Annotated[Path | None, word("FILE")] = None
    """A published list (video,audio,...) to take as it is; only the kinds are worked out."""
    seed: int = 0
    """Another seed pairs anew."""
    force: Switch = False
    """Replace a file that is there."""
    json: Switch = False
    """Print JSON."""


def run(settings: DataNegatives) -> int:
    """Write the negatives to `out`; fewer than asked for are told, never filled up with another kind."""
    from earsight.data import negatives
    from earsight.data.files import read_names

    spec, out, count, published = settings.spec, settings.out, settings.count, settings.published
    need(count >= 0, "a count of at least 1, or 0 for as many as there are positives", count)
    refuse_existing([out], settings.force)
    name, rows = _rows(spec, settings.data)
    ask: dict[str, int] = {}
    if published is not None:
        given = [flag for flag, value in (("--real", settings.real), ("--count", count)) if value]
        need(not given, "--published alone, whose list is taken as it is", " and ".join(given), "Leave one out.")
        found = negatives.read(published, {row.id: row.label for row in rows})
    else:
        known = read_names(settings.real) if settings.real is not None else []
        positives = sum(row.positive for row in rows)
        video_of = getattr(registry.load("set", spec.partition(":")[0]), "video_of", str)
        found = negatives.build(
            rows,
            count=count or positives,
            same_class=settings.same_class,
            real=known,
            seed=settings.seed,
            video_of=video_of,
        )
        classes = any(row.label for row in rows if row.positive)
        ask = negatives.wanted(count or positives, settings.same_class, len(known), classes=classes)
    made = negatives.counts(found)
    negatives.write(out, found)
    for line in _remarks(rows, made, ask):
        note(line)
    if settings.json:
        say_json({"set": name, "negatives": len(found), "kinds": made, "wanted": ask, "file": str(out)})
    else:
        say(columns([(kind, f"{number:>6}") for kind, number in {**made, "total": len(found)}.items()]))
        note(f"{out}; the extended set is {name}+{out}")
    return 0


def _rows(spec: str, data: Path | None) -> tuple[str, Sequence[Row]]:
    """The rows of a set, and the name to open it by. Where it cannot be opened for want of boxes, its list of ids will
    do, without classes."""
    from earsight.data.clips import open_set
    from earsight.data.lists import UNKNOWN
    from earsight.types import Row

    if "+" in spec:
        raise UsageError(
            f"Expected a set of positives, but got {spec}, which has negatives. Name the set before the +."
        )
    name, _, split = spec.partition(":")
    module = registry.load("set", name)
    split = split or module.DEFAULTS["test"]
    name = f"{name}:{split}"
    try:
        rows = open_set(spec, data).rows
    except EarsightError as error:
        if not hasattr(module, "ids") or split not in module.SPLITS:
            raise
        rows = tuple(Row(id) for id in module.ids(split, data))
        if any("+" in row.id for row in rows):  # an extended list, which is refused below for what it is
            rows = tuple(Row(row.id, kind=UNKNOWN if "+" in row.id else row.kind) for row in rows)
        note(f"{name} is taken by its list of clips alone: {error}")
    there = sum(not row.positive for row in rows)
    if there:
        raise UsageError(
            f"Expected a set of positives, but got {name}, which has {there} negatives already. "
            f"Name a split without them ({', '.join(module.SPLITS)})."
        )
    return name, rows


def _remarks(rows: Sequence[Row], made: dict[str, int], ask: dict[str, int]) -> list[str]:
    """What a user should know of the list: kinds that came out short, clips left out, kinds that are not known."""
    from earsight.data import negatives
    from earsight.data.lists import UNKNOWN, some

    said = [
        f"{made.get(kind, 0)} {kind} negatives instead of {number}: there are no more pairs of that kind"
        for kind, number in ask.items()
        if made.get(kind, 0) < number
    ]
    single = negatives.alone(rows)
    if single and ask.get(negatives.HARD):
        said.append(f"no hard negative can be made in classes with a single clip, {len(single)} here: {some(single)}")
    bare = sum(row.positive and not row.label for row in rows)
    if ask and 0 < bare < len(rows):
        said.append(f"{bare} clips without a class were left out")
    if made.get(UNKNOWN):
        said.append(f"{made[UNKNOWN]} negatives are of unknown kind: the classes of their clips are not known")
    return said
