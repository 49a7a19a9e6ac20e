"""What the page says and draws: verdicts, the confidence over time as a picture, and messages."""

from __future__ import annotations

from collections.abc import Callable
from html import escape

from earsight.app.answer import Answer, Point
from earsight.localize.timeline import NOT_CALIBRATED, NOT_VISIBLE, SILENT, VISIBLE

INK = {VISIBLE: "#12925a", NOT_VISIBLE: "#d1422f", SILENT: "#7a7f87", NOT_CALIBRATED: "#3d6fd9"}
SAYING = {
    VISIBLE: "The source is in the picture",
    NOT_VISIBLE: "No visible source",
    SILENT: "Silent",
    NOT_CALIBRATED: "Not calibrated",
}
_WIDE, _TALL = 640, 170
_LEFT, _RIGHT, _TOP, _BOTTOM = 44, 12, 14, 28


def message(text: str) -> str:
    """Something went wrong: what was expected, what came, and what to do."""
    return f'<div class="es-notice" role="alert">{escape(text)}</div>' if text else ""


def headline(answer: Answer, heard: str = "") -> str:
    """The verdict of a clip, with what share of it each verdict has."""
    verdict = answer.verdict
    shares = [(one, answer.share(one)) for one in (VISIBLE, NOT_VISIBLE, SILENT, NOT_CALIBRATED)]
    told = ", ".join(f"{one} {share:.0%}" for one, share in shares if share > 0)
    mixed = " most of the time" if answer.share(verdict) < 1 and verdict != SILENT else ""
    sound = f'<span class="es-heard">with {escape(heard)}</span>' if heard else ""
    bar = "".join(
        f'<i style="width:{100 * share:.2f}%;background:{INK[one]}"></i>' for one, share in shares if share > 0
    )
    return (
        f'<div class="es-verdict" data-verdict="{verdict}" style="--ink:{INK[verdict]}">'
        f"<b>{SAYING[verdict]}{mixed}</b>{sound}"
        f'<div class="es-bar" title="{told}">{bar}</div><small>of the clip: {told}</small></div>'
    )


def plot(answer: Answer, at: int = 0) -> str:
    """Confidence over time with the threshold and the verdicts, as SVG that fits any width."""
    points = answer.points
    first, last = points[0].time, max(points[-1].time, points[0].time + 1e-3)
    values = [point.confidence for point in points] + ([answer.threshold] if answer.threshold is not None else [])
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
    here = x(points[min(max(0, at), len(points) - 1)].time)
    parts = [f'<polyline points="{line}" class="es-line"/>', dots, _times(first, last, x), _levels(low, high, y)]
    if answer.threshold is not None:
        level = y(answer.threshold)
        parts.append(
            f'<line x1="{_LEFT}" x2="{_WIDE - _RIGHT}" y1="{level:.1f}" y2="{level:.1f}" class="es-threshold"/>'
            f'<text x="{_WIDE - _RIGHT}" y="{level - 5:.1f}" text-anchor="end">threshold {answer.threshold:.2f}</text>'
        )
    parts.append(f'<line x1="{here:.1f}" x2="{here:.1f}" y1="{_TOP - 6}" y2="{_TALL - _BOTTOM}" class="es-here"/>')
    return (
        f'<svg class="es-plot" viewBox="0 0 {_WIDE} {_TALL}" role="img" aria-label="Confidence over time">'
        f"{''.join(parts)}</svg>{_legend(points)}"
    )


def picture(answer: Answer, at: int) -> str:
    """The frame of a moment with its map and boxes."""
    at = min(max(0, at), len(answer.points) - 1)
    point = answer.points[at]
    says = f"{point.verdict}, confidence {point.confidence:.2f}" if point.verdict != SILENT else SILENT
    return (
        f'<figure class="es-frame"><img src="gradio_api/file={answer.frame(at)}" alt="{says}">'
        f'<figcaption><b style="color:{INK[point.verdict]}">{says}</b> at {point.time:.1f} s</figcaption></figure>'
    )


def _legend(points: tuple[Point, ...]) -> str:
    there = [one for one in INK if any(point.verdict == one for point in points)]
    return (
        '<div class="es-legend">'
        + "".join(f'<span><i style="background:{INK[one]}"></i>{one}</span>' for one in there)
        + "</div>"
    )


def _times(first: float, last: float, x: Callable[[float], float]) -> str:
    step = next((one for one in (0.5, 1, 2, 5, 10, 20, 60, 120, 300, 600) if (last - first) / one <= 7), 1200)
    count = int((last - first) / step + 1e-6)
    base = _TALL - _BOTTOM
    return "".join(
        f'<text x="{x(first + k * step):.1f}" y="{base + 18}" text-anchor="middle">{first + k * step:g} s</text>'
        for k in range(count + 1)
    )


def _levels(low: float, high: float, y: Callable[[float], float]) -> str:
    levels = [low + (high - low) * part for part in (0.15, 0.5, 0.85)]
    return "".join(
        f'<line x1="{_LEFT}" x2="{_WIDE - _RIGHT}" y1="{y(v):.1f}" y2="{y(v):.1f}" class="es-grid"/>'
        f'<text x="{_LEFT - 6}" y="{y(v) + 4:.1f}" text-anchor="end">{v:.2f}</text>'
        for v in levels
    )
