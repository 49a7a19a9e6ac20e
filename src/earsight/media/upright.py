"""Which way is up: the eight ways a camera can be held, as EXIF numbers them, and turning a picture upright."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import BinaryIO

from earsight.types import U8

CLOCKWISE = {1: 0, 2: 0, 3: 180, 4: 180, 5: 270, 6: 90, 7: 90, 8: 270}
"""EXIF orientation -> degrees to turn the picture clockwise; 2, 4, 5 and 7 are mirrored left to right first."""


def turn(picture: U8, orientation: int) -> U8:
    """The picture (3, H, W) as it should be seen; orientations 5 to 8 swap its height and width.

    >>> import numpy as np
    >>> turn(np.array([[[1, 2, 3]]], dtype=np.uint8), 6).tolist()
    [[[1], [2], [3]]]
    """
    if orientation >= 5:
        picture = picture.transpose(0, 2, 1)
    rows = -1 if orientation in (3, 4, 7, 8) else 1
    columns = -1 if orientation in (2, 3, 6, 7) else 1
    return picture[:, ::rows, ::columns]


def from_matrix(a: int, b: int, c: int, d: int) -> int:
    """EXIF orientation nearest to a display matrix that sends (x, y) to (ax + cy, bx + dy).

    >>> from_matrix(0, 1, -1, 0), from_matrix(1, 0, 0, 1), from_matrix(-1, 0, 0, -1)
    (6, 1, 3)
    """
    if abs(a) + abs(d) >= abs(b) + abs(c):
        return {(False, False): 1, (False, True): 2, (True, True): 3, (True, False): 4}[d < 0, a < 0]
    return {(False, False): 5, (False, True): 6, (True, True): 7, (True, False): 8}[b < 0, c < 0]


def from_exif(file: BinaryIO) -> int:
    """EXIF orientation of a JPEG, PNG or WebP file; 1 (upright) where there is none or it makes no sense."""
    for block in _exif_blocks(file):
        found = _orientation(block.removeprefix(b"Exif\0\0"))
        if found:
            return found
    return 1


def _exif_blocks(file: BinaryIO) -> Iterator[bytes]:
    file.seek(0)
    head = file.read(12)
    if head[:2] == b"\xff\xd8":
        yield from _jpeg_blocks(file)
    elif head[:8] == b"\x89PNG\r\n\x1a\n":
        yield from _chunks(file, 8, ">I4s", b"eXIf", trailer=4)
    elif head[:4] == b"RIFF" and head[8:] == b"WEBP":
        yield from _chunks(file, 12, "<4sI", b"EXIF", trailer=0)


def _jpeg_blocks(file: BinaryIO) -> Iterator[bytes]:
    file.seek(2)
    # Each segment is at least four bytes, so the walk ends; it stops at the first one that is not a header (SOS).
    while len(head := file.read(4)) == 4 and head[0] == 0xFF and head[1] != 0xDA:
        size = int.from_bytes(head[2:]) - 2
        if size < 0:
            return
        if head[1] == 0xE1:
            yield file.read(size)
        else:
            file.seek(size, 1)


def _chunks(file: BinaryIO, start: int, layout: str, wanted: bytes, trailer: int) -> Iterator[bytes]:
    file.seek(start)
    while len(head := file.read(8)) == 8:
        first, second = struct.unpack(layout, head)
        name, size = (first, second) if isinstance(first, bytes) else (second, first)
        if name == wanted:
            yield file.read(min(size, 1 << 20))
            return
        padding = size % 2 if trailer == 0 else trailer
        file.seek(size + padding, 1)


def _orientation(tiff: bytes) -> int:
    """Value of tag 0x112 in the first directory of a TIFF block, or 0."""
    order = {b"II": "<", b"MM": ">"}.get(tiff[:2])
    try:
        if order is None:
            return 0
        at = struct.unpack_from(order + "I", tiff, 4)[0]
        for entry in range(struct.unpack_from(order + "H", tiff, at)[0]):
            tag, kind, _, value = struct.unpack_from(order + "HHIH", tiff, at + 2 + 12 * entry)
            if tag == 0x112 and kind == 3:
                return int(value) if 1 <= value <= 8 else 0
    except struct.error:  # a cut or senseless EXIF block must not cost the picture
        return 0
    return 0
