"""JPEG files in memory, as packs hold them. By Pillow, on a CPU."""

from __future__ import annotations

import io

import numpy as np
from PIL import Image

from earsight.types import U8


def encode_jpeg(picture: U8, quality: int) -> bytes:
    """A JPEG file of a picture uint8 (3, H, W)."""
    file = io.BytesIO()
    Image.fromarray(np.ascontiguousarray(picture.transpose(1, 2, 0))).save(file, "JPEG", quality=quality)
    return file.getvalue()


def decode_jpeg(data: U8, size: tuple[int, int] | None = None) -> U8:
    """The picture of a JPEG file of three colours, uint8 (3, H, W); a ValueError where it cannot be decoded.

    The colours of a pixel lie next to each other in memory. With a `size` (height, width), as packs of strangers need
    it, a plain JPEG of exactly that size is expected, and nothing else is decoded: progressive pictures take far more
    memory than their pixels.

    >>> decode_jpeg(np.frombuffer(encode_jpeg(np.zeros((3, 20, 30), np.uint8), 90), np.uint8), (20, 30)).shape
    (3, 20, 30)
    """
    try:
        with Image.open(io.BytesIO(data.tobytes()), formats=["JPEG"]) as image:
            if size is not None and (image.size != size[::-1] or image.mode != "RGB" or "progressive" in image.info):
                raise ValueError(f"not a plain JPEG of {size[1]} x {size[0]}")
            pixels: U8 = np.array(image if image.mode == "RGB" else image.convert("RGB"))
    except (OSError, SyntaxError, Image.DecompressionBombError) as error:  # all that Pillow raises on damaged files
        raise ValueError(" ".join(str(error).split())[:200] or "unknown") from error
    return pixels.transpose(2, 0, 1)
