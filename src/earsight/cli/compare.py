"""`earsight compare` and `earsight curves`: reports in one table beside published numbers, runs in one plot."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from earsight.cli.screen import note, say, say_json
from earsight.cli.settings import Force, Json, Many, Switch, need_once, word
from earsight.config import need
from earsight.errors import UsageError
from earsight.files import refuse_existing, write_text

MOST_DRAWS = 1_000_000
OPTIMISTIC = (
    "note: the best epoch is chosen on the same list that it is reported on, so it is optimistic; "
    "the last epoch is what a run without labels can promise."
)


@dataclass(frozen=True, kw_only=True)
class Compare:
    """Put reports into one table beside the published numbers, and say which differences could be chance."""

    reports: Annotated[Many, word("REPORT")] = ()
    """Report folders that eval or score wrote."""
    table: Annotated[str, word("NAME")] = ""
    """Published table to stand beside (earsight list tables); by default what fits the sets. "none" for none."""
    format: Literal["text", "markdown", "csv", "latex"] = "text"
    """How the table is printed."""
    metrics: Annotated[tuple[str, ...], word("NAME")] = ()
    """Which numbers: those of metrics.json, such as ap, auroc or loc_acc/small. An unknown name lists all. By default
    ap, max_f1 and loc_acc, or loc_acc and auc where no set has negatives."""
    draws: int = 2000
    """Bootstrap draws behind each p value."""
    seed: int = 0
    """Seed of the draws."""
    out: Annotated[Path | None, word("FILE", "-o")] = None
    """Write the table to this file too."""
    force: Force = False
    json: Switch = False
    """Print JSON, with numbers as fractions; a published table alone (--table) as printed, in its unit."""


@dataclass(frozen=True, kw_only=True)
class Curves:
    """Draw how runs do epoch by epoch, with and without early stopping, in one plot."""

    runs: Annotated[Many, word("RUN")]
    """Folders of runs."""
    metrics: Annotated[tuple[str, ...], word("NAME", default=None)] = ("loc_acc", "ap")
    """Which numbers to draw, one panel each: those of metrics.json, such as ap or auroc."""
    out: Annotated[Path, word("FILE", "-o", default=None)] = Path("curves.png")
    """The PNG file to write."""
    force: Force = False
    json: Json = False


def run(settings: Compare | Curves) -> int:
    return run_compare(settings) if isinstance(settings, Compare) else run_curves(settings)


def run_compare(settings: Compare) -> int:
    from earsight.report import published
    from earsight.report.compare import NONE, compare, leading
    from earsight.report.compare_text import plain, published_text, texts
    from earsight.report.results import read_report

    reports, table, out, metrics = settings.reports, settings.table, settings.out, settings.metrics
    enough = "2000 tell chances from about 0.001."
    need(settings.draws <= MOST_DRAWS, f"at most {MOST_DRAWS} draws", settings.draws, enough)
    need(settings.seed >= 0, "a seed of at least 0", settings.seed)
    need_once("each report once", reports)
    if out is not None:
        refuse_existing([out], settings.force)
    if reports:
        read = [read_report(path) for path in reports]
        metrics = tuple(metrics or leading(read))
        found = compare(read, metrics, table, settings.draws, settings.seed)
        text, notes = texts(found, metrics, settings.format)
        values: Any = {"sets": [plain(one) for one in found]}
    elif table in ("", NONE):
        raise UsageError(
            "Expected report folders or a published table, but got neither. "
            "Name reports, or --table NAME (earsight list tables)."
        )
    else:
        text, notes = published_text(published.table(table), settings.format)
        values = asdict(published.table(table))
    if settings.json:
        say_json(values)
    else:
        say(text)
        for told in notes.splitlines():
            note(told)
    if out is not None:
        write_text(out, text + "\n")
        note(f"table: {out}")
    return 0


def run_curves(settings: Curves) -> int:
    from earsight.metrics.base import module_of
    from earsight.report.curves import figure, line, loss_line, plain, read_runs, run_names
    from earsight.report.figures import save
    from earsight.report.tables import render

    runs, metrics, out = settings.runs, settings.metrics, settings.out
    need(bool(runs), "at least one run", "none", "Name the folders of runs.")
    need(bool(metrics), "at least one number to draw", "none", "Leave --metrics out, or name some.")
    need_once("each run once", runs)
    for name in metrics:
        module_of(name)
    need(out.suffix.lower() == ".png", "a .png file to write", out, "Let the name of --out end in .png.")
    refuse_existing([out], settings.force)
    validation, training = read_runs(runs, list(dict.fromkeys(metrics)))
    save(figure(validation, training), out)
    if settings.json:
        say_json(plain(validation, training))
    else:
        say(render([line(one) for one in validation] or [loss_line(one) for one in training if one.name == "loss"]))
    if validation:
        note(OPTIMISTIC)
    measured = {one.run for one in validation}
    without = [name for name in run_names(runs) if name not in measured]
    if without:
        note(
            f"note: no validation in the log of {', '.join(without)}, so only the loss is drawn. "
            "Train with --val SET, and --optim.val-every 1 for a point after every epoch."
        )
    note(f"plot: {out}")
    return 0
