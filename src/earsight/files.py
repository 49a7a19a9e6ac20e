"""Writing files: whole or not at all, and never over another one unasked."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from pathlib import Path

from earsight.errors import UsageError


def write_atomically(path: Path, write: Callable[[Path], None]) -> None:
    """Let `write` fill a file beside `path`, then move it into place: readers see the old file or the new one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        write(beside)
        with beside.open("rb") as file:
            os.fsync(file.fileno())
        beside.replace(path)
    finally:
        beside.unlink(missing_ok=True)


def write_text(path: Path, text: str) -> None:
    """Text as UTF-8 with lines that end in \\n, atomically."""
    write_atomically(path, lambda beside: _write(beside, text))


def refuse_existing(paths: Iterable[Path], force: bool) -> None:
    """Raise unless nothing is in the way, or it may be replaced; called before the work begins."""
    there = [path for path in paths if path.exists()]
    if there and not force:
        raise UsageError(f"Expected no file at {there[0]} yet, but got one. Use --force to replace it.")


def _write(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8", newline="\n")
