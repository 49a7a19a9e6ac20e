"""A small bitmap font, so that pictures can carry a caption without a font library.

Each printable ASCII character is 5 dots wide and 9 high: 7 above the baseline and 2 below. One base-32 digit is one
row, its highest bit the leftmost dot, so "EHHVHHH00" is A.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from earsight.types import F32, Mask

WIDTH, HEIGHT = 6, 9
"""Dots from one character to the next, and from the top of a line to its bottom."""

_GLYPHS = """
000000000 444440400 AAA000000 0AVAVA000 4FKE5U400 OP248J300 CIK8LID00 440000000 248884200 842224800 04LEL4000 044V44000
00000CC48 000E00000 00000CC00 11248GG00
EHJLPHE00 4C4444E00 EH1248V00 V2421HE00 26AIV2200 VGU11HE00 68GUHHE00 V12488800 EHHEHHE00 EHHF12C00
0CC0CC000 0CC00CC48 248G84200 00V0V0000 842124800 EH1240400 EHNLNGE00
EHHVHHH00 UHHUHHU00 EHGGGHE00 SIHHHIS00 VGGUGGV00 VGGUGGG00 EHGNHHF00 HHHVHHH00 E44444E00 72222IC00 HIKOKIH00 GGGGGGV00
HRLLHHH00 HHPLJHH00 EHHHHHE00 UHHUGGG00 EHHHLID00 UHHUKIH00 FGGE11U00 V44444400 HHHHHHE00 HHHHHA400 HHHLLLA00 HHA4AHH00
HHHA44400 V1248GV00 E88888E00 GG8421100 E22222E00 4AH000000 0000000V0 842000000
00E1FHF00 GGMPHHU00 00EHGHE00 11DJHHF00 00EHVGE00 698S88800 00FHHHF1E GGMPHHH00 40C444E00 2062222IC GGIKOKI00 C44444E00
00QLLLL00 00MPHHH00 00EHHHE00 00UHHHUGG 00FHHHF11 00MPGGG00 00FGE1U00 88S889600 00HHHJD00 00HHHA400 00HHLLA00 00HA4AH00
00HHHHF1E 00V248V00 244844200 444444400 844244800 008L20000
"""


@lru_cache(maxsize=128)
def glyph(character: str) -> Mask:
    """Dots of one character, bool (9, 6); what is not printable ASCII is shown as a question mark.

    >>> print("\\n".join("".join(" #"[dot] for dot in row).rstrip() for row in glyph("A")[:7].astype(int)))
     ###
    #   #
    #   #
    #####
    #   #
    #   #
    #   #
    """
    at = ord(character) - 32 if " " <= character <= "~" else ord("?") - 32
    rows = np.array([[2 * int(digit, 32)] for digit in _GLYPHS.split()[at]])  # twice: the last column stays empty
    dots: Mask = (rows >> np.arange(WIDTH - 1, -1, -1) & 1).astype(bool)
    return dots


@lru_cache(maxsize=64)
def line(text: str, scale: int = 1) -> F32:
    """Coverage of a line of text, float32 (9 * scale, 6 * scale * len(text)) in [0, 1], with smooth diagonals."""
    dots = np.concatenate([glyph(character) for character in text or " "], axis=1)
    for _ in range(2 if scale > 1 else 0):
        dots = _doubled(dots)
    if scale == 1:
        return dots.astype(np.float32)
    many = np.repeat(np.repeat(dots, scale, axis=0), scale, axis=1)
    height, width = many.shape
    smooth: F32 = many.reshape(height // 4, 4, width // 4, 4).mean(axis=(1, 3), dtype=np.float32)
    return smooth


def _doubled(dots: Mask) -> Mask:
    """Twice the size with corners cut: a dot's quarter takes its two neighbours' value where those agree."""
    around = np.pad(dots, 1)
    up, down, left, right = around[:-2, 1:-1], around[2:, 1:-1], around[1:-1, :-2], around[1:-1, 2:]
    big = np.empty((2 * dots.shape[0], 2 * dots.shape[1]), dtype=bool)
    differ = (up != down) & (left != right)
    big[::2, ::2] = np.where(differ & (up == left), up, dots)
    big[::2, 1::2] = np.where(differ & (up == right), up, dots)
    big[1::2, ::2] = np.where(differ & (down == left), down, dots)
    big[1::2, 1::2] = np.where(differ & (down == right), down, dots)
    return big
