"""The report card as Markdown."""

from __future__ import annotations

from collections.abc import Sequence

from earsight.escape import markdown, visible
from earsight.evaluation import Evaluation
from earsight.report.card import Card
from earsight.report.groups import called, choices, details, group_lines, listed, shareable
from earsight.report.headline import drop_rows
from earsight.report.tables import percent, span, table


def markdown_card(cards: Sequence[Card], command: str = "") -> str:
    """One part for each list and protocol."""
    parts = ["# Evaluation"]
    for card in cards:
        parts += _part(card)
    if command:
        parts += ["## How to reproduce", f"    {visible(command)}"]
    return "\n\n".join(parts) + "\n"


def _part(card: Card) -> list[str]:
    group = card.group
    first = group.evaluations[0]
    how = f"Protocol {group.protocol}, {group.protocol.map} maps thresholded, list {group.lists}"
    parts = [
        f"## {markdown(group.set_name)}, protocol {group.protocol.name}",
        f"{how}, {first.n} of {listed(first)} clips. Values in percent.",
    ]
    if card.told:
        parts.append("\n".join(f"- **Note:** {markdown(text)}" for text in card.told))
    parts.append(table(group_lines(group), "markdown"))
    for e in group.models:
        parts += [f"### {markdown(called(e))}", table(_headline_rows(card, e), "markdown")]
        drops = drop_rows(card, e)
        if drops:
            parts += ["Audio drop, in points (real minus control):", table(drops, "markdown")]
    for title, rows in details(group).items():
        parts += [f"### {title}", table(rows, "markdown")]
    chosen = [{key: row[key] for key in ("choice", "value")} for row in choices(group.protocol)]
    parts += ["### How it was measured", table(chosen, "markdown")]
    if group.failures:
        named = "\n".join(f"- {markdown(id)}: {markdown(shareable(reason))}" for id, reason in group.failures.items())
        parts.append(f"{len(group.failures)} clips could not be read and are not counted:\n\n{named}")
    return parts


def _headline_rows(card: Card, e: Evaluation) -> list[dict[str, str]]:
    rows = []
    for one in card.headlines(e):
        beside = ", ".join(f"{other.label} {percent(other.value)}" for other in one.references)
        rows.append(
            {
                "number": one.title,
                "value": percent(one.value),
                "95% interval": span(one.interval),
                "beside": beside or "-",
            }
        )
    return rows
