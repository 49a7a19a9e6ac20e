"""A set of positives together with the negatives of a csv file: SET+FILE."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from earsight.data import negatives
from earsight.data.clips import ClipSet, Derived
from earsight.data.layout import Listed
from earsight.data.lists import check_rows, negative_rows, some
from earsight.errors import DataError, UsageError
from earsight.types import Row


def extend(base: ClipSet, path: Path) -> ClipSet:
    """The positives of `base`, then one clip for each pair in the csv file, labelled with the class of its sound."""
    there = sum(not row.positive for row in base.rows)
    if there:
        raise UsageError(
            f"Expected a set of positives to add negatives to, but got {base.name}, which has {there} negatives "
            "already. Name a split without them."
        )
    labels = {row.id: row.label for row in base.rows}
    pairs = negatives.read(path, labels)
    # Real negatives are recordings of their own, which sets that find recordings by name can read.
    ours = [pair for pair in pairs if pair.video != pair.audio or not isinstance(base, Listed)]
    strange = [id for pair in ours for id in dict.fromkeys(pair[:2]) if id not in labels]
    if strange:
        raise DataError(
            f"Expected negatives made of clips of {base.name}, but got {some(strange)} in {path}. "
            "Name the set that they were built for, or build negatives for this one."
        )
    name = f"{base.name}+{path.name}"
    rows = check_rows([*base.rows, *negative_rows(pairs, lambda id: labels.get(id, ""))], name)
    return Listed(name, rows, base.layout) if isinstance(base, Listed) else WithNegatives(name, rows, base)


def _recordings(row: Row, seen: Row, heard: Row) -> Row:
    """The negative with the recordings of its two clips, as their set names them."""
    return replace(row, picture=seen.picture or seen.id, sound=heard.sound or heard.id)


class WithNegatives(Derived):
    """A set with more rows, which show the picture of one of its clips and let the sound of another be heard.

    In the `rows` that are given these name clips of the set; in those that are kept, the recordings of these clips.
    """

    def __init__(self, name: str, rows: Sequence[Row], base: ClipSet) -> None:
        at, more = {row.id: i for i, row in enumerate(base.rows)}, rows[len(base) :]
        self._parts = [(i, i) for i in range(len(base))] + [(at[row.picture], at[row.sound]) for row in more]
        named = [
            _recordings(row, base.rows[seen], base.rows[heard])
            for row, (seen, heard) in zip(more, self._parts[len(base) :], strict=True)
        ]
        super().__init__(name, [*base.rows, *named], base)

    def files(self, index: int) -> tuple[Path | None, Path | None] | None:
        """The files of a clip's picture and sound, or None where the set keeps no files."""
        find = getattr(self._whole, "files", None)
        if find is None:
            return None
        seen, heard = self.parts(index)
        return find(seen)[0], find(heard)[1]

    def parts(self, index: int) -> tuple[int, int]:
        return self._parts[index]
