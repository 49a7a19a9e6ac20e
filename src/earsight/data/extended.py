"""A set of positives together with the negatives of a csv file: SET+FILE."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from earsight.data import negatives
from earsight.data.clips import ClipSet
from earsight.data.layout import Listed
from earsight.data.lists import check_rows, negative_rows, some
from earsight.errors import DataError, UsageError
from earsight.types import Clip, Row


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


class WithNegatives(ClipSet):
    """A set with more rows, which show the picture of one of its clips and let the sound of another be heard."""

    def __init__(self, name: str, rows: Sequence[Row], base: ClipSet) -> None:
        super().__init__(name, rows)
        self._base = base
        self._at = {row.id: i for i, row in enumerate(base.rows)}

    def read(self, index: int, rate: int, seconds: float, draw: int = 0) -> Clip:
        seen, heard = self._parts(index)
        clip = self._base.read(seen, rate, seconds, draw)
        if seen == heard:
            return clip
        other = self._base.read(heard, rate, seconds, draw)
        return replace(clip, id=self.rows[index].id, waveform=other.waveform, rate=other.rate, time=other.time)

    def can_give(self, rate: int, seconds: float) -> None:
        self._base.can_give(rate, seconds)

    def files(self, index: int) -> tuple[Path | None, Path | None] | None:
        """The files of a clip's picture and sound, or None where the set keeps no files."""
        find = getattr(self._base, "files", None)
        if find is None:
            return None
        seen, heard = self._parts(index)
        return find(seen)[0], find(heard)[1]

    def _parts(self, index: int) -> tuple[int, int]:
        if index < len(self._base):
            return index, index
        row = self.rows[index]
        return self._at[row.picture], self._at[row.sound]
