"""What is drawn over the frames of a film, in the film's own colours: heat, boxes and caption as one multiply and add.

Frames stay as they are stored, a plane of brightness and two of colour at half the size (YUV 4:2:0, BT.709): turning
every frame into red, green and blue and back costs more than all the drawing. Each sample becomes
(sample * keep + add) / 256, and as the map changes less often than the frame, `keep` and `add` serve many frames.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import numpy.typing as npt

from earsight import font
from earsight.heatmap import BLACK, COLORS, Color, text_size
from earsight.media.planes import Planes
from earsight.types import F32, U8

Weight = np.uint32 | npt.NDArray[np.uint32]
U16 = npt.NDArray[np.uint16]
_ROWS = 32  # painted at a time, so that what is in between stays in the processor's cache

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


_HEAT = to_yuv(COLORS)


@lru_cache(maxsize=16)
def _yuv(color: Color) -> tuple[np.uint32, ...]:
    """A colour, each part times 256."""
    return tuple(np.uint32(round(part * 256)) for part in to_yuv(np.array(color)[:, None])[:, 0])


def caption_size(text: str, height: int, width: int) -> tuple[int, int] | None:
    """How large the letters of a caption are and how high its bar, or None where a picture has no room for one."""
    scale = max(1, min(round(min(height, width) / 270), width // (text_size(text)[0] + 3)))
    bar = text_size(text, scale)[1] + 2 * scale
    return None if bar > height // 3 else (scale, bar)


class Paint:
    """Something to draw over frames (height, width), both even. Each call draws over what was drawn before."""

    def __init__(self, height: int, width: int) -> None:
        sizes = ((height, width), (height // 2, width // 2))
        luma, chroma = (np.full(size, 256, np.uint16) for size in sizes)
        self._keep = [luma, chroma]
        # Half of what the shift takes away, for rounding. Sums stay below 65,536: keep and add share 256 parts.
        self._add = [np.full(sizes[min(i, 1)], 128, np.uint16) for i in range(3)]
        self._touched = np.zeros(-(-height // _ROWS), np.bool_)

    def heat(self, step: U8, opacity: float) -> None:
        """The heat map (height / 2, width / 2) of 0..255, clear where it is low; to be drawn first."""
        rise = np.clip((np.linspace(0, 1, 256) - 0.3) / 0.5, 0, 1)
        weight = np.round(opacity * rise * rise * (3 - 2 * rise) * 256).astype(np.uint16)
        add = np.round(_HEAT * weight).astype(np.uint16) + np.uint16(128)
        self._keep[1] = (256 - weight)[step]
        self._add[1], self._add[2] = add[1][step], add[2][step]
        self._keep[0], self._add[0] = _doubled(self._keep[1]), _doubled(add[0][step])
        hot = np.flatnonzero((self._keep[1] != 256).any(axis=1)) * 2
        self._touched[np.unique(hot // _ROWS)] = True

    def frame(self, box: tuple[int, int, int, int], color: Color, thick: int) -> None:
        """A frame inside the pixel box (x0, y0, x1, y1), with a dark line on both sides."""
        for grow, paint, opacity in ((1, BLACK, 0.45), (0, color, 1.0)):
            x0, y0, x1, y1 = box[0] - grow, box[1] - grow, box[2] + grow, box[3] + grow
            wide = min(thick + 2 * grow, (x1 - x0 + 1) // 2, (y1 - y0 + 1) // 2)
            for part in (
                (x0, y0, x1, y0 + wide),
                (x0, y1 - wide, x1, y1),
                (x0, y0 + wide, x0 + wide, y1 - wide),
                (x1 - wide, y0 + wide, x1, y1 - wide),
            ):
                self.fill(part, paint, opacity)

    def fill(self, box: tuple[int, int, int, int], color: Color, opacity: float) -> None:
        """A colour over the pixels of a box."""
        height, width = self._keep[0].shape
        x0, y0, x1, y1 = max(box[0], 0), max(box[1], 0), min(box[2], width), min(box[3], height)
        if x0 < x1 and y0 < y1:
            self._lay((x0, y0, x1, y1), color, np.uint32(round(opacity * 256)), np.uint32(round(opacity * 256)))

    def stencil(self, x: int, y: int, ink: F32, color: Color) -> None:
        """A colour over the pixels from (x, y) on, as opaque as `ink` (h, w) says; what does not fit is cut off."""
        height, width = self._keep[0].shape
        ink = ink[: max(0, height - y), : max(0, width - x)]
        if ink.size:
            weight = np.round(ink * 256).astype(np.uint32)
            # A sample of colour belongs to four pixels and takes what one of them has.
            rows, columns = (
                np.maximum(np.arange(first // 2, (first + count + 1) // 2) * 2 - first, 0)
                for first, count in ((y, ink.shape[0]), (x, ink.shape[1]))
            )
            self._lay((x, y, x + ink.shape[1], y + ink.shape[0]), color, weight, weight[rows][:, columns])

    def _lay(self, box: tuple[int, int, int, int], color: Color, fine: Weight, coarse: Weight) -> None:
        """A colour over a box inside the frame, weighed in parts of 256 for the planes of either size."""
        x0, y0, x1, y1 = box
        yuv = _yuv(color)
        sizes = (
            (slice(y0, y1), slice(x0, x1)),
            (slice(y0 // 2, (y1 + 1) // 2), slice(x0 // 2, (x1 + 1) // 2)),
        )
        for where, weight, keep, planes in zip(sizes, (fine, coarse), self._keep, ((0,), (1, 2)), strict=True):
            rest = 256 - weight
            keep[where] = keep[where] * rest >> 8
            for i in planes:
                under = self._add[i][where]
                self._add[i][where] = (under * rest >> 8) + (yuv[i] * weight >> 8)
        self._touched[y0 // _ROWS : (y1 - 1) // _ROWS + 1] = True

    def caption(self, text: str, color: Color, height: int, width: int) -> None:
        """A line of text on a dark bar along the lower edge of a picture (height, width), where there is room."""
        room = caption_size(text, height, width)
        if room is None:
            return
        scale, bar = room
        self.fill((0, height - bar, width, height), BLACK, 0.75)
        self.fill((0, height - bar, 3 * scale, height), color, 1.0)
        letters = font.line(text, scale)
        x, y = 6 * scale, height - bar + 3 * scale
        self.stencil(x, y, letters, color)

    def over(self, frame: Planes, out: Planes) -> None:
        """Write the painted frame into `out`."""
        for i in range(3):
            keep, add = self._keep[min(i, 1)], self._add[i]
            rows = _ROWS if i == 0 else _ROWS // 2
            between = np.empty((rows, keep.shape[1]), np.uint16)
            for band, touched in enumerate(self._touched):
                part = slice(band * rows, min((band + 1) * rows, len(keep)))
                if touched:
                    sample = between[: part.stop - part.start]
                    np.multiply(frame[i][part], keep[part], out=sample, dtype=np.uint16)
                    sample += add[part]
                    sample >>= 8
                    np.copyto(out[i][part], sample, casting="unsafe")
                else:
                    np.copyto(out[i][part], frame[i][part])


def _doubled(values: U16) -> U16:
    """(h, w) -> (2h, 2w), each value four times."""
    wide = (values.astype(np.uint32) * np.uint32(0x10001)).view(np.uint16)  # two side by side in one product
    return np.repeat(wide, 2, axis=0)
