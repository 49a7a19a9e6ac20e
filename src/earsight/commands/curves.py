"""`earsight curves`: how runs do epoch by epoch, with and without early stopping, in one plot."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from earsight.commands.screen import note, say, say_json
from earsight.config import need
from earsight.files import refuse_existing
from earsight.metrics.base import module_of
from earsight.report.curves import Series, Trace, draw, read_series, read_traces, run_names
from earsight.report.tables import render, title

OPTIMISTIC = (
    "note: the best epoch is chosen on the same list that it is reported on, so it is optimistic; "
    "the last epoch is what a run without labels can promise."
)


def run(
    runs: Sequence[Path],
    *,
    metrics: Sequence[str] = ("loc_acc", "ap"),
    out: Path = Path("curves.png"),
    force: bool = False,
    json: bool = False,
) -> int:
    need(bool(runs), "at least one run", "none", "Name the folders of runs.")
    need(bool(metrics), "at least one number to draw", "none", "Leave --metrics out, or name some.")
    twice = [path for i, path in enumerate(runs) if path.resolve() in [p.resolve() for p in runs[:i]]]
    need(not twice, "each run once", f"{twice[0] if twice else ''} twice", "Leave one out.")
    for name in metrics:
        module_of(name)
    need(out.suffix.lower() == ".png", "a .png file to write", out, "Let the name of --out end in .png.")
    need(not out.is_dir(), "a file to write", f"the folder {out}", "Name a file in it.")
    refuse_existing([out], force)
    series, traces = read_series(runs, list(dict.fromkeys(metrics))), read_traces(runs)
    draw(out, series, traces)
    if json:
        say_json({"curves": [plain(one) for one in series], "training": [asdict(one) for one in traces]})
    else:
        say(render([line(one) for one in series] or [loss_line(one) for one in traces if one.name == "loss"]))
    if series:
        note(OPTIMISTIC)
    measured = {one.run for one in series}
    without = [name for name in run_names(runs) if name not in measured]
    if without:
        note(f"note: no validation in the log of {', '.join(without)}, so only the loss is drawn. "
             "Train with --val SET, and --optim.val-every 1 for a point after every epoch.")  # fmt: skip
    note(f"plot: {out}")
    return 0


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
