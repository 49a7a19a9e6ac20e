"""Confidence over time as a picture, for contact sheets and notebooks: coloured by verdict, with the threshold."""

from __future__ import annotations

from collections.abc import Sequence

from PIL import Image, ImageDraw

from earsight.localize.timeline import INK, Moment
from earsight.overlay import text_font

FINE = 2
"""Pixels of the picture for each pixel that it is shown at."""
_LEFT, _RIGHT, _TOP, _BOTTOM = 48, 14, 12, 26
_LETTERS = 12
_STEPS = (0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 60, 120, 300, 600, 1200, 3600, 7200)
_SMOOTHED, _ALONE = "#9aa1ab", "#9aa1ab70"


def confidence_chart(
    items: Sequence[Moment], threshold: float | None, width: int, height: int, ink: str = "#6b7280"
) -> Image.Image:
    """The confidences of one or more moments, with those of each moment alone where they differ, on a clear ground.

    Args:
        width: at which the chart is shown; the picture is `FINE` times as wide.
        height: likewise.
        ink: colour of letters and of the threshold.
    """
    image = Image.new("RGBA", (FINE * width, FINE * height))
    draw = ImageDraw.Draw(image)
    first, last = items[0].time, max(items[-1].time, items[0].time + 1e-3)
    values = [value for item in items for value in (item.confidence, item.momentary)]
    values += [threshold] if threshold is not None else []
    low, high = min(values), max(values)
    room = max(0.12 * (high - low), 0.01)
    low, high = low - room, high + room

    def x(time: float) -> float:
        return FINE * (_LEFT + (time - first) / (last - first) * (width - _LEFT - _RIGHT))

    def y(value: float) -> float:
        return FINE * (_TOP + (high - value) / (high - low) * (height - _TOP - _BOTTOM))

    def write(at: tuple[float, float], text: str, anchor: str) -> None:
        draw.text(at, text, ink, text_font(text, FINE * _LETTERS), anchor=anchor)

    for level in (low + (high - low) * part for part in (0.15, 0.5, 0.85)):
        draw.line([x(first), y(level), x(last), y(level)], "#80808038", FINE)
        write((x(first) - 7 * FINE, y(level)), f"{level:.2f}", "rm")
    step = next((one for one in _STEPS if (last - first) / one <= 10), (last - first) / 10)
    for k in range(int((last - first) / step + 1e-6) + 1):
        write((x(first + k * step), FINE * (height - 6)), f"{first + k * step:g} s", "ms")
    if any(item.momentary != item.confidence for item in items):
        draw.line([(x(item.time), y(item.momentary)) for item in items], _ALONE, FINE, joint="curve")
    draw.line([(x(item.time), y(item.confidence)) for item in items], _SMOOTHED, 2 * FINE, joint="curve")
    if threshold is not None:
        for begin in range(round(x(first)), round(x(last)), 9 * FINE):
            draw.line([begin, y(threshold), min(begin + 5 * FINE, x(last)), y(threshold)], ink, FINE)
        write((x(last), y(threshold) - 3 * FINE), f"threshold {threshold:.2f}", "rs")
    size = FINE * (3.5 if len(items) <= 120 else 2.2)
    for item in items:
        draw.circle((x(item.time), y(item.confidence)), size, INK[item.verdict])
    return image
