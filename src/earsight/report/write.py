"""A report folder: a web page, the numbers as JSON, the records as csv, tables as Markdown, and plots."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from earsight import __version__
from earsight.errors import UsageError
from earsight.evaluation import Evaluation
from earsight.files import write_bytes, write_text
from earsight.report.card import Card
from earsight.report.figures import Plot, Tile, ap_by_iou, drawn, model_plots, overlay_grid, training_curve
from earsight.report.groups import Group, called, groups, names, slug
from earsight.report.page import Content, markdown_card, web_page


def write_report(
    folder: Path,
    evaluations: Sequence[Evaluation],
    *,
    tiles: Mapping[str, Sequence[Tile]] | None = None,
    log: Sequence[Mapping[str, Any]] = (),
    extra: Mapping[str, Any] | None = None,
    draws: int = 1000,
    force: bool = False,
    note: Callable[[str], object] = lambda text: None,
) -> list[Path]:
    """Write report.html, metrics.json, table.md, records-SET.csv and plots/*.png, and say which files those are.

    `tiles` are pictures by the title of their group, `log` holds training rows, `extra` plain JSON values; of these,
    "command" is shown as the way to make the report again, and the others go to metrics.json too. `draws` is how many
    times clips are drawn for the intervals. A plot that cannot be drawn is left out; the page and `note` say so. Files
    that exist are only replaced with `force`. The same evaluations give the same bytes.
    """
    if not evaluations:
        raise UsageError("Expected at least one evaluation to report, but got none. Evaluate a set first.")
    extra = dict(extra or {})
    command = str(extra.pop("command", ""))
    grouped = groups(evaluations)
    name_of = {id(e): name for e, name in zip(evaluations, names(evaluations), strict=True)}
    plots = [_group_plots(group, name_of) for group in grouped]
    grids, training = _grids(tiles or {}), _training(log)
    every = [plot for some in [*plots, grids, training] for plot in some]
    records = {id(e): f"records-{name_of[id(e)]}.csv" for e in evaluations}
    beside = ["metrics.json", "table.md", *records.values(), *(f"plots/{plot.file}" for plot in every)]
    there = [folder / name for name in [*beside, "report.html"] if (folder / name).exists()]
    if there and not force:
        raise UsageError(
            f"Expected a report folder without a report, but got {there[0]} and {len(there) - 1} more files there. "
            "Name another folder, or use --force to replace them."
        )

    cards = [Card.of(group, draws) for group in grouped]
    png, undrawn = drawn(every)
    for text in undrawn:
        note(text)
    beside = [name for name in beside if not name.startswith("plots/") or name.removeprefix("plots/") in png]
    content = Content(
        cards,
        [[plot for plot in some if plot.file in png] for some in plots],
        tiles or {},
        [plot for plot in training if plot.file in png],
        png,
        beside,
        command,
        extra,
        undrawn,
    )
    card_of = {id(e): card for card in cards for e in card.group.evaluations}
    values = {
        "evaluations": [card_of[id(e)].to_json(e, records[id(e)]) for e in evaluations],
        "groups": [card.group_json() for card in cards],
        "earsight": __version__,
        **({"extra": extra} if extra else {}),
    }
    write: dict[str, Callable[[Path], object]] = {
        "report.html": partial(write_text, text=web_page(content)),
        "metrics.json": partial(write_text, text=json.dumps(values, indent=2, sort_keys=True) + "\n"),
        "table.md": partial(write_text, text=markdown_card(cards, command)),
    }
    write |= {records[id(e)]: e.records.write for e in evaluations}
    write |= {f"plots/{name}": partial(write_bytes, content=content) for name, content in png.items()}
    (folder / "plots").mkdir(parents=True, exist_ok=True)
    for name, how in write.items():
        how(folder / name)
    return [folder / name for name in write]


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


def _training(log: Sequence[Mapping[str, Any]]) -> list[Plot]:
    caption = "Loss, and what was measured on the validation list, while the model was trained."
    return [Plot("training.png", caption, partial(training_curve, log))] if log else []
