"""Boxes and other tables of folder sets: csv files whose every value is there, and numbers that are in range."""

from __future__ import annotations

import math
from collections import defaultdict
from pathlib import Path

from earsight.data.files import read_columns
from earsight.errors import DataError
from earsight.types import Box

_BOX_COLUMNS = ("image", "xc", "yc", "w", "h")
_SLACK = 0.01  # annotators' boxes often stick out by a rounded pixel; they are cut at the edge


def read_boxes(path: Path) -> defaultdict[tuple[str, str], list[Box]]:
    """Boxes by image and class, which may be left out; none where there is no file."""
    found: defaultdict[tuple[str, str], list[Box]] = defaultdict(list)
    if not path.exists():
        return found
    for where, line in read_lines(path, _BOX_COLUMNS):
        xc, yc, w, h = (number(where, name, line[name], 0, 1) for name in ("xc", "yc", "w", "h"))
        box = (xc - w / 2, yc - h / 2, xc + w / 2, yc + h / 2)
        if min(box) < -_SLACK or max(box) > 1 + _SLACK or w == 0 or h == 0:
            numbers = ", ".join(f"{value:g}" for value in box)
            raise DataError(
                f"Expected a box inside the picture in {where}, but got x0, y0, x1, y1 = {numbers}. "
                "Give centre, width and height as fractions of the picture."
            )
        x0, y0, x1, y1 = (min(max(value, 0.0), 1.0) for value in box)
        found[line["image"], line.get("cls", "")].append((x0, y0, x1, y1))
    return found


def read_lines(path: Path, columns: tuple[str, ...]) -> list[tuple[str, dict[str, str]]]:
    """Lines of a csv file with values in these columns, each with the place to name in messages."""
    lines = read_columns(path, columns)
    for where, line in lines:
        empty = [name for name in columns if not line[name]]
        if empty:
            raise DataError(
                f"Expected a value for {', '.join(columns)} in {where}, but got no {', '.join(empty)}. Fill it in."
            )
    return lines


def number(where: str, name: str, text: str, low: float, high: float) -> float:
    """A value of a line as a number from `low` to `high`."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not (low <= value <= high and math.isfinite(value)):
        span = f"{low:g} to {high:g}" if math.isfinite(high) else f"at least {low:g}"
        raise DataError(f"Expected {name} of {span} in {where}, but got {text}. Correct that line.")
    return value
