"""docs/results-toybox.md: the tables of results.json set into the words of page.md."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from benchmarks.page import table

from studies.toybox.tables import RESULTS
from studies.words import Rows, cell, filled, names, one

WORDS = Path(__file__).with_name("page.md")
PAGE = Path(__file__).parents[2] / "docs" / "results-toybox.md"
METHOD_PAGES = sorted((PAGE.parent / "methods").glob("*.md"))
MARKS = ("<!-- measured by python -m studies.toybox -->", "<!-- end of what was measured -->")


def write() -> None:
    """The page itself, and each method's own numbers on the method's page."""
    PAGE.write_text(text(), encoding="utf-8")
    for path in METHOD_PAGES:
        path.write_text(with_numbers(path), encoding="utf-8")


def with_numbers(path: Path) -> str:
    """A method's page with what was measured between its two marks."""
    rows = json.loads(RESULTS.read_text(encoding="utf-8"))["rows"]
    lines = []
    for name in names(rows, "methods"):
        if name.startswith(path.stem):
            last, best = one(rows, "methods", name), one(rows, "methods", name, "best")
            prior = one(rows, "methods", name, form="ogl") or one(rows, "methods", name, form="ogl_minmax")
            numbers = [cell(last, metric) for metric in ("ap", "max_f1", "loc_acc")]
            lines.append([f"`{name}_toybox`", *numbers, cell(best, "loc_acc", False), cell(prior, "loc_acc", False)])
    made = table(["recipe", "AP", "max-F1", "LocAcc", "LocAcc, best epoch", "LocAcc with OGL"], lines)
    before, _, rest = path.read_text(encoding="utf-8").partition(MARKS[0])
    return f"{before}{MARKS[0]}\n\n{made}\n\n{MARKS[1]}{rest.partition(MARKS[1])[2]}"


def text() -> str:
    """The page; {{name}} in the words stands for a table or a fact."""
    results = json.loads(RESULTS.read_text(encoding="utf-8"))
    rows, about = results["rows"], results["about"]
    known = {name: make(rows, about) for name, make in TABLES.items()} | {k: str(v) for k, v in about.items()}
    known["middle"] = f"{about['center_prior']['loc_acc']:.2f}"
    return filled(WORDS, known)


def methods(rows: Rows, about: dict[str, Any]) -> str:
    lines = []
    for name in names(rows, "methods"):
        last, best = one(rows, "methods", name), one(rows, "methods", name, "best")
        numbers = [cell(last, metric) for metric in ("ap", "max_f1", "loc_acc")]
        early = cell(best, "loc_acc", False)
        lost = "-" if best is None or last is None else f"{_mean(last) - _mean(best):+.2f}"
        lines.append([f"`{name}`", *numbers, cell(last, "auroc", False), early, lost])
    header = ["method", "AP", "max-F1", "LocAcc", "AUROC", "LocAcc, best epoch", "last - best"]
    return table(header, sorted(lines, key=lambda line: -float(line[1].split()[0])))


def _mean(row: dict[str, Any]) -> float:
    return float(row["numbers"]["loc_acc"][0])


def with_prior(rows: Rows, about: dict[str, Any]) -> str:
    """A method whose map has no bounds is joined by EZ-VSL's fusion, and told apart by its own confidence."""
    lines = []
    for name in names(rows, "methods"):
        pair = one(rows, "methods", name), one(rows, "methods", name, form="ogl")
        if pair[1] is None:
            pair = (
                one(rows, "methods", name, protocol="own"),
                one(rows, "methods", name, protocol="own", form="ogl_minmax"),
            )
        called = f"`{name}`" + (" (min-max)" if pair[0] is not None and pair[0]["protocol"] == "own" else "")
        lines.append([called, *(cell(row, metric) for metric in ("ap", "loc_acc") for row in pair)])
    return table(["method", "AP", "AP + OGL", "LocAcc", "LocAcc + OGL"], lines)


def confidences(rows: Rows, about: dict[str, Any]) -> str:
    lines = []
    for name in names(rows, "methods"):
        forms = [one(rows, "methods", name, protocol=key) for key in ("exact", "own", "native")]
        lines.append([
            f"`{name}`", cell(forms[0], "ap", False), cell(forms[1], "ap", False), cell(forms[0], "auroc", False),
            cell(forms[1], "auroc", False), cell(forms[0], "loc_acc", False), cell(forms[2], "loc_acc", False),
        ])  # fmt: skip
    header = ["method", "AP, map's maximum", "AP, own confidence", "AUROC, maximum", "AUROC, own",
              "LocAcc, dense", "LocAcc, native"]  # fmt: skip
    return table(header, lines)


