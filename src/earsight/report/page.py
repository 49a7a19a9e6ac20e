"""The report as one web page that needs nothing else (no scripts, no fonts, no other files), and as Markdown.

Both are templates. Every value they show is escaped for its place, by the environment and not by the template.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from earsight.escape import markdown, visible
from earsight.metrics.base import headings
from earsight.report.card import Card
from earsight.report.figures import Plot, Tile, overlay_jpeg
from earsight.report.groups import Group, called, choices, details, group_lines, listed, shareable
from earsight.report.tables import numeric, percent, render, span
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
        files: names of the files in the report's folder.
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

    @property
    def title(self) -> str:
        models = list(dict.fromkeys(e.model for card in self.cards for e in card.group.models)) or ["Priors"]
        sets = list(dict.fromkeys(card.group.set_name for card in self.cards))
        who = " and ".join(models) if len(models) <= 2 else f"{len(models)} models"
        return f"{who} on {' and '.join(sets) if len(sets) <= 2 else f'{len(sets)} sets'}"

    @property
    def contents(self) -> dict[str, list[Any]]:
        """The numbers of each model as rows, and the address of the section that each is in."""
        gammas, negatives = {c.group.protocol.gamma for c in self.cards}, any(c.group.negatives for c in self.cards)
        rows, links = [], []
        for i, card in enumerate(self.cards):
            for e in card.group.models or card.group.evaluations[:1]:
                numbers = headings(gammas, negatives=negatives).items()
                values = {title: percent(e.metrics.get(name, float("nan"))) for name, title in numbers}
                rows.append(
                    {
                        "set, protocol": f"{card.group.set_name}, {card.group.protocol.name}",
                        "model": called(e),
                        **values,
                    }
                )
                links.append(f"#part-{i}")
        return {"rows": rows, "links": links}

    @property
    def warnings(self) -> dict[str, list[int]]:
        """Every warning once, with the positions of the cards it is about; none where it is about all of them."""
        found: dict[str, list[int]] = {}
        for i, card in enumerate(self.cards):
            for text in card.all_warnings:
                found.setdefault(text, []).append(i)
        return {text: at if len(at) < len(self.cards) else [] for text, at in found.items()}

    @property
    def inline(self) -> set[str]:
        """Names of the plots that are inside the page: those of each section's first model before all others."""
        plots = list(self.training)
        for later in (False, True):
            for card, some in zip(self.cards, self.plots, strict=True):
                first = ["", *(e.model for e in card.group.models[:1])]
                plots += [plot for plot in some if (plot.model not in first) == later]
        found: set[str] = set()
        size = 0
        for plot in plots:
            size += len(self.png[plot.file])
            if size <= INLINE:
                found.add(plot.file)
        return found

    @property
    def noted(self) -> list[dict[str, str]]:
        return [{"what": name, "value": value} for name, value in _flat(self.extra)]


def web_page(content: Content) -> str:
    """The whole page."""
    return _environment("html").get_template("page.html.j2").render(content=content)


def markdown_card(cards: Sequence[Card], command: str = "") -> str:
    """One part for each list and protocol."""
    return _environment("markdown").get_template("card.md.j2").render(cards=cards, command=command)


def measured(group: Group) -> list[dict[str, str]]:
    """How a group was measured: the list, what is missing, the protocol."""
    first = group.evaluations[0]
    kind = first.records.kind
    ordered = sorted(set(kind.tolist()), key=lambda one: (one != POSITIVE, one))
    kinds = ", ".join(f"{int((kind == one).sum())} {one}" for one in ordered)
    rows = listed(first)
    facts = {
        "set": group.set_name,
        "list": f"{group.lists} (hash of the clips that were scored)",
        "clips used": f"{first.n} of {rows}: {kinds}",
        "clips missing": str(rows - first.n),
        "protocol": str(group.protocol),
        "maps thresholded": group.protocol.map,
        "intervals": "95%, bootstrap over clips, positives and negatives drawn separately",
    }
    return [{"what": what, "value": value} for what, value in facts.items()]


def _environment(format: str) -> Environment:
    """Templates in which every value is escaped for HTML, or for Markdown."""
    escaped = markdown if format == "markdown" else visible  # of which autoescape makes HTML
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent),
        autoescape=format == "html",
        finalize=lambda value: value if isinstance(value, Markup) else escaped(str(value)),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters |= {
        "along": lambda fraction: f"{100 * min(max(fraction, 0.0), 1.0):.2f}%",
        "called": called,
        "code": lambda text: Markup(f"    {visible(text)}"),  # nothing in an indented line is markup
        "data": lambda content, kind: f"data:image/{kind};base64,{base64.b64encode(content).decode('ascii')}",
        "jpeg": overlay_jpeg,
        "listed": listed,
        "percent": percent,
        "shareable": shareable,
        "span": span,
    }
    environment.globals |= {
        "choices": choices,
        "details": details,
        "group_lines": group_lines,
        "markdown_table": lambda rows: Markup(render(rows, "markdown")),
        "measured": measured,
        "numeric": numeric,
    }
    return environment


def _flat(values: Mapping[str, Any], start: str = "") -> list[tuple[str, str]]:
    found = []
    for name, value in values.items():
        if isinstance(value, Mapping):
            found += _flat(value, f"{start}{name}, ")
        else:
            found.append((f"{start}{name}", f"{value:.6g}" if isinstance(value, float) else str(value)))
    return found
