"""The plots of a report: which there are, what each shows, and where each goes."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from earsight import plots
from earsight.errors import EarsightError
from earsight.escape import brief
from earsight.evaluation import Evaluation
from earsight.plots import Target, Tile
from earsight.report.groups import Group, called, slug


@dataclass(frozen=True)
class Plot:
    """A plot that can be drawn.

    Args:
        file: its name in the folder "plots".
        caption: how to read it, in a sentence.
        draw: writes it as PNG.
        model: which model it shows; empty when all of them.
    """

    file: str
    caption: str
    draw: Callable[[Target], None]
    model: str = ""

    def png(self) -> bytes:
        file = io.BytesIO()
        self.draw(file)
        return file.getvalue()


def pngs(plots: Sequence[Plot]) -> tuple[dict[str, bytes], list[str]]:
    """The drawn plots by file name, and a sentence for each that could not be drawn: the numbers do not go with it."""
    drawn: dict[str, bytes] = {}
    undrawn = []
    for plot in plots:
        try:
            drawn[plot.file] = plot.png()
        except Exception as error:  # what matplotlib raises may be anything
            why = f"{'' if isinstance(error, EarsightError) else f'{type(error).__name__}: '}{error}"
            undrawn.append(f"The plot {plot.file} could not be drawn and is left out ({brief(why, 200)}).")
    return drawn, undrawn


def of_group(group: Group, names: Mapping[int, str]) -> list[Plot]:
    """The plots of a group that can be drawn; `names` are the file names of its evaluations, by their id()."""
    found = [plot for e in group.models for plot in _of_model(e, names[id(e)])]
    measured = [e for e in group.models if e.records.positives.any()]
    if measured:
        shown = group.evaluations if len(measured) == 1 else measured
        records = {called(e): e.records for e in shown if e.audio != "none" and e.records.positives.any()}
        draw = partial(plots.ap_against_iou, records=records, protocol=group.protocol)
        all_models = Plot(f"iou-{group.name}.png", "How AP falls when a hit must overlap the source better.", draw)
        found.insert(2, all_models)  # behind the curves that explain the headline
    return found


def _of_model(e: Evaluation, name: str) -> list[Plot]:
    records, protocol = e.records, e.protocol
    drawings: dict[str, tuple[str, Callable[[Target], None]]] = {}
    if records.positives.any():
        drawings["pr"] = (
            "Claims from the most to the least confident. A useless confidence stays on the dashed line.",
            partial(plots.pr_curve, records=records, protocol=protocol),
        )
        drawings["f1"] = (
            "F1 at every confidence threshold. Only what lies above the dashed floor is earned by the confidence.",
            partial(plots.f1_curve, records=records, protocol=protocol),
        )
        if records.by_size.shape[1]:
            drawings["size"] = (
                "LocAcc if every prediction had the same size. No single size suits small and huge sources.",
                partial(plots.loc_acc_against_size, records=records, protocol=protocol),
            )
    drawings["confidence"] = (
        "Positives should lie to the right of the negatives; where they overlap, the confidence cannot tell.",
        partial(plots.confidence_histogram, records=records, threshold=e.threshold),
    )
    return [Plot(f"{kind}-{name}.png", caption, draw, e.model) for kind, (caption, draw) in drawings.items()]


def of_tiles(tiles: Mapping[str, Sequence[Tile]]) -> list[Plot]:
    """A grid for each group of pictures."""
    filled = {title: group for title, group in tiles.items() if group}
    return [
        Plot(
            "overlays.png" if i == 0 else f"overlays-{slug(title.lower())}.png",
            title,
            partial(plots.overlay_grid, tiles=group),
        )
        for i, (title, group) in enumerate(filled.items())
    ]


def of_log(log: Sequence[Mapping[str, Any]]) -> list[Plot]:
    caption = "Loss, and what was measured on the validation list, while the model was trained."
    return [Plot("training.png", caption, partial(plots.training_curve, rows=log))] if log else []
