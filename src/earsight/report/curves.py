"""Training curves: loss and learning rate of each run, what it scores after every epoch, and what stopping at its best
epoch would have reported."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from earsight.errors import DataError
from earsight.metrics.base import TITLES, heading, higher_is_better
from earsight.report.figures import PALETTE, label, legend, new_figure
from earsight.report.tables import percent, points
from earsight.training.log import LOG, read_log

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MARKERS = "osD^vPX"
"""Runs beyond the number of colours take the next marker."""


@dataclass(frozen=True)
class Curve:
    """One number of one run over time.

    Args:
        run: what to call the run.
        name: the number's name: "loss" or "lr", the learning rate, while it trains; a metric on its validation list.
        at: after which steps, or for a metric after which epochs from 1, counted over all stages.
        values: one for each of them; of a metric fractions, of which without early stopping the last one counts.
    """

    run: str
    name: str
    at: tuple[int, ...]
    values: tuple[float, ...]

    @property
    def best_so_far(self) -> tuple[float, ...]:
        """What early stopping as it is published would report by then: the best epoch by this number on this list."""
        better = np.maximum if higher_is_better(self.name) else np.minimum
        return tuple(better.accumulate(np.array(self.values)).tolist())

    @property
    def best(self) -> int:
        """Position of the best value, the first of equals."""
        return self.values.index(self.best_so_far[-1])

    @property
    def lost(self) -> float:
        """Last minus best."""
        return self.values[-1] - self.values[self.best]


TRACES = {"loss": "Loss", "lr": "Learning rate"}
"""What is drawn of every run, and as what."""


def read_runs(folders: Sequence[Path], metrics: Sequence[str]) -> tuple[list[Curve], list[Curve]]:
    """Each metric of each run that was measured while it trained, and loss and learning rate of each, run by run."""
    validation, training = [], []
    for folder, run in zip(folders, run_names(folders), strict=True):
        traces, measured = _read(folder)
        training += [Curve(run, name, *zip(*trace, strict=True)) for name, trace in traces.items()]
        for metric in metrics if measured else ():
            by_epoch = {epoch: float(numbers[metric]) for epoch, numbers in measured.items() if metric in numbers}
            if not by_epoch:
                known = ", ".join(sorted({key for numbers in measured.values() for key in numbers}))
                raise DataError(
                    f"Expected '{metric}' in the validation of {folder}, but got {known}. Choose --metrics among these."
                )
            validation.append(Curve(run, metric, tuple(by_epoch), tuple(by_epoch.values())))
    return validation, training


def figure_of_run(folder: Path) -> Figure:
    """Everything that a run's log has of TITLES and TRACES."""
    measured = _read(folder)[1].values()
    return figure(*read_runs([folder], [name for name in TITLES if any(name in numbers for numbers in measured)]))


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


def figure(validation: Sequence[Curve], training: Sequence[Curve] = ()) -> Figure:
    """One panel for each metric: per run a solid line, a dashed one of the best so far, dots at best and last epoch.

    Then one for the loss, and one for the learning rate where it changes, against steps.
    """
    if not any(one.name == "lr" and len(set(one.values)) > 1 for one in training):
        training = [one for one in training if one.name != "lr"]
    panels = {one.name: (f"{heading(one.name)} (%)", "Epoch") for one in validation}
    panels |= {name: (TRACES[name], "Step") for name in TRACES if any(one.name == name for one in training)}
    runs = list(dict.fromkeys(one.run for one in (*training, *validation)))
    columns = 2 if len(panels) == 4 else min(len(panels), 3)
    rows = -(-len(panels) // columns)
    legend_lines = -(-len(runs) // _legend_columns(runs, columns)) + 1
    made, grid = new_figure(rows, columns, (5.6 * columns, 3.8 * rows + 0.24 * legend_lines))
    every = np.ravel(np.array(grid, dtype=object))
    for unused in every[len(panels) :]:
        unused.set_visible(False)
    axes_of = dict(zip(panels, every, strict=False))
    for one in training:
        (color, marker), axes = _style(runs.index(one.run)), axes_of[one.name]
        axes.plot(one.at, one.values, color=color, lw=1.6)
        axes.plot(one.at[-1], one.values[-1], marker, color=color, ms=7, zorder=5)
    for one in validation:
        (color, marker), axes = _style(runs.index(one.run)), axes_of[one.name]
        epochs, values = np.array(one.at), 100 * np.array(one.values)
        axes.plot(epochs, 100 * np.array(one.best_so_far), color=color, ls=(0, (4, 2)), lw=1.5, alpha=0.9)
        axes.plot(epochs, values, color=color, lw=1.9)
        axes.plot(epochs[one.best], values[one.best], marker, color=color, ms=8, mfc="white", mew=1.8, zorder=4)
        axes.plot(epochs[-1], values[-1], marker, color=color, ms=7, zorder=5)
    for name, (text, counted) in panels.items():
        axes_of[name].set_title(text, loc="left")
        axes_of[name].margins(x=0.04, y=0.08)
        axes_of[name].set_xlabel(counted)
        axes_of[name].xaxis.get_major_locator().set_params(integer=True)
    _legend(made, runs, columns, measured=bool(validation))
    return made


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


def loss_line(one: Curve) -> dict[str, str]:
    """A row of the table where no run was measured."""
    first, last, lowest = one.values[0], one.values[-1], min(one.values)
    return {
        "run": one.run,
        "steps": str(one.at[-1]),
        "first loss": f"{first:.4g}",
        "lowest": f"{lowest:.4g}",
        "last": f"{last:.4g}",
    }


def line(one: Curve) -> dict[str, str]:
    """A row of the table: percent, and what a run loses when its last epoch counts."""
    return {
        "run": one.run,
        "metric": heading(one.name),
        "best": percent(one.values[one.best]),
        "at epoch": str(one.at[one.best]),
        "last": percent(one.values[-1]),
        "of epoch": str(one.at[-1]),
        "lost without early stopping": points(one.lost),
    }


def plain(validation: Sequence[Curve], training: Sequence[Curve]) -> dict[str, object]:
    """Curves as JSON values; metrics are fractions."""
    measured = [
        {
            "run": one.run,
            "metric": one.name,
            "epochs": list(one.at),
            "values": list(one.values),
            "best_so_far": list(one.best_so_far),
            "best": {"epoch": one.at[one.best], "value": one.values[one.best]},
            "last": {"epoch": one.at[-1], "value": one.values[-1]},
            "lost": one.lost,
        }
        for one in validation
    ]
    traces = [{"run": one.run, "name": one.name, "steps": list(one.at), "values": list(one.values)} for one in training]
    return {"curves": measured, "training": traces}
