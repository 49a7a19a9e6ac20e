"""Training curves: what each run scores after every epoch, and what stopping at its best epoch would have reported."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from earsight.errors import DataError
from earsight.metrics.base import higher_is_better
from earsight.plots import PALETTE
from earsight.plots.figure import Target, new_figure, save
from earsight.tabular import title
from earsight.train.log import LOG, read_log

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MARKERS = "osD^vPX"
"""Runs beyond the number of colours take the next marker."""


@dataclass(frozen=True)
class Series:
    """One number of one run on its validation list.

    Args:
        run: what to call the run.
        metric: the number's name.
        epochs: after which epochs it was measured, counted from 1 over all stages.
        values: fractions, one for each of them: without early stopping the last one counts.
    """

    run: str
    metric: str
    epochs: tuple[int, ...]
    values: tuple[float, ...]

    @property
    def best_so_far(self) -> tuple[float, ...]:
        """What early stopping as it is published would report by then: the best epoch by this number on this list."""
        better = np.maximum if higher_is_better(self.metric) else np.minimum
        return tuple(better.accumulate(np.array(self.values)).tolist())

    @property
    def best(self) -> int:
        """Position of the best value, the first of equals."""
        return self.values.index(self.best_so_far[-1])

    @property
    def lost(self) -> float:
        """Last minus best."""
        return self.values[-1] - self.values[self.best]


def read_series(folders: Sequence[Path], metrics: Sequence[str]) -> list[Series]:
    """Each metric of each run, run by run."""
    names = run_names(folders)
    return [one for folder, name in zip(folders, names, strict=True) for one in _of_run(folder, name, metrics)]


def run_names(folders: Sequence[Path]) -> list[str]:
    """The folders' names, or whole paths where two have the same.

    >>> run_names([Path("a/slavc"), Path("a/ezvsl")]), run_names([Path("a/run"), Path("b/run")])
    (['slavc', 'ezvsl'], ['a/run', 'b/run'])
    """
    short = [folder.resolve().name for folder in folders]
    return [str(f) if short.count(name) > 1 else name for f, name in zip(folders, short, strict=True)]


def _of_run(folder: Path, name: str, metrics: Sequence[str]) -> list[Series]:
    if not (folder / LOG).is_file():
        raise DataError(f"Expected a run's folder, but {folder} has no {LOG}. Name the --out of earsight train.")
    try:
        rows = [(int(row["epoch"]), dict(row["val"])) for row in read_log(folder / LOG) if "val" in row]
    except (ValueError, KeyError, TypeError) as error:
        told = " ".join(str(error).split())
        raise DataError(
            f"Expected a run's log, but {folder / LOG} cannot be read ({told}). Train the run again."
        ) from error
    if not rows:
        raise DataError(
            f"Expected a run that was measured while it trained, but {folder} has no validation in its log. "
            "Train it with --val SET, and with --optim.val-every 1 for a point after every epoch."
        )
    found: dict[str, dict[int, float]] = {metric: {} for metric in metrics}
    before, done = 0, 0
    for epoch, numbers in rows:
        if before + epoch + 1 <= done:  # a new stage counts its epochs from 0 again
            before = done
        done = before + epoch + 1
        for metric in metrics:
            if metric in numbers:
                found[metric][done] = float(numbers[metric])
    for metric, points in found.items():
        if not points:
            known = ", ".join(sorted({key for _, numbers in rows for key in numbers}))
            raise DataError(
                f"Expected '{metric}' in the validation of {folder}, but got {known}. Choose --metrics among these."
            )
    return [Series(name, metric, tuple(points), tuple(points.values())) for metric, points in found.items()]


def draw(path: Target, series: Sequence[Series]) -> None:
    """One panel for each metric: per run a solid line, a dashed one of the best so far, dots at best and last epoch."""
    metrics = list(dict.fromkeys(one.metric for one in series))
    runs = list(dict.fromkeys(one.run for one in series))
    columns = min(len(metrics), 3)
    rows = -(-len(metrics) // columns)
    legend_lines = -(-len(runs) // _legend_columns(runs, columns)) + 1
    size = (5.6 * columns, 3.8 * rows + 0.24 * legend_lines)
    figure, grid = new_figure(rows, columns, size)
    panels = np.ravel(np.array(grid, dtype=object))
    for panel in panels[len(metrics) :]:
        panel.set_visible(False)
    for one in series:
        axes, number = panels[metrics.index(one.metric)], runs.index(one.run)
        color, marker = PALETTE[number % len(PALETTE)], MARKERS[number // len(PALETTE) % len(MARKERS)]
        epochs, values = np.array(one.epochs), 100 * np.array(one.values)
        axes.plot(epochs, 100 * np.array(one.best_so_far), color=color, ls=(0, (4, 2)), lw=1.5, alpha=0.9)
        axes.plot(epochs, values, color=color, lw=1.9)
        axes.plot(epochs[one.best], values[one.best], marker, color=color, ms=8, mfc="white", mew=1.8, zorder=4)
        axes.plot(epochs[-1], values[-1], marker, color=color, ms=7, zorder=5)
    for axes, metric in zip(panels, metrics, strict=False):
        axes.set_title(f"{title(metric)} (%)", loc="left")
        axes.set_xlabel("Epoch")
        axes.xaxis.get_major_locator().set_params(integer=True)
        axes.margins(x=0.04, y=0.08)
    _legend(figure, runs, columns)
    save(figure, path)


def _legend_columns(runs: Sequence[str], panels: int) -> int:
    """As many beside each other as fit under the panels: about 60 letters to a panel."""
    return max(1, min(len(runs), 60 * panels // (max(map(len, runs)) + 8)))


def _legend(figure: Figure, runs: Sequence[str], panels: int) -> None:
    """Runs by colour, and under them what the kinds of lines and dots say."""
    from matplotlib.lines import Line2D

    by_run = [
        Line2D([], [], color=PALETTE[i % len(PALETTE)], marker=MARKERS[i // len(PALETTE) % len(MARKERS)], lw=1.9)
        for i in range(len(runs))
    ]
    grey = "#5A5A5A"
    kinds = [
        (Line2D([], [], color=grey, lw=1.9), "after each epoch"),
        (Line2D([], [], color=grey, lw=1.5, ls=(0, (4, 2))), "best so far (early stopping)"),
        (Line2D([], [], color=grey, marker="o", mfc="white", mew=1.8, ms=8, lw=0), "best"),
        (Line2D([], [], color=grey, marker="o", ms=7, lw=0), "last"),
    ]
    # A dollar sign would begin a formula.
    labels = [run.replace("$", r"\$") for run in runs]
    many = _legend_columns(runs, panels)
    figure.legend(by_run, labels, loc="outside upper left", ncols=many, frameon=False)
    marks, meanings = zip(*kinds, strict=True)
    across = 4 if panels > 1 else 2
    figure.legend(marks, meanings, loc="outside lower left", ncols=across, frameon=False, fontsize=9)
