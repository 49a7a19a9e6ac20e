"""The headline of the web page: one box for each number that counts, with a scale of what it stands beside."""

from __future__ import annotations

import math

from earsight.evaluation import Evaluation
from earsight.metrics.base import TITLES
from earsight.report.card import Card, Headline, Reference
from earsight.report.html import Html, html_table, tag
from earsight.report.tables import percent, points, span


def boxes(card: Card, e: Evaluation) -> Html:
    """All boxes of one model."""
    return tag("div", *(_box(headline) for headline in card.headlines(e)), drop_box(card, e), klass="cards")


def _box(headline: Headline) -> Html:
    known = not math.isnan(headline.value)
    interval = tag("small", f"95%: {span(headline.interval)}") if known else ""
    shown = [tag("h4", headline.title), tag("p", percent(headline.value), interval, klass="big")]
    if known:
        shown += [_scale(headline), _keys(headline.references)]
    return tag("div", *shown, tag("p", headline.sentence), klass="card")


def drop_box(card: Card, e: Evaluation) -> Html:
    """What the model loses without its sound."""
    title = tag("h4", "Audio drop")
    drops = card.drops.get(e.model)
    if not drops:
        told = tag("p", "Not measured: the model was not run with another clip's sound or with silence.")
        return tag("div", title, tag("p", "-", klass="big"), told, klass="card")
    rows = drop_rows(card, e)
    said = tag(
        "p",
        "Points lost when the model hears another clip's sound (shuffled) or none (silent), with the 95% interval. "
        "Near 0 it looks, but does not listen.",
    )
    return tag("div", title, html_table(rows), said, klass="card")


def drop_rows(card: Card, e: Evaluation) -> list[dict[str, str]]:
    """The audio drops of one model as rows."""
    rows = []
    for audio, drop in card.drops.get(e.model, {}).items():
        for name, one in drop.items():
            value, interval = points(one.value), span(one.interval, signed=True)
            rows.append({"sound": audio, "number": TITLES[name], "drop": value, "95% interval": interval})
    return rows


def _scale(headline: Headline) -> Html:
    """0 to 100 as a bar: the value as a dot on its interval, references as marks, what cannot be reached shaded."""
    parts = [tag("rect", x="0", y="9", width="100%", height="8", rx="4", klass="track")]
    for reference in headline.references:
        at = _at(reference.value)
        if reference.bound == "low":
            parts.append(tag("rect", x="0", y="9", width=at, height="8", rx="4", klass="out"))
        elif reference.bound == "high":
            width = _at(1 - reference.value)
            parts.append(tag("rect", x=at, y="9", width=width, height="8", rx="4", klass="out"))
    low, high = (headline.value if math.isnan(end) else end for end in headline.interval)
    parts.append(tag("rect", x=_at(low), y="5", width=_at(high - low), height="16", rx="3", klass="span"))
    for reference in headline.references:
        at = _at(reference.value)
        parts.append(tag("line", x1=at, x2=at, y1="3", y2="23", klass="mark"))
    parts.append(tag("circle", cx=_at(headline.value), cy="13", r="4.5", klass="value"))
    words = ", ".join(f"{one.label} {percent(one.value)}" for one in headline.references)
    label = f"{headline.title} {percent(headline.value)} on a scale from 0 to 100; {words}"
    return tag("svg", *parts, klass="scale", role="img", aria_label=label)


def _keys(references: tuple[Reference, ...]) -> Html:
    return tag("ul", *(tag("li", f"{one.label} ", tag("b", percent(one.value))) for one in references), klass="keys")


def _at(fraction: float) -> str:
    return f"{100 * min(max(fraction, 0.0), 1.0):.2f}%"
