"""`earsight curves`: how runs do epoch by epoch, with and without early stopping, in one plot."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from earsight.commands.screen import note, say, say_json
from earsight.config import need
from earsight.curves import Series, draw, read_series
from earsight.files import refuse_existing
from earsight.metrics.base import module_of
from earsight.tabular import render, title

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
    series = read_series(runs, list(dict.fromkeys(metrics)))
    draw(out, series)
    if json:
        say_json({"curves": [plain(one) for one in series]})
    else:
        say(render([line(one) for one in series]))
    note(OPTIMISTIC)
    note(f"plot: {out}")
    return 0


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
