"""`earsight curves`: how runs do epoch by epoch, with and without early stopping, in one plot."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from earsight.cli.screen import note, say, say_json
from earsight.cli.settings import Many, Switch, need_once, word
from earsight.config import need
from earsight.files import refuse_existing

if TYPE_CHECKING:
    from earsight.report.curves import Series, Trace

OPTIMISTIC = (
    "note: the best epoch is chosen on the same list that it is reported on, so it is optimistic; "
    "the last epoch is what a run without labels can promise."
)


@dataclass(frozen=True, kw_only=True)
class Curves:
    """Draw how runs do epoch by epoch, with and without early stopping, in one plot."""

    runs: Annotated[Many, word("RUN")]
    """Folders of runs."""
    metrics: Annotated[tuple[str, ...], word("NAME", default=None)] = ("loc_acc", "ap")
    """Which numbers to draw, one panel each: those of metrics.json, such as ap or auroc."""
    out: Annotated[Path, word("FILE", "-o", default=None)] = Path("curves.png")
    """The PNG file to write."""
    force: Switch = False
    """Replace a file that is there."""
    json: Switch = False
    """Print JSON instead of the table."""


def run(settings: Curves) -> int:
    from earsight.metrics.base import module_of
    from earsight.report.curves import draw, read_series, read_traces, run_names
    from earsight.report.tables import render

    runs, metrics, out = settings.runs, settings.metrics, settings.out
    need(bool(runs), "at least one run", "none", "Name the folders of runs.")
    need(bool(metrics), "at least one number to draw", "none", "Leave --metrics out, or name some.")
    need_once("each run once", runs)
    for name in metrics:
        module_of(name)
    need(out.suffix.lower() == ".png", "a .png file to write", out, "Let the name of --out end in .png.")
    need(not out.is_dir(), "a file to write", f"the folder {out}", "Name a file in it.")
    refuse_existing([out], settings.force)
    series, traces = read_series(runs, list(dict.fromkeys(metrics))), read_traces(runs)
    draw(out, series, traces)
    if settings.json:
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
    from earsight.report.tables import title

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
