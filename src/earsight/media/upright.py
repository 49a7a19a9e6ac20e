"""Which way is up: the eight ways a camera can be held, as EXIF numbers them, and turning a picture upright."""

from __future__ import annotations

import warnings
from typing import BinaryIO

from earsight.types import U8

CLOCKWISE = {1: 0, 2: 0, 3: 180, 4: 180, 5: 270, 6: 90, 7: 90, 8: 270}
"""EXIF orientation -> degrees to turn the picture clockwise; 2, 4, 5 and 7 are mirrored left to right first."""
_ORIENTATION = 0x112


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
    from PIL import Image

    try:
        with warnings.catch_warnings(action="ignore"), Image.open(file, formats=("JPEG", "PNG", "WEBP")) as image:
            exif = Image.Exif()
            exif.load(image.info.get("exif", b""))  # that of a PNG may also lie behind its pixels, where nobody looks
            found = exif.get(_ORIENTATION)
    except Exception:  # a cut or senseless EXIF block must not cost the picture, whatever Pillow makes of it
        return 1
    return found if isinstance(found, int) and found in CLOCKWISE else 1
