"""`earsight data audit` and `earsight data negatives`: lists without test clips, and lists of negatives."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

from earsight import registry
from earsight.cli.screen import columns, note, say, say_json
from earsight.cli.settings import Data, Force, Json, need_once, word
from earsight.config import need
from earsight.errors import EarsightError
from earsight.escape import visible
from earsight.files import refuse_existing, write_csv, write_text

if TYPE_CHECKING:
    from earsight.data.audit import Listing, Overlap
    from earsight.types import Row

SHOWN = 3
CLEAN, WITHOUT, SHARED = "train-clean.txt", "train-without-test-clips.txt", "overlap.csv"


@dataclass(frozen=True, kw_only=True)
class DataAudit:
    """Look for test clips in a training list: the same clip, or another part of the same video."""

    spec: Annotated[str, tyro.conf.Positional, word("SET", default=None)]
    """Training list, NAME or NAME:SPLIT (earsight list sets), or a text file with one id a line."""
    against: Annotated[tuple[str, ...], word("SET")] = ()
    """Test sets; by default those that take their clips from the same source."""
    data: Annotated[Path | None, word("DIR")] = None
    """Folder with the lists."""
    out: Annotated[Path | None, word("DIR", "-o")] = None
    """Write the clean training lists, the clean test lists and the overlap here."""
    force: Force = False
    json: Json = False


@dataclass(frozen=True, kw_only=True)
class DataNegatives:
    """Build negatives for an annotated set: pictures with a sound that nothing in them makes."""

    spec: Annotated[str, tyro.conf.Positional, word("SET", default=None)]
    """The set whose positives are paired anew, NAME or NAME:SPLIT."""
    data: Data = None
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
    force: Force = False
    json: Json = False


def run(settings: DataAudit | DataNegatives) -> int:
    return run_audit(settings) if isinstance(settings, DataAudit) else run_negatives(settings)


def run_audit(settings: DataAudit) -> int:
    """Compare the training list with each test set; clean lists go to `out`. Finding something is not a failure."""
    from earsight.data.audit import audit, listing

    data, against, out = settings.data, settings.against, settings.out
    train = listing(settings.spec, data, role="train")
    names = against or train.tests
    need(len(names) > 0, f"test sets to compare {train.name} with", "none", "Name them after --against.")
    tests = [listing(name, data) for name in against] or _usual(names, data)
    need_once("each test set once", [test.name for test in tests])
    if out is not None:
        refuse_existing([out / name for name in (CLEAN, WITHOUT, SHARED, *map(_clean_name, tests))], settings.force)
    found = [audit(train, test) for test in tests]
    if settings.json:
        say_json({"train": train.name, "clips": len(train.ids), "tests": list(map(_values, tests, found))})
    else:
        say(f"{visible(train.name)}: {len(train.ids)} training clips\n\n{_table(tests, found)}")
        for pair in zip(tests, found, strict=True):
            for line in _examples(*pair):
                say(line)
    for test in (test for test, each in zip(tests, found, strict=True) if not each.shared):
        both = f"'{train.ids[0]}' in {train.name}, '{test.ids[0]}' in {test.name}"  # a person sees whether they differ
        note(f"{test.name} shares nothing; names are compared as they are written: {both}")
    if out is not None:
        _write(out, train, tests, found)
        note(f"clean lists: {out}")
    return 0


def _usual(names: Sequence[str], data: Path | None) -> list[Listing]:
    """The sets that a list is compared with when none is named; those that cannot be opened are told and left out."""
    from earsight.data.audit import listing

    found: list[Listing] = []
    for name in names:
        try:
            found.append(listing(name, data))
        except EarsightError as error:
            if name == names[-1] and not found:
                raise
            note(f"{name} is not compared: {error}")
    return found


def _table(tests: Sequence[Listing], found: Sequence[Overlap]) -> str:
    head = ("test set", "clips", "same clip", "same video (other part)", "clean test clips", "clean training clips")
    rows = [head, *(tuple(map(str, _values(*pair).values())) for pair in zip(tests, found, strict=True))]
    widths = [0, *(max(map(len, column)) for column in list(zip(*rows, strict=True))[1:])]
    return columns([[f"{word:>{n}}" for word, n in zip(row, widths, strict=True)] for row in rows])


def _values(test: Listing, found: Overlap) -> dict[str, object]:
    return {
        "test": test.name,
        "clips": found.tested,
        "same_clip": len(found.same_clip),
        "same_video": len(found.same_video),
        "clean_test": len(found.clean_test),
        "clean_train": len(found.clean_train),
    }


def _examples(test: Listing, found: Overlap) -> list[str]:
    """The first few shared clips by name."""
    videos = [f"{id} (trained on {', '.join(parts[:SHOWN])})" for id, parts in found.same_video]
    return [
        f"\n{test.name}, {how}: {visible(', '.join(names[:SHOWN]))}{', ...' * (len(names) > SHOWN)}"
        for how, names in (("same clip", found.same_clip), ("same video", videos))
        if names
    ]


def _clean_name(test: Listing) -> str:
    """test-clean-vggss-test.txt for vggss:test."""
    return f"test-clean-{'-'.join(''.join(c if c.isalnum() else ' ' for c in test.name).split())}.txt"


def _write(out: Path, train: Listing, tests: Sequence[Listing], found: Sequence[Overlap]) -> None:
    from earsight.data.files import lines

    clips = {id for each in found for id in each.same_clip}
    clean = set(train.ids).intersection(*(each.clean_train for each in found))
    write_text(out / CLEAN, lines(id for id in train.ids if id in clean))
    write_text(out / WITHOUT, lines(id for id in train.ids if id not in clips))
    for test, each in zip(tests, found, strict=True):
        write_text(out / _clean_name(test), lines(each.clean_test))
    pairs = ((test.name, *pair) for test, each in zip(tests, found, strict=True) for pair in each.pairs)
    write_csv(out / SHARED, ("test_set", "test", "train", "how"), pairs)


def run_negatives(settings: DataNegatives) -> int:
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

    need("+" not in spec, "a set of positives", f"{spec}, which has negatives", "Name the set before the +.")
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
    there, others = sum(not row.positive for row in rows), f"Name a split without them ({', '.join(module.SPLITS)})."
    need(there == 0, "a set of positives", f"{name}, which has {there} negatives already", others)
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
