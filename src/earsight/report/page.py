"""The report card as one web page that needs nothing else: no scripts, no fonts, no other files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from earsight.escape import visible
from earsight.metrics.base import headings
from earsight.report import headline
from earsight.report.card import Card
from earsight.report.figures import Plot, Tile, overlay_jpeg
from earsight.report.groups import called, choices, details, group_lines, listed, shareable
from earsight.report.html import Html, html_table, image, join, tag
from earsight.report.style import CSS
from earsight.report.tables import percent
from earsight.types import POSITIVE

INLINE = 1_600_000
"""Bytes of plots inside the page; further ones are linked, so that it still opens fast on a phone."""


@dataclass(frozen=True)
class Content:
    """Everything a page shows.

    Args:
        cards: one for each list and protocol.
        plots: the plots of each card, in the same order.
        tiles: pictures by the title of their group.
        training: plots of the training run.
        png: the drawn plots by file name.
        files: names of the files beside the page.
        command: the command line that made the report; empty when unknown.
        extra: further plain values to show.
        undrawn: a sentence for each plot that could not be drawn.
    """

    cards: Sequence[Card]
    plots: Sequence[Sequence[Plot]]
    tiles: Mapping[str, Sequence[Tile]]
    training: Sequence[Plot]
    png: Mapping[str, bytes]
    files: Sequence[str]
    command: str = ""
    extra: Mapping[str, Any] = field(default_factory=dict)
    undrawn: Sequence[str] = ()


def web_page(content: Content) -> str:
    """The whole page."""
    title = _title(content.cards)
    inline = _inline(content)
    parts: list[Html] = [
        tag("p", "earsight report card", klass="over"),
        tag("h1", title),
        *_contents(content.cards),
        *_warnings(content.cards),
    ]
    for i, (card, plots) in enumerate(zip(content.cards, content.plots, strict=True)):
        parts.append(_section(i, card, plots, content.png, inline, len(content.cards) > 1))
    parts += _pictures(content.tiles)
    if content.training:
        parts += [tag("h2", "Training"), _figures(content.training, content.png, inline)]
    if content.undrawn:
        parts += [tag("h2", "Left out"), tag("ul", *(tag("li", text) for text in content.undrawn))]
    parts += _reproduce(content)
    head = join(
        [
            tag("meta", charset="utf-8"),
            tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
            tag("title", f"{title}: earsight report card"),
            Html(f"<style>{CSS}</style>"),
        ]
    )
    body = Html("\n".join(parts))
    return f'<!doctype html>\n<html lang="en">\n<head>{head}</head>\n<body>\n{body}\n</body>\n</html>\n'


def _inline(content: Content) -> set[str]:
    """Names of the plots that are inside the page: those of each section's first model before all others."""
    plots = list(content.training)
    for later in (False, True):
        for card, some in zip(content.cards, content.plots, strict=True):
            first = ["", *(e.model for e in card.group.models[:1])]
            plots += [plot for plot in some if (plot.model not in first) == later]
    found: set[str] = set()
    size = 0
    for plot in plots:
        size += len(content.png[plot.file])
        if size <= INLINE:
            found.add(plot.file)
    return found


def _title(cards: Sequence[Card]) -> str:
    models = list(dict.fromkeys(e.model for card in cards for e in card.group.models)) or ["Priors"]
    sets = list(dict.fromkeys(card.group.set_name for card in cards))
    who = " and ".join(models) if len(models) <= 2 else f"{len(models)} models"
    return f"{visible(who)} on {' and '.join(sets) if len(sets) <= 2 else f'{len(sets)} sets'}"


def _contents(cards: Sequence[Card]) -> list[Html]:
    """Links to the sections with the numbers of each model, where there is more than one section."""
    if len(cards) == 1:
        return []
    columns = headings(
        {card.group.protocol.gamma for card in cards}, negatives=any(card.group.negatives for card in cards)
    )
    rows = []
    for i, card in enumerate(cards):
        for e in card.group.models or card.group.evaluations[:1]:
            numbers = {title: percent(e.metrics.get(name, float("nan"))) for name, title in columns.items()}
            rows.append({"set, protocol": _link(i, card), "model": called(e), **numbers})
    return [tag("nav", html_table(rows), aria_label="Contents")]


def _warnings(cards: Sequence[Card]) -> list[Html]:
    """Every warning once, with the sections it is about unless it is about all of them."""
    where: dict[str, list[int]] = {}
    for i, card in enumerate(cards):
        for text in card.told:
            where.setdefault(text, []).append(i)
    if not where:
        return []
    items = []
    for text, at in where.items():
        links = [_link(i, cards[i]) for i in at] if len(at) < len(cards) else []
        between = [part for link in links for part in (Html(", "), link)][1:]
        items.append(tag("li", text, *([" (", *between, ")"] if links else [])))
    heading = "Before you trust these numbers"
    return [tag("section", tag("h2", heading), tag("ul", *items), klass="warnings", id="warnings")]


def _link(i: int, card: Card) -> Html:
    return tag("a", f"{card.group.set_name}, {card.group.protocol.name}", href=f"#part-{i}")


