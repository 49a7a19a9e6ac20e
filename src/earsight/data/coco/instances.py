"""Reads COCO's instances files item by item: 448 MB of text would take gigabytes as Python values."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

from earsight.errors import DataError
from earsight.files import JSON

_BLANK = " \t\r\n"


def items(path: Path, parts: Collection[str]) -> Iterator[tuple[str, Any]]:
    """Each item of the lists that these parts of a JSON object hold, as (part, item), in the order of the file."""
    try:
        yield from _walk(path.read_text(encoding="utf-8"), parts)
    except (OSError, ValueError, IndexError, RecursionError) as error:
        reason = " ".join(str(error).split())[:120] or "an end in the middle"
        raise DataError(
            f"Expected {path} to be an instances file of COCO, but got: {reason}. Get it again: it may be cut off."
        ) from error


def _walk(text: str, parts: Collection[str]) -> Iterator[tuple[str, Any]]:
    value_at = JSON.raw_decode
    at = _after(text, 0, "{")
    while text[at] != "}":
        part, at = value_at(text, at)
        at = _after(text, at, ":")
        if part in parts and text[at] == "[":
            at = _after(text, at, "[")
            while text[at] != "]":
                item, at = value_at(text, at)
                yield part, item
                at = _next(text, at, "]")
            at = _skip(text, at + 1)
        else:
            _, at = value_at(text, at)
            at = _skip(text, at)
        at = _next(text, at, "}")


def _skip(text: str, at: int) -> int:
    """The place of the next character that is not blank."""
    while text[at] in _BLANK:
        at += 1
    return at


def _after(text: str, at: int, mark: str) -> int:
    """The next place behind a mark that must come here."""
    at = _skip(text, at)
    if text[at] != mark:
        raise ValueError(f"'{text[at : at + 20]}' where '{mark}' should be, at character {at}")
    return _skip(text, at + 1)


def _next(text: str, at: int, end: str) -> int:
    """The place of the next item behind a comma, or of the mark that ends them all."""
    at = _skip(text, at)
    return at if text[at] == end else _after(text, at, ",")
