"""Boxes of Flickr-SoundNet: one small XML file a clip, read without entities and without trust."""

from __future__ import annotations

from pathlib import Path
from xml.etree.ElementTree import Element, TreeBuilder
from xml.parsers import expat

from earsight.data.lists import usable
from earsight.errors import DataError
from earsight.types import Box

GRID = 256
"""Coordinates are whole numbers on this grid, whatever the size of the picture."""
LARGEST = 1 << 20


def read_boxes(path: Path) -> tuple[Box, ...]:
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
            content = file.read(LARGEST + 1)
    except OSError as error:
        raise DataError(f"Expected to read {path}, but got: {error}. Get the file again.") from error
    if len(content) > LARGEST:
        raise DataError(f"Expected at most {LARGEST:,} bytes in {path}, but got more. Check that it holds boxes.")

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
