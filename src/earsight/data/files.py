"""Small files of data sets: lists and tables, each line with its place, which messages name; and arrays by name."""

from __future__ import annotations

import csv
import io
import zipfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from earsight.errors import DataError

LARGEST = 512 << 20
"""Bytes of a list; VGGSound's takes 10 MB."""
_MOST_COLUMNS = 1000

MOST_PACKED = 1 << 30
"""Bytes of the arrays of an .npz file when they are unpacked, unless they are stored as they are."""


def lines(values: Iterable[str]) -> str:
    """One value a line, the last line ended too.

    >>> lines(["a", "b"])
    'a\\nb\\n'
    """
    return "".join(f"{value}\n" for value in values)


def read_text(path: Path) -> str:
    """All of a text file, without the mark that some programs begin it with."""
    if path.exists() and not path.is_file():
        raise DataError(f"Expected a file of text, but got {path}, which is none. Check its name.")
    try:
        if path.stat().st_size > LARGEST:
            raise DataError(f"Expected a list of at most {LARGEST >> 20} MiB, but got {path} with more. Split it.")
        return path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(
            f"Expected {path} to be readable UTF-8 text, but got: {error}. Check its name, or get the file again."
        ) from error


def read_table(path: Path) -> list[tuple[int, list[str]]]:
    """The values of each line of a csv file with the line's number.

    Values lose the blanks around them, and lines without any value are left out.
    """
    reader = csv.reader(io.StringIO(read_text(path)))
    try:
        found = [(reader.line_num, [value.strip() for value in values]) for values in reader]
    except csv.Error as error:
        raise DataError(f"Expected {path} to be csv, but got: {error}. Save it again as csv.") from error
    return [(number, values) for number, values in found if any(values)]


def read_npz(path: Path, names: Sequence[str]) -> dict[str, npt.NDArray[Any]]:
    """Those of an .npz file's arrays that have these names. Whatever is wrong with it is a ValueError.

    Arrays may be packed, to a gigabyte or to the size of the file: a few bytes could stand for terabytes.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            total = sum(part.file_size for part in archive.infolist())
        if total > max(MOST_PACKED, path.stat().st_size):
            raise ValueError(f"{total >> 20} MiB when unpacked, and at most {MOST_PACKED >> 20} are; use numpy.savez")
        with path.open("rb") as opened, np.lib.npyio.NpzFile(opened, allow_pickle=False) as file:
            found = {name: file[name] for name in names if name in file}
        for array in found.values():
            if array.dtype.kind == "U":
                array.tolist()  # refuses characters that do not exist
    except Exception as error:  # zip, zlib and numpy answer damaged files with errors of a dozen kinds
        raise ValueError(str(error) or type(error).__name__) from error
    return found


def need_commas(path: Path, first: Sequence[str]) -> None:
    """Refuse a csv file whose `first` line is one value with semicolons or tabs in it: another sign separates values.

    >>> need_commas(Path("a.csv"), ["id", "label;kind"])
    """
    signs = {";": "semicolons", "\t": "tabs"}
    found = [name for sign, name in signs.items() if len(first) == 1 and sign in first[0]]
    if found:
        raise DataError(
            f"Expected values separated by commas in {path}, but got {found[0]}: {first[0][:80]!r}. "
            "Save it again with commas."
        )


def read_columns(path: Path, needed: Sequence[str]) -> list[tuple[str, dict[str, str]]]:
    """The lines below the first one of a csv file, which names the columns: where each is, and its values by column.

    What a line lacks at its end is empty. Columns that are not `needed` are given too, and may be missing.
    """
    (_, header), *below = read_table(path) or [(1, list[str]())]
    missing = [name for name in needed if name not in header]
    if missing:
        need_commas(path, header)
        raise DataError(
            f"Expected columns {', '.join(needed)} in {path}, but got {', '.join(header)[:80] or 'none'}. "
            f"Add {', '.join(missing)} to the names in its first line."
        )
    if len(header) > _MOST_COLUMNS:
        raise DataError(f"Expected at most {_MOST_COLUMNS} columns in {path}, but got {len(header)}. Leave some out.")
    padding = [""] * len(header)
    return [(f"{path}, line {number}", dict(zip(header, values + padding, strict=False))) for number, values in below]


def read_first(path: Path) -> list[tuple[int, str]]:
    """A list of names with the numbers of their lines: one a line, or the first value of each line of a csv file."""
    if path.suffix == ".csv":
        found = [(number, values[0]) for number, values in read_table(path)]
    else:
        found = [(number, line.strip()) for number, line in enumerate(read_text(path).split("\n"), start=1)]
    return [(number, name) for number, name in found if name]


def read_names(path: Path) -> list[str]:
    """Names of clips, one a line (of a csv file, the first column); blank lines are skipped, repeats count once.

    Unlike the ids of published lists, which become file names, these may hold any character: sets of your own name
    their clips as they like. A csv file may begin with a line that names a column "id", which is then the one that is
    read.
    """
    table = read_table(path) if path.suffix == ".csv" else []
    if table and all(len(values) == 1 and ";" in values[0] for _, values in table):
        need_commas(path, table[0][1])
    header = [name.lower() for name in table[0][1]] if table else []
    if "id" in header:
        at = header.index("id")
        found = [values[at] for _, values in table[1:] if len(values) > at and values[at]]
    else:
        found = [name for _, name in read_first(path)]
    found = list(dict.fromkeys(found))
    if not found:
        raise DataError(f"Expected at least one clip in {path}, but got none. Write one name a line.")
    if found[0] == "video":
        raise DataError(f"Expected a list of clips, but got pairs in {path}. Name the set as SET+{path}.")
    return found
