"""Small text files of the data commands: lists of clips of any set."""

from __future__ import annotations

import csv
from collections.abc import Iterable
from pathlib import Path

from earsight.errors import DataError


def lines(values: Iterable[str]) -> str:
    """One value a line, the last line ended too.

    >>> lines(["a", "b"])
    'a\\nb\\n'
    """
    return "".join(f"{value}\n" for value in values)


def read_names(path: Path) -> list[str]:
    """Names of clips, one a line (of a csv file, the first column); blank lines are skipped, repeats count once.

    Unlike the ids of published lists, which become file names, these may hold any character: sets of your own name
    their clips as they like.
    """
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"Expected {path} to be a list of clips, but got: {error}. Name a text file.") from error
    table = csv.reader(text.splitlines()) if path.suffix == ".csv" else ([line] for line in text.splitlines())
    try:
        names = [line[0].strip() for line in table if line]
    except csv.Error as error:
        raise DataError(f"Expected {path} to be csv, but got: {error}. Save it again.") from error
    found = [name for name in dict.fromkeys(names) if name]
    if not found:
        raise DataError(f"Expected at least one clip in {path}, but got none. Write one name a line.")
    if found[0] == "video":
        raise DataError(f"Expected a list of clips, but got pairs in {path}. Name the set as SET+{path}.")
    return found