def _section(
    i: int, card: Card, plots: Sequence[Plot], png: Mapping[str, bytes], inline: set[str], several: bool
) -> Html:
    group = card.group
    first = group.evaluations[0]
    used = f"{first.n} of {listed(first)} clips"
    facts = (
        f"Protocol {group.protocol}, {group.protocol.map} maps thresholded, {used}, list {group.lists}. "
        "Values in percent."
    )
    parts: list[Html] = [tag("h2", f"{group.set_name}, protocol {group.protocol.name}")] if several else []
    parts.append(tag("p", facts, klass="facts"))
    real = [at for at, e in enumerate(group.evaluations) if e.audio == "real"]
    everything = html_table(group_lines(group), "rows", real)
    first_model = group.models[0].model if group.models else ""
    own = [plot for plot in plots if plot.model in ("", first_model)]
    if len(group.models) > 1:  # comparing them comes first
        parts += [everything, tag("h3", first_model), headline.boxes(card, group.models[0])]
    else:
        parts += [headline.boxes(card, e) for e in group.models]
        parts += [tag("h3", "Beside controls, prior and ceiling"), everything]
    parts += [tag("h3", "Plots"), _figures(own, png, inline, _details(card))] if own else []
    for e in group.models[1:]:
        figures = _figures([plot for plot in plots if plot.model == e.model], png, inline)
        parts.append(tag("details", tag("summary", f"{e.model}: numbers and plots"), headline.boxes(card, e), figures))
    parts += _measured(card)
    return tag("section", *parts, id=f"part-{i}")


def _details(card: Card) -> Html:
    """Tables by size and by kind, as the last of the figures."""
    found = details(card.group)
    parts = [part for title, rows in found.items() for part in (tag("h3", title), html_table(rows))]
    return tag("div", *parts, klass="figure") if parts else Html()


def _figures(plots: Sequence[Plot], png: Mapping[str, bytes], inline: set[str], last: str = "") -> Html:
    shown = []
    for plot in plots:
        if plot.file in inline:
            picture = image(png[plot.file], "png", plot.caption, "plot")
        else:
            picture = tag("a", f"plots/{plot.file}", href=f"plots/{plot.file}")
        shown.append(tag("figure", picture, tag("figcaption", plot.caption), klass="figure"))
    return tag("div", *shown, last, klass="figures")


def _measured(card: Card) -> list[Html]:
    """How it was measured: the list, what is missing, every choice of the protocol."""
    group = card.group
    first = group.evaluations[0]
    kind = first.records.kind
    ordered = sorted(set(kind.tolist()), key=lambda one: (one != POSITIVE, one))
    kinds = ", ".join(f"{int((kind == one).sum())} {one}" for one in ordered)
    rows = listed(first)
    facts = [
        {"what": "set", "value": group.set_name},
        {"what": "list", "value": f"{group.lists} (hash of the clips that were scored)"},
        {"what": "clips used", "value": f"{first.n} of {rows}: {kinds}"},
        {"what": "clips missing", "value": str(rows - first.n)},
        {"what": "protocol", "value": str(group.protocol)},
        {"what": "maps thresholded", "value": group.protocol.map},
        {"what": "intervals", "value": "95%, bootstrap over clips, positives and negatives drawn separately"},
    ]
    parts = [tag("h3", "How it was measured"), html_table(facts, "narrow")]
    if group.failures:
        items = [tag("li", tag("code", id), f" {shareable(reason)}") for id, reason in group.failures.items()]
        summary = tag("summary", f"{len(items)} clips could not be read and are not counted")
        parts.append(tag("details", summary, tag("ul", *items, klass="missing")))
    summary = tag("summary", f"Every choice of the protocol {group.protocol.name}")
    parts.append(tag("details", summary, html_table(choices(group.protocol))))
    return parts


def _pictures(tiles: Mapping[str, Sequence[Tile]]) -> list[Html]:
    parts: list[Html] = []
    for title, some in tiles.items():
        shown = []
        for tile in some:
            name = [tag("code", tile.id)] if tile.id else []
            picture = image(overlay_jpeg(tile), "jpeg", " ".join(tile.caption.split()) or tile.id or title)
            said = [tag("span", line) for line in tile.caption.splitlines()]
            shown.append(tag("figure", picture, tag("figcaption", *said, *name), klass="tile"))
        if shown:
            parts += [tag("h3", title), tag("div", *shown, klass="tiles")]
    if parts:
        key = "Warm colours: where the model hears the source. White: the prediction. Cyan: the ground truth."
        parts = [tag("h2", "Pictures"), tag("p", key, klass="facts"), *parts]
    return parts


def _reproduce(content: Content) -> list[Html]:
    parts = [tag("h2", "How to reproduce"), tag("pre", content.command)] if content.command else []
    if content.extra:
        rows = [{"what": name, "value": value} for name, value in _flat(content.extra)]
        parts += [tag("h3", "Noted with it"), html_table(rows, "narrow")]
    links = [tag("li", tag("a", name, href=name)) for name in content.files]
    parts.append(tag("details", tag("summary", "Files beside this page"), tag("ul", *links)))
    return parts


def _flat(values: Mapping[str, Any], start: str = "") -> list[tuple[str, str]]:
    found = []
    for name, value in values.items():
        if isinstance(value, Mapping):
            found += _flat(value, f"{start}{name}, ")
        else:
            found.append((f"{start}{name}", f"{value:.6g}" if isinstance(value, float) else str(value)))
    return found
