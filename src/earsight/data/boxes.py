"""Boxes of data sets: csv tables, and Flickr-SoundNet's XML files, read without entities and without trust."""

from __future__ import annotations

import math
from collections import defaultdict
from pathlib import Path
from xml.etree.ElementTree import Element, TreeBuilder
from xml.parsers import expat

from earsight.data.files import read_columns
from earsight.errors import DataError
from earsight.types import Box

GRID = 256
"""Coordinates in XML files are whole numbers on this grid, whatever the size of the picture."""
LARGEST_XML = 1 << 20
_CENTRE = ("xc", "yc", "w", "h")
_CORNERS = ("x0", "y0", "x1", "y1")
_SLACK = 0.01  # annotators' boxes often stick out by a rounded pixel; they are cut at the edge


def usable(box: Box) -> Box | None:
    """A box clipped to the picture, or None when nothing is left of it.

    >>> usable((-0.5, 0.25, 0.5, 2.0)), usable((0.4, 0.2, -2.88e16, 0.9))
    ((0.0, 0.25, 0.5, 1.0), None)
    """
    x0, y0, x1, y1 = (float(min(max(value, 0.0), 1.0)) for value in box)
    return (x0, y0, x1, y1) if x0 < x1 and y0 < y1 else None


def read_boxes(path: Path, *, corners: bool = False) -> defaultdict[tuple[str, str], list[Box]]:
    """Boxes of a csv file by image and class, which may be left out; none where there is no file.

    Columns are image, cls and xc, yc, w, h: fractions of the picture; with `corners` x0, y0, x1, y1 in place of these.
    """
    found: defaultdict[tuple[str, str], list[Box]] = defaultdict(list)
    if not path.exists():
        return found
    names = _CORNERS if corners else _CENTRE
    for where, line in read_lines(path, ("image", *names)):
        a, b, c, d = (number(where, name, line[name], 0, 1) for name in names)
        box = (a, b, c, d) if corners else (a - c / 2, b - d / 2, a + c / 2, b + d / 2)
        clipped = usable(box)
        if clipped is None or min(box) < -_SLACK or max(box) > 1 + _SLACK:
            numbers = ", ".join(f"{value:g}" for value in box)
            raise DataError(
                f"Expected a box inside the picture in {where}, but got x0, y0, x1, y1 = {numbers}. "
                f"Give {'corners' if corners else 'centre, width and height'} as fractions of the picture."
            )
        found[line["image"], line.get("cls", "")].append(clipped)
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
        bounds = f"{low:g} to {high:g}" if math.isfinite(high) else f"at least {low:g}"
        raise DataError(f"Expected {name} of {bounds} in {where}, but got {text}. Correct that line.")
    return value


def read_boxes_xml(path: Path) -> tuple[Box, ...]:
    """Boxes as fractions, one for each `bbox` two levels under the root; nodes of other names are skipped.

    A bbox holds a first element that is ignored, then xmin, ymin, xmax, ymax. The published code scales a value v to
    int(224 v / 256); v / 256 times 224 is the same to the last bit, so that maps made of these fractions agree with it.
    Boxes that cover nothing are left out.
    """
    boxes = (_box(node, path) for child in _root(path) for node in child if node.tag == "bbox")
    return tuple(box for box in boxes if box is not None)


def _root(path: Path) -> Element:
    try:
        with path.open("rb") as file:
            content = file.read(LARGEST_XML + 1)
    except OSError as error:
        raise DataError(f"Expected to read {path}, but got: {error}. Get the file again.") from error
    if len(content) > LARGEST_XML:
        raise DataError(f"Expected at most {LARGEST_XML:,} bytes in {path}, but got more. Check that it holds boxes.")

    def refuse(*_: object) -> None:
        raise DataError(f"Expected plain XML in {path}, but got a DOCTYPE, which may hide anything. Remove it.")

    builder, parser = TreeBuilder(), expat.ParserCreate()
    parser.StartElementHandler, parser.EndElementHandler = builder.start, builder.end
    parser.CharacterDataHandler, parser.StartDoctypeDeclHandler = builder.data, refuse
    try:
        parser.Parse(content, True)
    except (expat.ExpatError, ValueError) as error:  # ValueError: an encoding that expat does not know
        raise DataError(f"Expected {path} to be XML, but got: {error}. Get the file again.") from error
    return builder.close()


def _box(node: Element, path: Path) -> Box | None:
    texts = [(value.text or "").strip() for value in node][1:]
    try:
        x0, y0, x1, y1 = (int(text) / GRID for text in texts)
    except (ValueError, OverflowError) as error:
        raise DataError(
            f"Expected a bbox in {path} to hold a name and four whole numbers, but got {', '.join(texts)[:60]}. "
            "Correct it."
        ) from error
    return usable((x0, y0, x1, y1))
