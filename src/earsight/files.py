"""Files of users: written whole or not at all, never over another one unasked; JSON read within limits; no URLs."""

from __future__ import annotations

import csv
import hashlib
import io
import json
import os
import re
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from earsight.errors import UsageError

MOST_JSON = 256 << 20
"""Bytes of a JSON file."""
MOST_DEPTH = 64
"""Lists and objects inside each other, in a JSON file."""
MARK = ".earsight"
"""Before the ending of every file that `localize` writes, so that these are never taken for inputs."""


def sha256(path: Path) -> str:
    """Hash of a whole file, in hex."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def read_json(path: Path) -> Any:
    """The values of a JSON file. Whatever is wrong with its text is a ValueError: see `parse_json`."""
    with path.open("rb") as file:
        content = file.read(MOST_JSON + 1)
    if len(content) > MOST_JSON:
        raise ValueError(f"more than {MOST_JSON >> 20} MiB")
    return parse_json(content.decode("utf-8"))


def parse_json(text: str) -> Any:
    """The values of JSON text; a ValueError also where it is nested deeper than any file of ours.

    Integers of more than 64 bits become floats, as in most readers: numpy and torch could not take them.

    >>> parse_json('{"a": [1, 2.5]}'), parse_json("1" + 30 * "0")
    ({'a': [1, 2.5]}, 1e+30)
    """
    try:
        values = JSON.decode(text)
    except RecursionError:
        raise ValueError(f"more than {MOST_DEPTH} lists and objects inside each other") from None
    _need_shallow(values, MOST_DEPTH)
    return values


def _need_shallow(values: Any, deepest: int) -> None:
    inner = values.values() if isinstance(values, dict) else values if isinstance(values, list) else ()
    if inner and not deepest:
        raise ValueError(f"more than {MOST_DEPTH} lists and objects inside each other")
    for one in inner:
        if isinstance(one, dict | list):
            _need_shallow(one, deepest - 1)


def _number(digits: str) -> int | float:
    if len(digits) <= 20 and -(1 << 63) <= (value := int(digits)) < 1 << 63:
        return value
    return float(digits)


JSON = json.JSONDecoder(parse_int=_number)

_URL = re.compile(r"(https?|ftp|s3|gs|hf|rtsp|rtmp|file):/+", re.IGNORECASE)


def local_path(path: str | os.PathLike[str]) -> Path:
    """The path as it is; a URL is refused as it was typed, of which a Path has lost a slash."""
    text = os.fspath(path)
    if found := _URL.match(text):
        typed = text if isinstance(path, str) else f"{found[1]}://{text[found.end() :]}"
        raise UsageError(
            f"Expected a file or folder, but got {typed}: URLs are not opened. Download it first, and name the file."
        )
    return Path(path)


def write_atomically(path: Path, write: Callable[[Path], None], previous: Path | None = None) -> None:
    """Let `write` fill a file beside `path`, then move it into place: readers see the old file or the new one.

    What `write` raises leaves nothing behind, and an OSError names `path`. With `previous`, the old file is kept under
    that name.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = part_of(path)
    try:
        with named(path, beside):
            write(beside)
            with beside.open("rb") as file:
                os.fsync(file.fileno())
            if previous is not None and path.exists():
                _keep(path, previous)
            beside.replace(path)
    finally:
        beside.unlink(missing_ok=True)


def _keep(path: Path, previous: Path) -> None:
    """Let a file that is about to be replaced have the name `previous` too."""
    beside = part_of(previous)
    try:
        beside.hardlink_to(path)
        beside.replace(previous)
    except OSError:  # a file system without links; for a moment there is then no file at `path`
        path.replace(previous)
    finally:
        beside.unlink(missing_ok=True)


@contextmanager
def named(path: Path, beside: Path | None = None) -> Iterator[None]:
    """Let an OSError that names no file, as those of a full disk do, or the one `beside` it, name `path`."""
    try:
        yield
    except OSError as error:
        if error.errno is not None and error.filename2 is None and error.filename in (None, beside, str(beside)):
            error.filename = str(path)
        raise


def part_of(path: Path) -> Path:
    """A name beside `path` that no other thread or process uses, for a file that is still being written."""
    # With 50 letters it is no longer than file systems allow, even where the name itself just fits.
    return path.with_name(f".{path.name[:50]}.{uuid.uuid4().hex}.part")


def is_part(path: Path) -> bool:
    """Whether a file is what a killed process was about to write."""
    return path.name.startswith(".") and path.name.endswith(".part")


def is_output(path: str | Path) -> bool:
    """Whether a file is called as `localize` calls what it writes.

    >>> is_output("in/dog.earsight.png"), is_output("in/dog.png")
    (True, False)
    """
    return Path(path).stem.endswith(MARK)


def write_text(path: Path, text: str) -> None:
    """Text as UTF-8 with lines that end in \\n, atomically."""
    write_bytes(path, text.encode("utf-8"))


def write_bytes(path: Path, content: bytes | memoryview) -> None:
    """Bytes as they are, atomically."""

    def fill(beside: Path) -> None:
        beside.write_bytes(content)

    write_atomically(path, fill)


def write_csv(path: Path, header: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """A csv file with the names of its columns in the first line, atomically."""
    write_text(path, csv_text(header, rows))


def csv_text(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Values separated by commas, with the names of the columns in the first line.

    >>> csv_text(("a", "b"), [("1", "x,y")])
    'a,b\\n1,"x,y"\\n'
    """
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([header, *rows])
    return text.getvalue()


def refuse_existing(paths: Iterable[Path], force: bool) -> None:
    """Raise unless nothing is in the way, or it may be replaced; called before the work begins."""
    for path in paths:
        if path.is_dir():
            raise UsageError(f"Expected a file to write, but got the folder {path}. Name a file in it.")
        if path.exists() and not force:
            raise UsageError(f"Expected no file at {path} yet, but got one. Use --force to replace it.")
        _need_place(path)


def _need_place(path: Path) -> None:
    """Raise when no file can be written at `path`, whose folders need not be there yet."""
    folder = path.parent
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    if not folder.is_dir():
        raise UsageError(f"Expected a folder for {path}, but {folder} is a file. Name another place.")
    trial = part_of(folder / "earsight")  # rights alone say too little: nobody can make files in /proc
    try:
        trial.touch()
    except OSError as error:
        raise UsageError(
            f"Expected a folder that may be written to for {path}, but got {folder} ({error.strerror}). "
            "Name another place."
        ) from error
    trial.unlink(missing_ok=True)
