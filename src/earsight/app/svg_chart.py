"""Confidence over time as a drawing (SVG) that fits any width and any ground, for web pages and notebooks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from earsight.localize.timeline import INK

_WIDE, _TALL = 640, 170
_LEFT, _RIGHT, _TOP, _BOTTOM = 44, 12, 14, 28
# A page's style sheet goes before these; where there is none, lines and letters have the colour of the text around.
_WORDS = 'fill="currentColor" font-size="11.5" opacity=".65"'


class Point(Protocol):
    """A moment of a timeline, of which these three count here."""

    @property
    def time(self) -> float: ...
    @property
    def verdict(self) -> str: ...
    @property
    def confidence(self) -> float: ...


def chart(points: Sequence[Point], threshold: float | None, here: int | None = None) -> str:
    """The confidences of one or more moments, coloured by verdict, with the threshold; `here` is marked."""
    first, last = points[0].time, max(points[-1].time, points[0].time + 1e-3)
    values = [point.confidence for point in points] + ([threshold] if threshold is not None else [])
    low, high = min(values), max(values)
    room = max(0.12 * (high - low), 0.01)
    low, high = low - room, high + room

    def x(time: float) -> float:
        return _LEFT + (time - first) / (last - first) * (_WIDE - _LEFT - _RIGHT)

    def y(value: float) -> float:
        return _TOP + (high - value) / (high - low) * (_TALL - _TOP - _BOTTOM)

    line = " ".join(f"{x(point.time):.1f},{y(point.confidence):.1f}" for point in points)
    size = 3.4 if len(points) <= 120 else 2.2
    dots = "".join(
        f'<circle cx="{x(p.time):.1f}" cy="{y(p.confidence):.1f}" r="{size}" fill="{INK[p.verdict]}"/>' for p in points
    )
    drawn = f'<polyline points="{line}" class="es-line" fill="none" stroke="#9aa1ab" stroke-width="1.6"/>'
    parts = [drawn, dots, _times(first, last, x), _levels(low, high, y)]
    if threshold is not None:
        level = y(threshold)
        parts.append(
            f'<line x1="{_LEFT}" x2="{_WIDE - _RIGHT}" y1="{level:.1f}" y2="{level:.1f}" class="es-threshold" '
            'stroke="currentColor" stroke-dasharray="5 4" opacity=".6"/>'
            f'<text x="{_WIDE - _RIGHT}" y="{level - 5:.1f}" text-anchor="end" {_WORDS}>'
            f"threshold {threshold:.2f}</text>"
        )
    if here is not None:
        at = x(points[min(max(0, here), len(points) - 1)].time)
        parts.append(
            f'<line x1="{at:.1f}" x2="{at:.1f}" y1="{_TOP - 6}" y2="{_TALL - _BOTTOM}" class="es-here" '
            'stroke="#f59e0b" stroke-width="2" opacity=".8"/>'
        )
    return (
        f'<svg class="es-plot" viewBox="0 0 {_WIDE} {_TALL}" role="img" aria-label="Confidence over time">'
        f"{''.join(parts)}</svg>"
    )


def _times(first: float, last: float, x: Callable[[float], float]) -> str:
    steps = (0.5, 1, 2, 5, 10, 20, 60, 120, 300, 600, 1200, 3600, 7200)
    step = next((one for one in steps if (last - first) / one <= 7), (last - first) / 7)
    count = int((last - first) / step + 1e-6)
    below = _TALL - _BOTTOM + 18
    times = [first + k * step for k in range(count + 1)]
    return "".join(
        f'<text x="{x(time):.1f}" y="{below}" text-anchor="middle" {_WORDS}>{time:g} s</text>' for time in times
    )


def _levels(low: float, high: float, y: Callable[[float], float]) -> str:
    levels = [low + (high - low) * part for part in (0.15, 0.5, 0.85)]
    return "".join(
        f'<line x1="{_LEFT}" x2="{_WIDE - _RIGHT}" y1="{y(v):.1f}" y2="{y(v):.1f}" class="es-grid" '
        'stroke="currentColor" opacity=".12"/>'
        f'<text x="{_LEFT - 6}" y="{y(v) + 4:.1f}" text-anchor="end" {_WORDS}>{v:.2f}</text>'
        for v in levels
    )
