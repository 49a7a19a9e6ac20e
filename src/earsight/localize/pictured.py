"""An answer with its picture, and pictures of the size that is looked at."""

from __future__ import annotations

import io
from dataclasses import dataclass

import numpy as np

from earsight.types import F32, U8, Localization

_QUALITY = 82


@dataclass(frozen=True, repr=False)
class Pictured(Localization):
    """A localization with the picture that it is about.

    Args:
        picture: uint8 (3, H, W).
        threshold: confidence from which on a source is called visible, or None.
    """

    picture: U8
    threshold: float | None

    def __repr__(self) -> str:
        height, width = self.map.shape
        told = self.verdict if self.silent else f"{self.verdict}, confidence {self.confidence:.3f}, boxes {self.boxes}"
        return f"Localization({told}, {width} x {height} pixels)"

    def _repr_html_(self) -> str:
        from earsight.localize.notebook import localization_html

        return localization_html(self)


def small(picture: U8, side: int, aspect: float = 1.0) -> U8:
    """A picture (3, H, W) whose longer side has at most `side` pixels, stretched so that its pixels become square.

    Args:
        aspect: how many times as wide as high a pixel of the picture is shown.
    """
    from PIL import Image  # which matplotlib brings along

    _, height, width = picture.shape
    wide = width * aspect
    share = min(1.0, side / max(height, wide))
    size = max(1, round(wide * share)), max(1, round(height * share))
    if size == (width, height):
        return picture
    whole = Image.fromarray(np.ascontiguousarray(picture.transpose(1, 2, 0)))
    return np.asarray(whole.resize(size, Image.Resampling.BICUBIC)).transpose(2, 0, 1)


def jpeg(picture: U8) -> bytes:
    """The bytes of a JPEG file of a picture (3, H, W)."""
    from PIL import Image

    file = io.BytesIO()
    Image.fromarray(np.ascontiguousarray(picture.transpose(1, 2, 0))).save(file, "JPEG", quality=_QUALITY)
    return file.getvalue()


def resized(score: F32, height: int, width: int) -> F32:
    """A map (H, W) at another size."""
    from PIL import Image

    if score.shape == (height, width):
        return score
    return np.asarray(Image.fromarray(score).resize((width, height), Image.Resampling.BILINEAR))
