"""Training curves: loss and learning rate of each run, what it scores after every epoch, and what stopping at its best
epoch would have reported."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from earsight.errors import DataError
from earsight.metrics.base import higher_is_better
from earsight.report.figures import PALETTE, label, legend, new_figure, over, save
from earsight.report.tables import title
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
    return [one for folder, run in zip(folders, run_names(folders), strict=True) for one in _traces(folder, run)]


def _traces(folder: Path, run: str) -> list[Trace]:
    found: list[Trace] = []
    with _readable(folder):
        rows = _rows(folder)
        for name in TRACES:
            points = [(int(row["step"]), float(row[name])) for row in rows if name in row]
            if points:
                steps, values = zip(*points, strict=True)
                found.append(Trace(run, name, steps, values))
    return found


def read_series(folders: Sequence[Path], metrics: Sequence[str]) -> list[Series]:
    """Each metric of each run that was measured while it trained, run by run."""
    names = run_names(folders)
    return [one for folder, name in zip(folders, names, strict=True) for one in _of_run(folder, name, metrics)]


def run_names(folders: Sequence[Path]) -> list[str]:
    """The folders' names, or whole paths where two have the same.

    >>> run_names([Path("a/slavc"), Path("a/ezvsl")]), run_names([Path("a/run"), Path("b/run")])
    (['slavc', 'ezvsl'], ['a/run', 'b/run'])
    """
    short = [folder.resolve().name for folder in folders]
    return [str(f) if short.count(name) > 1 else name for f, name in zip(folders, short, strict=True)]


def _rows(folder: Path) -> list[dict[str, Any]]:
    """The rows of a run's log, which has to have some."""
    if not (folder / LOG).is_file():
        raise DataError(f"Expected a run's folder, but {folder} has no {LOG}. Name the --out of earsight train.")
    rows = read_log(folder / LOG)
    if not rows and (folder / LOG).stat().st_size:
        raise ValueError("no line of it is one of a log")
    if not any(key in row for row in rows for key in ("loss", "val")):
        raise DataError(
            f"Expected a run that has taken its first steps, but the log of {folder} has no loss and no validation. "
            "Let it train, then draw it."
        )
    return rows


@contextmanager
def _readable(folder: Path) -> Iterator[None]:
    """Tell of a log that holds something else than a run writes."""
    try:
        yield
    except (ValueError, KeyError, TypeError) as error:
        told = " ".join(str(error).split())
        raise DataError(
            f"Expected a run's log, but {folder / LOG} cannot be read ({told}). Train the run again."
        ) from error


def _of_run(folder: Path, name: str, metrics: Sequence[str]) -> list[Series]:
    with _readable(folder):
        rows = [(int(row["epoch"]), dict(row["val"])) for row in _rows(folder) if "val" in row]
    if not rows:
        return []
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


def draw(path: Path, series: Sequence[Series], traces: Sequence[Trace] = ()) -> None:
    """One panel for each metric: per run a solid line, a dashed one of the best so far, dots at best and last epoch.

    Then one for the loss, and one for the learning rate where it changes, against steps.
    """
    metrics = list(dict.fromkeys(one.metric for one in series))
    if not any(one.name == "lr" and len(set(one.values)) > 1 for one in traces):
        traces = [one for one in traces if one.name != "lr"]
    traced = [name for name in TRACES if any(one.name == name for one in traces)]
    runs = list(dict.fromkeys([*(one.run for one in traces), *(one.run for one in series)]))
    count = len(metrics) + len(traced)
    columns = 2 if count == 4 else min(count, 3)
    rows = -(-count // columns)
    legend_lines = -(-len(runs) // _legend_columns(runs, columns)) + 1
    size = (5.6 * columns, 3.8 * rows + 0.24 * legend_lines)
    figure, grid = new_figure(rows, columns, size)
    panels = np.ravel(np.array(grid, dtype=object))
    for panel in panels[count:]:
        panel.set_visible(False)
    for trace in traces:
        axes, number = panels[len(metrics) + traced.index(trace.name)], runs.index(trace.run)
        color, marker = _look(number)
        axes.plot(trace.steps, trace.values, color=color, lw=1.6)
        axes.plot(trace.steps[-1], trace.values[-1], marker, color=color, ms=7, zorder=5)
    for axes, name in zip(panels[len(metrics) :], traced, strict=False):
        axes.set_title(TRACES[name], loc="left")
        over(axes, "Step")
        axes.margins(x=0.04, y=0.08)
    for one in series:
        axes, number = panels[metrics.index(one.metric)], runs.index(one.run)
        color, marker = _look(number)
        epochs, values = np.array(one.epochs), 100 * np.array(one.values)
        axes.plot(epochs, 100 * np.array(one.best_so_far), color=color, ls=(0, (4, 2)), lw=1.5, alpha=0.9)
        axes.plot(epochs, values, color=color, lw=1.9)
        axes.plot(epochs[one.best], values[one.best], marker, color=color, ms=8, mfc="white", mew=1.8, zorder=4)
        axes.plot(epochs[-1], values[-1], marker, color=color, ms=7, zorder=5)
    for axes, metric in zip(panels, metrics, strict=False):
        axes.set_title(f"{title(metric)} (%)", loc="left")
        over(axes, "Epoch")
        axes.margins(x=0.04, y=0.08)
    _legend(figure, runs, columns, measured=bool(series))
    save(figure, path)


def _look(number: int) -> tuple[str, str]:
    """Colour and marker of a run."""
    return PALETTE[number % len(PALETTE)], MARKERS[number // len(PALETTE) % len(MARKERS)]


def _legend_columns(runs: Sequence[str], panels: int) -> int:
    """As many beside each other as fit under the panels: about 60 letters to a panel."""
    return max(1, min(len(runs), 60 * panels // (max(len(label(run)) for run in runs) + 8)))


def _legend(figure: Figure, runs: Sequence[str], panels: int, measured: bool) -> None:
    """Runs by colour, and where some were measured, under them what the kinds of lines and dots say."""
    from matplotlib.lines import Line2D

    by_run = [Line2D([], [], color=color, marker=marker, lw=1.9) for color, marker in map(_look, range(len(runs)))]
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
        "best": f"{100 * one.values[one.best]:.2f}",
        "at epoch": str(one.epochs[one.best]),
        "last": f"{100 * one.values[-1]:.2f}",
        "of epoch": str(one.epochs[-1]),
        "lost without early stopping": f"{round(100 * one.lost, 2) + 0.0:+.2f}",
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
