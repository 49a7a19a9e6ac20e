"""A report folder: a web page, the numbers as JSON, the records as csv, tables as Markdown, and plots.

The page needs nothing else: no scripts, no fonts, no other files. It and the Markdown are templates; every value they
show is escaped for its place, by the environment and not by the template.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from earsight import __version__
from earsight.errors import UsageError
from earsight.escape import markdown, visible
from earsight.files import write_bytes, write_text
from earsight.metrics.base import headings
from earsight.report.card import Card
from earsight.report.curves import figure_of_run
from earsight.report.figures import (
    Plot,
    Tile,
    ap_by_iou,
    drawn,
    model_plots,
    overlay_grid,
    overlay_jpeg,
)
from earsight.report.groups import (
    Group,
    called,
    choices,
    details,
    group_lines,
    groups,
    listed,
    names,
    shareable,
    slug,
)
from earsight.report.tables import numeric, percent, render, span
from earsight.types import POSITIVE

if TYPE_CHECKING:
    from earsight.evaluation import Evaluation

INLINE = 1_600_000
"""Bytes of plots inside the page; further ones are linked, so that it still opens fast on a phone."""


@dataclass(frozen=True)
class Attachments:
    """What a report shows beside evaluations.

    Args:
        tiles: pictures by the title of their group.
        run: folder of the training run, of which the log is drawn.
        command: the command line that makes the report again; empty when unknown.
        values: further plain values, which go to metrics.json too.
    """

    tiles: Mapping[str, Sequence[Tile]] = field(default_factory=dict)
    run: Path | None = None
    command: str = ""
    values: Mapping[str, Any] = field(default_factory=dict)


def write_report(
    folder: Path,
    evaluations: Sequence[Evaluation],
    attached: Attachments | None = None,
    *,
    draws: int = 1000,
    force: bool = False,
    note: Callable[[str], object] = lambda text: None,
) -> list[Path]:
    """Write report.html, metrics.json, table.md, records-SET.csv and plots/*.png, and say which files those are.

    `draws` is how many times clips are drawn for the intervals. A plot that cannot be drawn is left out; the page and
    `note` say so. Files that exist are only replaced with `force`. The same evaluations give the same bytes.
    """
    if not evaluations:
        raise UsageError("Expected at least one evaluation to report, but got none. Evaluate a set first.")
    attached = attached or Attachments()
    grouped = groups(evaluations)
    name_of = {id(e): name for e, name in zip(evaluations, names(evaluations), strict=True)}
    plots = [_group_plots(group, name_of) for group in grouped]
    caption = "Loss, and what was measured on the validation list, while the model was trained."
    training = [] if attached.run is None else [Plot("training.png", caption, partial(figure_of_run, attached.run))]
    every = [plot for some in [*plots, _grids(attached.tiles), training] for plot in some]
    records = {id(e): f"records-{name_of[id(e)]}.csv" for e in evaluations}
    files = ["metrics.json", "table.md", *records.values(), *(f"plots/{plot.file}" for plot in every)]
    there = [folder / name for name in [*files, "report.html"] if (folder / name).exists()]
    if there and not force:
        raise UsageError(
            f"Expected a report folder without a report, but got {there[0]} and {len(there) - 1} more files there. "
            "Name another folder, or use --force to replace them."
        )

    cards = [Card.of(group, draws) for group in grouped]
    png, undrawn = drawn(every)
    for text in undrawn:
        note(text)
    plots = [[plot for plot in some if plot.file in png] for some in plots]
    training = [plot for plot in training if plot.file in png]
    files = [name for name in files if not name.startswith("plots/") or name.removeprefix("plots/") in png]
    page = Page(cards, plots, training, png, files, undrawn, attached)
    card_of = {id(e): card for card in cards for e in card.group.evaluations}
    values = {
        "evaluations": [card_of[id(e)].to_json(e, records[id(e)]) for e in evaluations],
        "groups": [card.group_json() for card in cards],
        "earsight": __version__,
        **({"extra": attached.values} if attached.values else {}),
    }
    card = _environment("markdown").get_template("card.md.j2").render(cards=cards, command=attached.command)
    write: dict[str, Callable[[Path], object]] = {
        "report.html": partial(write_text, text=_environment("html").get_template("page.html.j2").render(page=page)),
        "metrics.json": partial(write_text, text=json.dumps(values, indent=2, sort_keys=True) + "\n"),
        "table.md": partial(write_text, text=card),
    }
    write |= {records[id(e)]: e.records.write for e in evaluations}
    write |= {f"plots/{name}": partial(write_bytes, content=content) for name, content in png.items()}
    (folder / "plots").mkdir(parents=True, exist_ok=True)
    for name, how in write.items():
        how(folder / name)
    return [folder / name for name in write]


@dataclass(frozen=True)
class Page:
    """Everything the web page shows.

    Args:
        cards: one for each list and protocol.
        plots: the plots of each card, in the same order.
        training: plots of the training run.
        png: the drawn plots by file name.
        files: names of the files in the report's folder.
        undrawn: a sentence for each plot that could not be drawn.
        attached: pictures, the command, further values.
    """

    cards: Sequence[Card]
    plots: Sequence[Sequence[Plot]]
    training: Sequence[Plot]
    png: Mapping[str, bytes]
    files: Sequence[str]
    undrawn: Sequence[str]
    attached: Attachments

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
                where = f"{card.group.set_name}, {card.group.protocol.name}"
                rows.append({"set, protocol": where, "model": called(e), **values})
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
        """The further values as rows."""
        return [{"what": name, "value": value} for name, value in _flat(self.attached.values)]


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


def _group_plots(group: Group, names: Mapping[int, str]) -> list[Plot]:
    """The plots of a group that can be drawn; `names` are the file names of its evaluations, by their id()."""
    found = [
        plot for e in group.models for plot in model_plots(e.records, e.protocol, names[id(e)], e.model, e.threshold)
    ]
    measured = [e for e in group.models if e.records.positives.any()]
    if measured:
        shown = group.evaluations if len(measured) == 1 else measured
        records = {called(e): e.records for e in shown if e.audio != "none" and e.records.positives.any()}
        caption = "How AP falls when a hit must overlap the source better."
        all_models = Plot(f"iou-{group.name}.png", caption, partial(ap_by_iou, records, group.protocol))
        found.insert(2, all_models)  # behind the curves that explain the headline
    return found


def _grids(tiles: Mapping[str, Sequence[Tile]]) -> list[Plot]:
    """A grid for each group of pictures."""
    filled = {title: group for title, group in tiles.items() if group}
    return [
        Plot(f"overlays{f'-{slug(title.lower())}' if i else ''}.png", title, partial(overlay_grid, group))
        for i, (title, group) in enumerate(filled.items())
    ]
