"""Training curves: loss and learning rate of each run, what it scores after every epoch, and what stopping at its best
epoch would have reported."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from earsight.errors import DataError
from earsight.metrics.base import higher_is_better
from earsight.report.figures import PALETTE, label, legend, new_figure, over, save
from earsight.report.tables import percent, points, title
from earsight.training.log import LOG, read_log

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


@dataclass(frozen=True)
class Trace:
    """One number of one run while it trains.

    Args:
        run: what to call the run.
        name: "loss", or "lr" for the learning rate.
        steps: after which steps it was written down, counted over all stages.
        values: one for each of them.
    """

    run: str
    name: str
    steps: tuple[int, ...]
    values: tuple[float, ...]


TRACES = {"loss": "Loss", "lr": "Learning rate"}
"""What is drawn of every run, and as what."""


def read_traces(folders: Sequence[Path]) -> list[Trace]:
    """Loss and learning rate of each run that has any in its log, run by run."""
    found = []
    for folder, run in zip(folders, run_names(folders), strict=True):
        for name, trace in _read(folder)[0].items():
            steps, values = zip(*trace, strict=True)
            found.append(Trace(run, name, steps, values))
    return found


def read_series(folders: Sequence[Path], metrics: Sequence[str]) -> list[Series]:
    """Each metric of each run that was measured while it trained, run by run."""
    found = []
    for folder, run in zip(folders, run_names(folders), strict=True):
        measured = _read(folder)[1]
        for metric in metrics if measured else ():
            by_epoch = {epoch: float(numbers[metric]) for epoch, numbers in measured.items() if metric in numbers}
            if not by_epoch:
                known = ", ".join(sorted({key for numbers in measured.values() for key in numbers}))
                raise DataError(
                    f"Expected '{metric}' in the validation of {folder}, but got {known}. Choose --metrics among these."
                )
            found.append(Series(run, metric, tuple(by_epoch), tuple(by_epoch.values())))
    return found


def run_names(folders: Sequence[Path]) -> list[str]:
    """The folders' names, or whole paths where two have the same.

    >>> run_names([Path("a/slavc"), Path("a/ezvsl")]), run_names([Path("a/run"), Path("b/run")])
    (['slavc', 'ezvsl'], ['a/run', 'b/run'])
    """
    short = [folder.resolve().name for folder in folders]
    return [str(f) if short.count(name) > 1 else name for f, name in zip(folders, short, strict=True)]


def _read(folder: Path) -> tuple[dict[str, list[tuple[int, float]]], dict[int, dict[str, Any]]]:
    """Steps and values of each of TRACES in a run's log, and the numbers of its validations by epoch from 1."""
    path = folder / LOG
    if not path.is_file():
        raise DataError(f"Expected a run's folder, but {folder} has no {LOG}. Name the --out of earsight train.")
    try:
        rows = read_log(path)
        if not rows and path.stat().st_size:
            raise ValueError("no line of it is one of a log")
        traces = {name: [(int(row["step"]), float(row[name])) for row in rows if name in row] for name in TRACES}
        epochs = [(int(row["epoch"]), dict(row["val"])) for row in rows if "val" in row]
    except (ValueError, KeyError, TypeError) as error:
        why = " ".join(str(error).split())
        raise DataError(f"Expected a run's log, but {path} cannot be read ({why}). Train the run again.") from error
    if not traces["loss"] and not epochs:
        raise DataError(
            f"Expected a run that has taken its first steps, but the log of {folder} has no loss and no validation. "
            "Let it train, then draw it."
        )
    measured: dict[int, dict[str, Any]] = {}
    before, done = 0, 0
    for epoch, numbers in epochs:
        if before + epoch + 1 <= done:  # a new stage counts its epochs from 0 again
            before = done
        done = before + epoch + 1
        measured[done] = numbers
    return {name: trace for name, trace in traces.items() if trace}, measured


