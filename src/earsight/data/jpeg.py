"""JPEG files in memory, as packs hold them: written, read, and measured by their headers. By Pillow, on a CPU."""

from __future__ import annotations

import io
from functools import lru_cache

import numpy as np
from PIL import Image

from earsight.types import U8


def encode_jpeg(picture: U8, quality: int) -> bytes:
    """A JPEG file of a picture uint8 (3, H, W).

    >>> jpeg_size(np.frombuffer(encode_jpeg(np.zeros((3, 20, 30), np.uint8), 90), np.uint8))
    (20, 30)
    """
    file = io.BytesIO()
    Image.fromarray(np.ascontiguousarray(picture.transpose(1, 2, 0))).save(file, "JPEG", quality=quality)
    return file.getvalue()


def decode_jpeg(data: U8) -> U8:
    """The picture of a JPEG file of three colours, uint8 (3, H, W); a ValueError where it cannot be decoded.

    The colours of a pixel lie next to each other in memory. Ask for the `jpeg_size` of untrusted files first.
    """
    try:
        with Image.open(io.BytesIO(data.tobytes()), formats=["JPEG"]) as image:
            pixels: U8 = np.array(image if image.mode == "RGB" else image.convert("RGB"))
    except (OSError, SyntaxError, Image.DecompressionBombError) as error:  # all that Pillow raises on damaged files
        raise ValueError(" ".join(str(error).split())[:200] or "unknown") from error
    return pixels.transpose(2, 0, 1)


def jpeg_size(data: U8) -> tuple[int, int] | None:
    """Height and width in the header of a plain JPEG of three colours; None for anything else.

    Progressive pictures, which take far more memory than their pixels, are not written and not read.
    """
    # Pictures of one size and quality begin alike: what was found in such a beginning need not be looked for again.
    return _remembered_size(data[:192].tobytes()) or _size_in(data[:4096].tobytes())


def _size_in(head: bytes) -> tuple[int, int] | None:
    at = 2
    while head[:2] == b"\xff\xd8" and at + 10 <= len(head) and head[at] == 0xFF:
        kind, length = head[at + 1], int.from_bytes(head[at + 2 : at + 4])
        if kind == 0xC0:
            precision, colours = head[at + 4], head[at + 9]
            sides = int.from_bytes(head[at + 5 : at + 7]), int.from_bytes(head[at + 7 : at + 9])
            return sides if (precision, colours) == (8, 3) else None
        if kind not in (0xDB, 0xC4, 0xDD, 0xFE, *range(0xE0, 0xF0)) or length < 2:
            return None
        at += 2 + length
    return None


_remembered_size = lru_cache(maxsize=1024)(_size_in)
