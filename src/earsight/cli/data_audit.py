"""`earsight data audit`: test clips in a training list, told, named and taken out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

from earsight.cli.screen import columns, note, say, say_json
from earsight.cli.settings import Switch, need_once, word
from earsight.config import need
from earsight.errors import EarsightError
from earsight.escape import visible
from earsight.files import refuse_existing, write_csv, write_text

if TYPE_CHECKING:
    from earsight.data.audit import Listing, Overlap

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
    force: Switch = False
    """Replace files that are there."""
    json: Switch = False
    """Print JSON."""


def run(settings: DataAudit) -> int:
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
        for line in (line for pair in zip(tests, found, strict=True) for line in _examples(*pair)):
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
    rows = [
        (test.name, *(str(n) for n in list(_values(test, each).values())[1:]))
        for test, each in zip(tests, found, strict=True)
    ]
    widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]
    aligned = [
        (row[0], *(f"{word:>{n}}" for word, n in zip(row[1:], widths[1:], strict=True))) for row in (head, *rows)
    ]
    return columns(aligned)


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
    said = []
    if found.same_clip:
        more = ", ..." if len(found.same_clip) > SHOWN else ""
        said.append(f"\n{test.name}, same clip: {visible(', '.join(found.same_clip[:SHOWN]))}{more}")
    if found.same_video:
        some = [f"{id} (trained on {', '.join(parts[:SHOWN])})" for id, parts in found.same_video[:SHOWN]]
        more = ", ..." if len(found.same_video) > SHOWN else ""
        said.append(f"\n{test.name}, same video: {visible(', '.join(some))}{more}")
    return said


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
