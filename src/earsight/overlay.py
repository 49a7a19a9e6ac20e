"""Drawing over pictures and film frames: heat, outlines, boxes and text, as one multiply and add.

A drawing is kept apart from what it is drawn over: each sample becomes (sample * keep + add) / 256, so one drawing
serves many frames. It works on red, green and blue, and on the planes that films are stored as (YUV 4:2:0, BT.709):
turning every frame into red, green and blue and back costs more than all the drawing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from pathlib import Path

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageDraw, ImageFont

from earsight.types import F32, U8, Mask

Color = tuple[int, int, int]
PixelBox = tuple[int, int, int, int]
"""x0, y0, x1, y1 in whole pixels; x1 and y1 are one past the last."""
Weight = np.uint32 | npt.NDArray[np.uint32]
U16 = npt.NDArray[np.uint16]

WHITE, BLACK, CYAN = (255, 255, 255), (0, 0, 0), (72, 219, 251)
OPACITY = 0.65
"""How opaque the heat is where it is hottest, unless something else is asked for."""
SMALLEST_TEXT = 11
"""Pixels of the smallest letters that are drawn."""
_ROWS = 32  # drawn at a time, so that what is in between stays in the processor's cache

# Dark violet over red and orange to pale yellow: lightness only ever rises, so it also reads in grey and for people
# who do not tell red from green.
_STOPS = ((20, 11, 80), (84, 15, 109), (158, 40, 100), (221, 81, 58), (251, 155, 20), (252, 245, 155))
COLORS: U8 = np.stack(
    [np.interp(np.linspace(0, 1, 256), np.linspace(0, 1, 6), part).round() for part in zip(*_STOPS, strict=True)],
    dtype=np.uint8,
    casting="unsafe",
)
"""The colour of each of 256 steps of heat, uint8 (3, 256)."""

# BT.709 with black at 16 and white at 235.
_MATRIX = np.array([[0.2126, 0.7152, 0.0722], [-0.1146, -0.3854, 0.5], [0.5, -0.4542, -0.0458]])
_SCALE, _ZERO = np.array([219 / 255, 224 / 255, 224 / 255]), np.array([16.0, 128.0, 128.0])


def to_yuv(rgb: npt.NDArray[np.integer]) -> npt.NDArray[np.float64]:
    """Colours (3, N) of 0..255 as brightness and colour.

    >>> to_yuv(np.array([[255, 0], [255, 0], [255, 0]])).round().tolist()
    [[235.0, 16.0], [128.0, 128.0], [128.0, 128.0]]
    """
    yuv: npt.NDArray[np.float64] = (_MATRIX @ rgb) * _SCALE[:, None] + _ZERO[:, None]
    return yuv


_HEAT = {False: COLORS.astype(np.float64), True: to_yuv(COLORS)}


@lru_cache(maxsize=32)
def _color(color: Color, yuv: bool) -> tuple[np.uint32, ...]:
    """The three parts of a colour, each times 256."""
    parts = to_yuv(np.array(color)[:, None])[:, 0] if yuv else color
    return tuple(np.uint32(round(part * 256)) for part in parts)


def stretch(score: F32, low: float | None = None, high: float | None = None) -> F32:
    """A map (H, W) moved to [0, 1] by its own or the given range, clipped; a flat map becomes 0.

    >>> stretch(np.array([[1.0, 2.0, 5.0]], dtype=np.float32)).tolist()
    [[0.0, 0.25, 1.0]]
    """
    low = float(score.min()) if low is None else low
    high = float(score.max()) if high is None else high
    if high <= low:
        return np.zeros(score.shape, dtype=np.float32)
    moved: F32 = np.clip((score - low) / (high - low), 0, 1).astype(np.float32)
    return moved


def overlay(rgb: U8, score: F32, mask: Mask | None = None, boxes: Iterable[PixelBox] = ()) -> U8:
    """A picture uint8 (3, H, W) with a score (H, W) in 0..1 as heat, the outline of a mask (H, W) and cyan boxes."""
    shape = rgb.shape[1:]
    for what, value in (("score", score), ("mask", mask)):
        if value is not None and value.shape != shape:
            raise ValueError(f"Expected a {what} of {shape} like the picture, but got {value.shape}.")
    drawing = Overlay(*shape)
    drawing.heat((np.clip(score, 0, 1) * 255).astype(np.uint8), OPACITY)
    if mask is not None:
        drawing.outline(mask)
    for box in boxes:
        drawing.frame(box, CYAN)
    return drawing.over(rgb)


class Overlay:
    """A drawing over pictures (height, width). Each call draws over what was drawn before.

    Args:
        height: of the pictures.
        width: likewise.
        yuv: for frames as three planes, brightness and two of colour at half the size, instead of red, green and blue.
            An odd height or width then has one more row or column, as films have.
    """

    def __init__(self, height: int, width: int, *, yuv: bool = False) -> None:
        self.height, self.width, self._yuv = height, width, yuv
        self.thick = max(1, round(min(height, width) / 200))
        """Pixels of a line that looks the same on a thumbnail and on a film frame."""
        tall, wide = (height + height % 2, width + width % 2) if yuv else (height, width)
        # Planes of the same size share what they keep: (size of a sample in pixels, which planes).
        self._groups = ((1, (0,)), (2, (1, 2))) if yuv else ((1, (0, 1, 2)),)
        self._keep = [np.full((tall // size, wide // size), 256, np.uint16) for size, _ in self._groups]
        # Half of what the shift takes away, for rounding. Sums stay below 65,536: keep and add share 256 parts.
        self._add = [np.full_like(self._keep[g], 128) for g, (_, planes) in enumerate(self._groups) for _ in planes]
        self._touched = np.zeros(-(-tall // _ROWS), np.bool_)

    def heat(self, step: U8, opacity: float) -> None:
        """A heat map of 0..255, clear where it is low, drawn first; on planes it has half the height and width."""
        rise = np.clip((np.linspace(0, 1, 256) - 0.3) / 0.5, 0, 1)
        weight = np.round(opacity * rise * rise * (3 - 2 * rise) * 256).astype(np.uint16)
        keep, add = 256 - weight, np.round(_HEAT[self._yuv] * weight).astype(np.uint16) + np.uint16(128)
        self._keep[-1] = keep[step]
        self._add[1:] = add[1][step], add[2][step]
        first = add[0][step]
        self._add[0] = _doubled(first) if self._yuv else first
        if self._yuv:
            self._keep[0] = _doubled(self._keep[1])
        hot = np.flatnonzero((self._keep[0] != 256).any(axis=1))
        self._touched[np.unique(hot // _ROWS)] = True

    def outline(self, mask: Mask) -> None:
        """A white line along the border of a mask (height, width), with a dark one around it; not on planes."""
        edge = mask & _grown(~mask, 1)  # the picture's own edge is no border
        for color, by, opacity in ((BLACK, self.thick, 0.45), (WHITE, self.thick // 2, 0.95)):
            self.stencil(0, 0, _grown(edge, by) * np.float32(opacity), color)

    def frame(self, box: PixelBox, color: Color) -> None:
        """A frame inside a box, with a dark line on both sides."""
        for grow, paint, opacity in ((1, BLACK, 0.45), (0, color, 1.0)):
            x0, y0, x1, y1 = box[0] - grow, box[1] - grow, box[2] + grow, box[3] + grow
            wide = min(self.thick + 2 * grow, (x1 - x0 + 1) // 2, (y1 - y0 + 1) // 2)
            for part in (
                (x0, y0, x1, y0 + wide),
                (x0, y1 - wide, x1, y1),
                (x0, y0 + wide, x0 + wide, y1 - wide),
                (x1 - wide, y0 + wide, x1, y1 - wide),
            ):
                self.fill(part, paint, opacity)

    def fill(self, box: PixelBox, color: Color, opacity: float) -> None:
        """A colour over the pixels of a box."""
        height, width = self._keep[0].shape
        x0, y0, x1, y1 = max(box[0], 0), max(box[1], 0), min(box[2], width), min(box[3], height)
        if x0 < x1 and y0 < y1:
            self._lay((x0, y0, x1, y1), color, [np.uint32(round(opacity * 256))] * len(self._groups))

    def stencil(self, x: int, y: int, ink: F32, color: Color) -> None:
        """A colour over the pixels from (x, y) on, as opaque as `ink` (h, w) says; what does not fit is cut off."""
        ink = ink[: max(0, self.height - y), : max(0, self.width - x)]
        if not ink.size:
            return
        weight = np.round(ink * 256).astype(np.uint32)
        weights: list[Weight] = [weight]
        if self._yuv:  # a sample of colour belongs to four pixels and takes what one of them has
            rows, columns = (
                np.maximum(np.arange(first // 2, (first + count + 1) // 2) * 2 - first, 0)
                for first, count in ((y, ink.shape[0]), (x, ink.shape[1]))
            )
            weights.append(weight[rows][:, columns])
        self._lay((x, y, x + ink.shape[1], y + ink.shape[0]), color, weights)

    def caption(self, lines: Sequence[tuple[str, Color]]) -> None:
        """Lines of text on dark bars along the lower edge, the last one lowest, each with a stripe of its colour.

        They take a third of the picture at most. What has no room is left out; the last line, if too long, is cut off.
        """
        below = self.height
        for text, color in reversed(lines):
            size = max(SMALLEST_TEXT, round(min(self.height, self.width) / 24))
            stripe = max(2, size // 4)
            room = self.width - 3 * stripe
            if text_width(text, size) > room:
                size = max(SMALLEST_TEXT, size * room // text_width(text, size))
            ink = text_ink(text, size)
            bar = len(ink) + 2 * (size // 6)
            if bar > below - self.height * 2 // 3 or (ink.shape[1] > room and below < self.height):
                return
            self.fill((0, below - bar, self.width, below), BLACK, 0.75)
            self.fill((0, below - bar, stripe, below), color, 1.0)
            self.stencil(2 * stripe, below - bar + size // 6, ink, color)
            below -= bar

    def over(self, frame: U8) -> U8:
        """A picture uint8 (3, height, width) with the drawing over it."""
        out = np.empty_like(frame)
        self.into([*frame], [*out])
        return out

    def into(self, frame: Sequence[U8], out: Sequence[U8]) -> None:
        """Write the three planes of a frame, with the drawing over them, into those of `out`."""
        for (size, planes), keep in zip(self._groups, self._keep, strict=True):
            rows = _ROWS // size
            between = np.empty((rows, keep.shape[1]), np.uint16)
            for plane in planes:
                for band, touched in enumerate(self._touched):
                    part = slice(band * rows, min((band + 1) * rows, len(keep)))
                    if touched:
                        sample = between[: part.stop - part.start]
                        np.multiply(frame[plane][part], keep[part], out=sample, dtype=np.uint16)
                        sample += self._add[plane][part]
                        sample >>= 8
                        np.copyto(out[plane][part], sample, casting="unsafe")
                    else:
                        np.copyto(out[plane][part], frame[plane][part])

    def _lay(self, box: PixelBox, color: Color, weights: Sequence[Weight]) -> None:
        """A colour over a box inside the picture, weighed in parts of 256 for the planes of either size."""
        x0, y0, x1, y1 = box
        parts = _color(color, self._yuv)
        for (size, planes), keep, weight in zip(self._groups, self._keep, weights, strict=True):
            where = slice(y0 // size, -(-y1 // size)), slice(x0 // size, -(-x1 // size))
            rest = 256 - weight
            keep[where] = keep[where] * rest >> 8
            for plane in planes:
                under = self._add[plane][where]
                self._add[plane][where] = (under * rest >> 8) + (parts[plane] * weight >> 8)
        self._touched[y0 // _ROWS : (y1 - 1) // _ROWS + 1] = True


@lru_cache(maxsize=32)
def font(size: int, plain: bool = True) -> ImageFont.FreeTypeFont | ImageFont.ImageFont:
    """Letters so many pixels high: Pillow's own, or where these lack some of the text's, those of matplotlib."""
    if plain:
        return ImageFont.load_default(size)
    import matplotlib

    return ImageFont.truetype(Path(matplotlib.get_data_path(), "fonts", "ttf", "DejaVuSans.ttf"), size)


def text_font(text: str, size: int) -> ImageFont.FreeTypeFont | ImageFont.ImageFont:
    """The font that has the letters of a text."""
    return font(size, text.isascii())


def text_width(text: str, size: int) -> int:
    """Pixels that a line of text takes."""
    return max(1, round(text_font(text, size).getlength(text)))


@lru_cache(maxsize=64)
def text_ink(text: str, size: int) -> F32:
    """How much of each pixel a line of text covers, float32 (h, w) in [0, 1]; the height depends on the size alone."""
    image = Image.new("L", (text_width(text, size) + 1, round(1.25 * size)))
    ImageDraw.Draw(image).text((0, round(0.95 * size)), text, 255, text_font(text, size), anchor="ls")
    ink: F32 = np.asarray(image, np.float32) / np.float32(255)
    return ink


def scaled(picture: U8, side: int, aspect: float = 1.0) -> U8:
    """A picture (3, H, W) whose longer side has at most `side` pixels, stretched so that its pixels become square.

    Args:
        aspect: how many times as wide as high a pixel of the picture is shown.
    """
    _, height, width = picture.shape
    wide = width * aspect
    share = min(1.0, side / max(height, wide))
    size = max(1, round(wide * share)), max(1, round(height * share))
    if size == (width, height):
        return picture
    whole = Image.fromarray(np.ascontiguousarray(picture.transpose(1, 2, 0)))
    return np.asarray(whole.resize(size, Image.Resampling.BICUBIC)).transpose(2, 0, 1)


def _doubled(values: U16) -> U16:
    """(h, w) -> (2h, 2w), each value four times."""
    wide = (values.astype(np.uint32) * np.uint32(0x10001)).view(np.uint16)  # two side by side in one product
    return np.repeat(wide, 2, axis=0)


def _grown(mask: Mask, by: int) -> Mask:
    """Every pixel within `by` rows and columns of the mask."""
    for axis in (0, 1):
        grown = mask.copy()
        far, near = (np.swapaxes(x, 0, axis) for x in (grown, mask))
        for d in range(1, by + 1):
            far[d:] |= near[:-d]
            far[:-d] |= near[d:]
        mask = grown
    return mask