def where_peaks_are(rows: Rows, about: dict[str, Any]) -> str:
    """Of the runs that were measured with it: whether the map's peak is on the source, and LocAcc of the right size."""
    lines = []
    for name in names(rows, "methods"):
        plain, sized = one(rows, "methods", name), one(rows, "methods", name, protocol="adaptive")
        if plain is None or sized is None:
            continue
        at = [i for i, seed in enumerate(plain["seeds"]) if seed in sized["seeds"]]
        peaks = [plain["pointing_by_seed"][i] for i in at]
        half = [plain["loc_acc_by_seed"][i] for i in at]
        numbers = (sum(peaks) / len(at), sum(half) / len(at), sized["numbers"]["loc_acc"][0])
        lines.append([f"`{name}`", *(f"{number:.2f}" for number in numbers)])
    header = ["method", "peak on the source", "LocAcc, half of the picture", "LocAcc, masks of the right size"]
    return table(header, sorted(lines, key=lambda line: -float(line[1])))


def early_stopping(rows: Rows, about: dict[str, Any]) -> str:
    lines = []
    for name in names(rows, "methods"):
        last, best = one(rows, "methods", name), one(rows, "methods", name, "best")
        if best is None or last is None:
            continue
        numbers = [cell(row, metric, False) for metric in ("ap", "max_f1", "loc_acc") for row in (best, last)]
        lines.append([f"`{name}`", *numbers, ", ".join(map(str, best["epochs"])), str(last["epochs"][0])])
    header = ["method", "AP best", "AP last", "max-F1 best", "max-F1 last", "LocAcc best", "LocAcc last",
              "best epochs", "of"]  # fmt: skip
    return table(header, lines)


def ablation(rows: Rows, group: str, own: str) -> str:
    """A group's lines and, in its place, the run that all ablations start from."""
    found = {name: one(rows, group, name) for name in names(rows, group)}
    found[own] = one(rows, "methods", "slavc")
    lines = [[name, *(cell(row, metric) for metric in ("ap", "max_f1", "loc_acc"))] for name, row in found.items()]
    return table([group.replace("_", " "), "AP", "max-F1", "LocAcc"], sorted(lines, key=lambda line: _order(line[0])))


def _order(name: str) -> float:
    return float(name) if re.fullmatch(r"[\d.]+", name) else -1.0


def decomposition(rows: Rows, about: dict[str, Any]) -> str:
    found = [("no", "AVLoc", one(rows, "decomposition", "without"))]
    for infer, called in (("loc", "AVLoc"), ("avc", "AVC"), ("both", "SLAVC")):
        found.append(("yes", called, one(rows, "decomposition", "with", form=infer)))
    lines = [[trained, used, *(cell(row, m) for m in ("ap", "max_f1", "loc_acc"))] for trained, used, row in found]
    return table(["trained with SLAVC's decomposition", "inference", "AP", "max-F1", "LocAcc"], lines)


def semi_supervised(rows: Rows, about: dict[str, Any]) -> str:
    lines = []
    for name in names(rows, "semi_supervised"):
        for called, row in (("no", one(rows, "methods", name)), ("yes", one(rows, "semi_supervised", name))):
            lines.append([f"`{name}`", called, *(cell(row, metric) for metric in ("ap", "max_f1", "loc_acc"))])
    return table(["method", "a tenth annotated", "AP", "max-F1", "LocAcc"], lines)


def open_set(rows: Rows, about: dict[str, Any]) -> str:
    lines = []
    for name in names(rows, "open_set"):
        for test in ("heard", "unheard"):
            row = one(rows, "open_set", name, test=test)
            lines.append([f"`{name}`", test, *(cell(row, metric) for metric in ("ap", "max_f1", "loc_acc"))])
    return table(["method", "classes", "AP", "max-F1", "LocAcc"], lines)


def seeds(rows: Rows, about: dict[str, Any]) -> str:
    lines = []
    for name in names(rows, "methods"):
        row = one(rows, "methods", name)
        if row is not None and len(row["seeds"]) > 1:
            each = [" / ".join(f"{value:.2f}" for value in row[f"{m}_by_seed"]) for m in ("max_f1", "loc_acc")]
            lines.append([f"`{name}`", *each, f"{row['floor']:.2f}"])
    return table(["method", "max-F1 by seed", "LocAcc by seed", "F1 floor"], lines)


TABLES = {
    "methods": methods,
    "with_prior": with_prior,
    "confidences": confidences,
    "early_stopping": early_stopping,
    "where_peaks_are": where_peaks_are,
    "visual_dropout": lambda rows, about: ablation(rows, "visual_dropout", "0.9"),
    "audio_dropout": lambda rows, about: ablation(rows, "audio_dropout", "0"),
    "momentum": lambda rows, about: ablation(rows, "momentum", "0.99"),
    "decomposition": decomposition,
    "semi_supervised": semi_supervised,
    "open_set": open_set,
    "seeds": seeds,
}