def draw(path: Path, series: Sequence[Series], traces: Sequence[Trace] = ()) -> None:
    """One panel for each metric: per run a solid line, a dashed one of the best so far, dots at best and last epoch.

    Then one for the loss, and one for the learning rate where it changes, against steps.
    """
    if not any(one.name == "lr" and len(set(one.values)) > 1 for one in traces):
        traces = [one for one in traces if one.name != "lr"]
    metrics = dict.fromkeys(one.metric for one in series)
    panels = {metric: (f"{title(metric)} (%)", "Epoch") for metric in metrics}
    panels |= {name: (TRACES[name], "Step") for name in TRACES if any(one.name == name for one in traces)}
    runs = list(dict.fromkeys([*(one.run for one in traces), *(one.run for one in series)]))
    columns = 2 if len(panels) == 4 else min(len(panels), 3)
    rows = -(-len(panels) // columns)
    legend_lines = -(-len(runs) // _legend_columns(runs, columns)) + 1
    figure, grid = new_figure(rows, columns, (5.6 * columns, 3.8 * rows + 0.24 * legend_lines))
    every = np.ravel(np.array(grid, dtype=object))
    for unused in every[len(panels) :]:
        unused.set_visible(False)
    axes_of = dict(zip(panels, every, strict=False))
    for trace in traces:
        (color, marker), axes = _style(runs.index(trace.run)), axes_of[trace.name]
        axes.plot(trace.steps, trace.values, color=color, lw=1.6)
        axes.plot(trace.steps[-1], trace.values[-1], marker, color=color, ms=7, zorder=5)
    for one in series:
        (color, marker), axes = _style(runs.index(one.run)), axes_of[one.metric]
        epochs, values = np.array(one.epochs), 100 * np.array(one.values)
        axes.plot(epochs, 100 * np.array(one.best_so_far), color=color, ls=(0, (4, 2)), lw=1.5, alpha=0.9)
        axes.plot(epochs, values, color=color, lw=1.9)
        axes.plot(epochs[one.best], values[one.best], marker, color=color, ms=8, mfc="white", mew=1.8, zorder=4)
        axes.plot(epochs[-1], values[-1], marker, color=color, ms=7, zorder=5)
    for name, (heading, counted) in panels.items():
        axes_of[name].set_title(heading, loc="left")
        axes_of[name].margins(x=0.04, y=0.08)
        over(axes_of[name], counted)
    _legend(figure, runs, columns, measured=bool(series))
    save(figure, path)


def _style(number: int) -> tuple[str, str]:
    """Colour and marker of a run."""
    return PALETTE[number % len(PALETTE)], MARKERS[number // len(PALETTE) % len(MARKERS)]


def _legend_columns(runs: Sequence[str], panels: int) -> int:
    """As many beside each other as fit under the panels: about 60 letters to a panel."""
    return max(1, min(len(runs), 60 * panels // (max(len(label(run)) for run in runs) + 8)))


def _legend(figure: Figure, runs: Sequence[str], panels: int, measured: bool) -> None:
    """Runs by colour, and where some were measured, under them what the kinds of lines and dots say."""
    from matplotlib.lines import Line2D

    by_run = [Line2D([], [], color=color, marker=marker, lw=1.9) for color, marker in map(_style, range(len(runs)))]
    grey = "#5A5A5A"
    kinds = [
        (Line2D([], [], color=grey, lw=1.9), "after each epoch"),
        (Line2D([], [], color=grey, lw=1.5, ls=(0, (4, 2))), "best so far (early stopping)"),
        (Line2D([], [], color=grey, marker="o", mfc="white", mew=1.8, ms=8, lw=0), "best"),
        (Line2D([], [], color=grey, marker="o", ms=7, lw=0), "last"),
    ]
    many = _legend_columns(runs, panels)
    legend(figure, by_run, list(map(label, runs)), loc="outside upper left", ncols=many)
    if not measured:
        return
    marks, meanings = zip(*kinds, strict=True)
    across = 4 if panels > 1 else 2
    legend(figure, marks, meanings, loc="outside lower left", ncols=across, fontsize=9)


def loss_line(one: Trace) -> dict[str, str]:
    """A row of the table where no run was measured."""
    first, last, lowest = one.values[0], one.values[-1], min(one.values)
    return {
        "run": one.run,
        "steps": str(one.steps[-1]),
        "first loss": f"{first:.4g}",
        "lowest": f"{lowest:.4g}",
        "last": f"{last:.4g}",
    }


def line(one: Series) -> dict[str, str]:
    """A row of the table: percent, and what a run loses when its last epoch counts."""
    return {
        "run": one.run,
        "metric": title(one.metric),
        "best": percent(one.values[one.best]),
        "at epoch": str(one.epochs[one.best]),
        "last": percent(one.values[-1]),
        "of epoch": str(one.epochs[-1]),
        "lost without early stopping": points(one.lost),
    }


def plain(one: Series) -> dict[str, object]:
    """A series as JSON values; numbers are fractions."""
    return {
        "run": one.run,
        "metric": one.metric,
        "epochs": list(one.epochs),
        "values": list(one.values),
        "best_so_far": list(one.best_so_far),
        "best": {"epoch": one.epochs[one.best], "value": one.values[one.best]},
        "last": {"epoch": one.epochs[-1], "value": one.values[-1]},
        "lost": one.lost,
    }
