"""The files that localization writes: their names, and that none is replaced unasked."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from earsight.errors import UsageError
from earsight.files import MARK, write_atomically, write_text
from earsight.media.write import telling

FORMATS = ("mp4", "png", "json", "npz")
"""An overlay video, a contact sheet (of a single picture: its overlay), the timeline, and the maps."""
USUAL = ("mp4", "png", "json")
"""What is written unless something else is asked for."""


def check_formats(formats: str | Sequence[str]) -> tuple[str, ...]:
    """The formats to write, each once; one text may name several.

    >>> check_formats("mp4, json"), check_formats(["json", "json"])
    (('mp4', 'json'), ('json',))
    """
    if isinstance(formats, str):
        formats = [one.strip() for one in formats.split(",") if one.strip()]
    known = ", ".join(FORMATS)
    unknown = [one for one in formats if one not in FORMATS]
    if unknown or not formats:
        got = f"'{unknown[0]}'" if unknown else "none"
        raise UsageError(f"Expected formats out of {known}, but got {got}. Name at least one of them.")
    return tuple(dict.fromkeys(formats))


def outputs(out: Path, name: str, formats: Iterable[str]) -> dict[str, Path]:
    """Where each format goes.

    >>> print(outputs(Path("out"), "dog", ["json"])["json"].name)
    dog.earsight.json
    """
    return {one: out / f"{name}{MARK}.{one}" for one in formats}


def make_way(files: Iterable[Path], force: bool) -> None:
    """Make the folders of files to be written; without `force`, none of the files may be there."""
    files = list(files)
    there = [file for file in files if file.exists()]
    if there and not force:
        more = f" and {len(there) - 1} more" if len(there) > 1 else ""
        raise UsageError(
            f"Expected no results there yet, but got {there[0]}{more}. "
            "Name another output folder, or use --force (force=True in Python) to replace them."
        )
    for folder in {file.parent for file in files}:
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UsageError(
                f"Expected an output folder that can be made, but got {folder} ({error.strerror}). Name another one."
            ) from error


def write_file(path: Path, write: Callable[[Path], None]) -> None:
    """Let `write` fill a file that appears whole or not at all; failures are told as those of `path`."""
    with telling(path):
        write_atomically(path, write)


def write_json(path: Path, values: dict[str, Any]) -> None:
    """Plain values, whole or not at all; failures are told as those of `path`."""
    text = json.dumps(values, indent=2, allow_nan=False) + "\n"
    with telling(path):
        write_text(path, text)
