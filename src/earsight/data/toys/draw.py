"""How the toys look: eight objects painted from simple shapes, and cluttered backgrounds.

A toy is painted into a box. Inside it, u and v run from -1 to 1 (left to right, top to bottom), so a toy fills its box
whatever the box's size and shape. Edges are soft over about one pixel.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

F64 = npt.NDArray[np.float64]
Color = tuple[float, float, float]


@dataclass
class Canvas:
    """A patch of the picture that a toy paints on.

    Args:
        rgb: float (3, h, w) in [0, 1], painted in place.
        u, v: coordinates of its pixels, each (h, w), -1 to 1.
        soft: how much one pixel is in u and v.
    """

    rgb: F64
    u: F64
    v: F64
    soft: float

    def fill(self, distance: F64, color: Color | F64) -> None:
        """Paint where `distance` is negative."""
        alpha = np.clip(0.5 - distance / self.soft, 0, 1)
        paint = np.asarray(color, dtype=np.float64)
        paint = paint[:, None, None] if paint.ndim == 1 else paint
        self.rgb += alpha * (paint - self.rgb)

    def disc(self, x: float, y: float, rx: float, ry: float, color: Color | F64) -> None:
        away = np.sqrt(((self.u - x) / rx) ** 2 + ((self.v - y) / ry) ** 2) - 1
        self.fill(away * min(rx, ry), color)

    def bar(self, x0: float, y0: float, x1: float, y1: float, color: Color | F64) -> None:
        away = np.maximum(
            np.abs(self.u - (x0 + x1) / 2) - (x1 - x0) / 2, np.abs(self.v - (y0 + y1) / 2) - (y1 - y0) / 2
        )
        self.fill(away, color)

    def wedge(self, top: float, bottom: float, wide_top: float, wide_bottom: float, color: Color | F64) -> None:
        """A trapezoid around u = 0."""
        along = np.clip((self.v - top) / (bottom - top), 0, 1)
        half = wide_top + (wide_bottom - wide_top) * along
        self.fill(np.maximum(np.abs(self.u) - half, np.maximum(top - self.v, self.v - bottom)), color)


def shade(color: Color, by: float) -> Color:
    r, g, b = (min(max(c * by, 0.0), 1.0) for c in color)
    return r, g, b


DARK: Color = (0.08, 0.07, 0.09)
LIGHT: Color = (0.96, 0.95, 0.9)


def bell(c: Canvas, color: Color) -> None:
    c.disc(0, -0.82, 0.18, 0.18, shade(color, 0.6))
    c.disc(0, -0.15, 0.55, 0.7, color)
    c.wedge(-0.2, 0.68, 0.52, 0.97, color)
    c.bar(-1.0, 0.58, 1.0, 0.74, shade(color, 0.55))
    c.disc(0, 0.82, 0.2, 0.18, shade(color, 0.35))
    c.disc(-0.22, -0.2, 0.09, 0.45, shade(color, 1.5))


def drum(c: Canvas, color: Color) -> None:
    zigzag = np.abs(((c.u * 2.5) % 2) - 1)
    c.bar(-0.95, -0.55, 0.95, 0.6, color)
    c.disc(0, 0.6, 0.95, 0.38, color)
    c.fill(np.abs(c.v - 0.05 - 0.5 * (zigzag - 0.5)) - 0.06 + 9.0 * (np.abs(c.u) > 0.93), LIGHT)
    c.disc(0, -0.55, 0.97, 0.42, shade(color, 0.5))
    c.disc(0, -0.58, 0.86, 0.33, LIGHT)


def bird(c: Canvas, color: Color) -> None:
    c.fill(np.maximum(np.abs(c.v - 0.35) - 0.2 * (-c.u), c.u + 0.35), shade(color, 0.55))
    c.disc(-0.1, 0.25, 0.68, 0.66, color)
    c.disc(0.42, -0.42, 0.48, 0.5, color)
    c.disc(-0.22, 0.25, 0.4, 0.32, shade(color, 0.6))
    c.disc(0.05, 0.6, 0.4, 0.22, LIGHT)
    c.fill(np.maximum(np.abs(c.v + 0.38) - 0.5 * (1.0 - c.u), 0.75 - c.u), (1.0, 0.65, 0.1))
    c.disc(0.5, -0.52, 0.13, 0.14, LIGHT)
    c.disc(0.54, -0.52, 0.07, 0.08, DARK)


def car(c: Canvas, color: Color) -> None:
    c.wedge(-0.85, 0.0, 0.42, 0.7, shade(color, 0.75))
    c.wedge(-0.7, -0.05, 0.36, 0.58, (0.65, 0.85, 0.95))
    c.bar(-0.06, -0.8, 0.06, 0.0, shade(color, 0.75))
    c.bar(-0.99, -0.08, 0.99, 0.6, color)
    c.disc(0.88, 0.12, 0.1, 0.14, (1.0, 0.95, 0.5))
    for x in (-0.55, 0.55):
        c.disc(x, 0.62, 0.3, 0.37, DARK)
        c.disc(x, 0.62, 0.13, 0.16, (0.75, 0.75, 0.78))


def frog(c: Canvas, color: Color) -> None:
    c.disc(0, 0.25, 0.98, 0.74, color)
    for x in (-0.5, 0.5):
        c.disc(x, -0.55, 0.32, 0.42, color)
        c.disc(x, -0.58, 0.22, 0.29, LIGHT)
        c.disc(x, -0.56, 0.1, 0.2, DARK)
    spots = np.sin(c.u * 9.0) * np.sin(c.v * 8.0)
    c.fill(np.maximum(0.75 - spots, (np.hypot(c.u / 0.9, (c.v - 0.25) / 0.66) - 1)), shade(color, 0.5))
    c.fill(np.abs(c.v - 0.42 - 0.18 * np.cos(c.u * 2)) - 0.05 + 9.0 * (np.abs(c.u) > 0.62), (0.75, 0.2, 0.25))


def phone(c: Canvas, color: Color) -> None:
    c.bar(-0.98, -0.98, 0.98, 0.98, DARK)
    c.bar(-0.84, -0.8, 0.84, 0.72, color)
    tile = np.maximum(np.abs(((c.u * 2.0 + 10) % 1) - 0.5), np.abs(((c.v * 2.4 + 10) % 1) - 0.5)) - 0.3
    c.fill(np.maximum(tile, np.maximum(np.abs(c.u) - 0.8, np.abs(c.v + 0.04) - 0.7)), LIGHT)
    c.disc(0, 0.85, 0.14, 0.08, (0.7, 0.7, 0.72))


def guitar(c: Canvas, color: Color) -> None:
    c.bar(-0.16, -0.98, 0.16, 0.2, (0.3, 0.18, 0.1))
    c.bar(-0.34, -0.98, 0.34, -0.78, (0.3, 0.18, 0.1))
    c.disc(0, 0.08, 0.7, 0.34, color)
    c.disc(0, 0.55, 0.98, 0.44, color)
    c.disc(0, 0.3, 0.3, 0.18, DARK)
    c.bar(-0.4, 0.68, 0.4, 0.78, (0.3, 0.18, 0.1))
    for x in (-0.1, 0.0, 0.1):
        c.bar(x - 0.015, -0.95, x + 0.015, 0.72, LIGHT)


def clock(c: Canvas, color: Color) -> None:
    c.disc(0, 0, 0.99, 0.99, color)
    c.disc(0, 0, 0.8, 0.8, LIGHT)
    angle = np.arctan2(c.v, c.u)
    radius = np.hypot(c.u, c.v)
    mark = np.abs(((angle / (np.pi / 6) + 0.5) % 1) - 0.5) * 0.5 * radius - 0.05
    c.fill(np.maximum(mark, np.maximum(0.6 - radius, radius - 0.74)), DARK)
    c.bar(-0.05, -0.58, 0.05, 0.08, DARK)
    c.bar(-0.05, -0.05, 0.42, 0.05, DARK)
    c.disc(0, 0, 0.1, 0.1, shade(color, 0.7))


TOYS: dict[str, tuple[Callable[[Canvas, Color], None], float]] = {
    "bell": (bell, 0.13),
    "drum": (drum, 0.0),
    "bird": (bird, 0.55),
    "car": (car, 0.64),
    "frog": (frog, 0.33),
    "phone": (phone, 0.5),
    "guitar": (guitar, 0.07),
    "clock": (clock, 0.82),
}
"""Class -> how it is painted, and the hue around which its instances vary."""


def hue(h: float, s: float, v: float) -> Color:
    """HSV to RGB."""
    sector = np.abs(((h % 1) * 6 + np.array([0.0, 4.0, 2.0])) % 6 - 3) - 1
    r, g, b = v * (1 - s + s * np.clip(sector, 0, 1))
    return float(r), float(g), float(b)


def paint_toy(picture: F64, name: str, box: tuple[float, float, float, float], color: Color, mirror: bool) -> None:
    """Paint a toy into `box` (fractions x0, y0, x1, y1, may reach outside) of `picture`, float (3, S, S)."""
    side = picture.shape[1]
    x0, y0, x1, y1 = (b * side for b in box)
    left, top = max(int(np.floor(x0)), 0), max(int(np.floor(y0)), 0)
    right, bottom = min(int(np.ceil(x1)), side), min(int(np.ceil(y1)), side)
    if right <= left or bottom <= top:
        return
    u = (np.arange(left, right) + 0.5 - (x0 + x1) / 2) * 2 / (x1 - x0)
    v = (np.arange(top, bottom) + 0.5 - (y0 + y1) / 2) * 2 / (y1 - y0)
    grid_u, grid_v = np.broadcast_arrays(-u[None] if mirror else u[None], v[:, None])
    soft = 2.0 / min(x1 - x0, y1 - y0)
    TOYS[name][0](Canvas(picture[:, top:bottom, left:right], grid_u, grid_v, soft), color)


def background(random: np.random.Generator, side: int) -> F64:
    """Clutter, float (3, side, side): a colour slope, blocks, discs and lines of any colour, and grain."""
    along = np.linspace(-1, 1, side)
    grid_u, grid_v = np.broadcast_arrays(along[None], along[:, None])
    one, two = random.uniform(0.1, 0.9, (2, 3, 1, 1))
    turn = random.uniform(0, 2 * np.pi)
    slope = np.clip(0.5 + 0.5 * (np.cos(turn) * grid_u + np.sin(turn) * grid_v), 0, 1)
    canvas = Canvas(one + (two - one) * slope, grid_u, grid_v, 2.0 / side)
    for _ in range(random.integers(4, 10)):
        x, y = random.uniform(-1, 1, 2)
        w, h = random.uniform(0.04, 0.45, 2)
        color = hue(random.uniform(), random.uniform(0.1, 0.8), random.uniform(0.15, 0.95))
        shape = random.integers(3)
        if shape == 0:
            canvas.bar(x - w, y - h, x + w, y + h, color)
        elif shape == 1:
            canvas.disc(x, y, w, h, color)
        else:
            slant = random.uniform(-1, 1)
            canvas.fill(np.abs(grid_v - y - slant * (grid_u - x)) - 0.06 * w - 0.01, color)
    return canvas.rgb + random.normal(0, random.uniform(0.01, 0.04), (3, side, side))
