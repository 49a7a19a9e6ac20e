"""What the page says and draws: verdicts, the confidence over time as a picture, and messages."""

from __future__ import annotations

from html import escape

from earsight.app.answer import Answer, Point
from earsight.app.svg_chart import chart
from earsight.localize.timeline import INK, NOT_CALIBRATED, NOT_VISIBLE, SILENT, VISIBLE

SAYING = {
    VISIBLE: "The source is in the picture",
    NOT_VISIBLE: "No visible source",
    SILENT: "Silent",
    NOT_CALIBRATED: "Not calibrated",
}


def message(text: str) -> str:
    """Something went wrong: what was expected, what came, and what to do."""
    return f'<div class="es-notice" role="alert">{escape(text)}</div>' if text else ""


def headline(answer: Answer, heard: str = "") -> str:
    """The verdict of a clip, with what share of it each verdict has."""
    verdict = answer.verdict
    shares = [(one, answer.share(one)) for one in (VISIBLE, NOT_VISIBLE, SILENT, NOT_CALIBRATED)]
    told = ", ".join(f"{one} {share:.0%}" for one, share in shares if share > 0)
    sound = f'<span class="es-heard">with {escape(heard)}</span>' if heard else ""
    bar = "".join(
        f'<i style="width:{100 * share:.2f}%;background:{INK[one]}"></i>' for one, share in shares if share > 0
    )
    of = f"its first {answer.cut:g} s, which is as long as a clip may be" if answer.cut else "the clip"
    notes = "".join(f"<small>Note: {escape(one)}.</small>" for one in answer.notes)
    return (
        f'<div class="es-verdict" data-verdict="{verdict}" style="--ink:{INK[verdict]}">'
        f"<b>{SAYING[verdict]}{_when(answer)}</b>{sound}"
        f'<div class="es-bar" title="{told}">{bar}</div><small>of {of}: {told}</small>{notes}</div>'
    )


def _when(answer: Answer) -> str:
    """How much of the clip the verdict is true of: silence, of which nothing is said, is left out."""
    sounding = sum(point.verdict != SILENT for point in answer.points)
    said = sum(point.verdict == answer.verdict for point in answer.points)
    if sounding in (0, len(answer.points)):
        return " most of the time" if said < sounding else ""
    return " most of the time that something is heard" if said < sounding else " while something is heard"


def plot(answer: Answer, at: int = 0) -> str:
    """Confidence over time with the threshold and the verdicts; the moment `at` is marked."""
    return chart(answer.points, answer.threshold, at) + _legend(answer.points)


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
