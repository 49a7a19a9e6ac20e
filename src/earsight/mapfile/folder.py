"""Maps in a folder of ID.npy files; those in folders inside it have ids such as "part/clip"."""

from __future__ import annotations

import csv
import io
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path

import numpy as np

from earsight.data.files import need_commas
from earsight.errors import DataError
from earsight.mapfile.base import AnyArray, MapFile, confidence_of
from earsight.mapfile.npy import read_map, reading
from earsight.types import F32

CONFIDENCE = "confidence.csv"
_LARGEST = 256 << 20


class Folder(MapFile):
    """One file a clip, in the order of their names."""

    def __init__(self, path: Path) -> None:
        files = sorted((file for file in path.rglob("*.npy") if file.is_file()), key=lambda file: file.as_posix())
        ids = [file.relative_to(path).as_posix().removesuffix(".npy") for file in files]
        table = path / CONFIDENCE
        super().__init__(path, ids, confidence=_confidence(table, ids) if table.exists() else None)
        self._files = files

    def maps(self, wanted: Collection[int]) -> Iterator[tuple[int, AnyArray]]:
        for position in sorted(wanted):
            file = self._files[position]
            with reading(file), file.open("rb") as stream:
                found = read_map(stream, file.stat().st_size, self.ids[position], file)
            yield position, found


def _confidence(path: Path, ids: Sequence[str]) -> F32:
    """The confidences of all ids, from a table with columns id and confidence."""
    with reading(path):
        if path.stat().st_size > _LARGEST:
            raise DataError(f"Expected at most {_LARGEST >> 20} MiB in {path}, but got more. Check the file.")
        text = path.read_text(encoding="utf-8-sig")
        lines = list(csv.DictReader(io.StringIO(text, newline=""), restkey="", restval=""))
    if lines:
        need_commas(path, list(lines[0]))
    if not lines or not {"id", "confidence"} <= set(lines[0]):
        raise DataError(
            f"Expected columns id and confidence in {path}, but got none of them. Write both, with a header."
        )
    found: dict[str, float] = {}
    for number, line in enumerate(lines, start=2):
        id, text = line["id"], line["confidence"]
        if id in found:
            raise DataError(f"Expected each id once in {path}, but got '{id}' again in line {number}. Leave one out.")
        try:
            found[id] = float(text)
        except ValueError as error:
            raise DataError(
                f"Expected a number as confidence in {path}, line {number}, but got '{text}'. Correct it."
            ) from error
    for words, some in (("no confidence for", set(ids) - set(found)), ("one without a map for", set(found) - set(ids))):
        if some:
            raise DataError(
                f"Expected a confidence for each map and no other in {path}, but got {words} {len(some)} ids "
                f"({', '.join(sorted(some)[:5])}). Correct the table, or take it out of the folder."
            )
    return confidence_of(np.array([found[id] for id in ids], dtype=np.float64), ids, path)
