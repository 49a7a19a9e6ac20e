"""python -m studies.coco_esc.page: docs/results-coco-esc.md, from page.md and results.json or the runs themselves."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from benchmarks.page import table

from earsight.errors import EarsightError
from studies.coco_esc import figures, reading, trials
from studies.coco_esc.results import RESULTS, collect
from studies.words import cell, filled, names, one

WORDS = Path(__file__).with_name("page.md")
PAGE = Path(__file__).parents[2] / "docs" / "results-coco-esc.md"
NOT_YET = """# Results on coco_esc

<!-- Written by `python -m studies.coco_esc.page` from studies/coco_esc/page.md and results.json. -->

Not run yet. To run it: `python -m studies.coco_esc --pack PACK`, where `PACK` is what `earsight data prepare coco_esc`
made ([how](coco-esc.md)).
"""
Results = dict[str, Any]
MAIN = ("ap", "max_f1", "loc_acc")


def write(results: Path = RESULTS, page: Path = PAGE) -> None:
    """The page and, where matplotlib is there, its figures."""
    page.write_text(text(results), encoding="utf-8")
    if results.is_file():
        figures.write(json.loads(results.read_text(encoding="utf-8")), page.parent / "img")


def text(path: Path = RESULTS) -> str:
    """The page; that nothing was run yet, where there are no results."""
    if not path.is_file():
        return NOT_YET
    results = json.loads(path.read_text(encoding="utf-8"))
    known = {name: make(results) for name, make in TABLES.items()} | facts(results) | reading.phrases(results)
    return filled(WORDS, known | {"own": reading.own()})


def facts(results: Results) -> dict[str, str]:
    about = results["about"]
    known = {key: str(about[key]) for key in ("hardware", "rate")}
    known["command"] = "\n".join(about["commands"])
    known |= {f"ceiling_{key}": f"{value:.2f}" for key, value in about["ceilings"].items()}
    known["commits"] = ", ".join(about["commits"])
    known["epochs"] = " or ".join(map(str, about["epochs"]))
    known["runs"] = str(len(results["runs"]))
    return known


def last_and_best(results: Results) -> str:
    """Table 1: what early stopping hides."""
    rows, lines = results["rows"], []
    for name in names(rows, "methods"):
        last, best = one(rows, "methods", name), one(rows, "methods", name, "best")
        if last is not None and best is not None:
            pairs = [cell(row, metric, False) for metric in MAIN for row in (best, last)]
            lines.append([f"`{name}`", *pairs, _epochs(best), str(last["epochs"][0])])
    header = ["method", "AP best", "AP last", "max-F1 best", "max-F1 last", "LocAcc best", "LocAcc last",
              "best epochs", "of"]  # fmt: skip
    return table(header, _by_ap(lines, 2))


def _epochs(row: dict[str, Any]) -> str:
    return ", ".join(map(str, row["epochs"]))


def _by_ap(lines: list[list[str]], at: int) -> list[list[str]]:
    return sorted(lines, key=lambda line: -float(line[at].split()[0]))


def methods(results: Results) -> str:
    """Table 2: the last epoch."""
    rows, lines = results["rows"], []
    for name in names(rows, "methods"):
        row = one(rows, "methods", name)
        if row is not None:
            lines.append([f"`{name}`", *(cell(row, metric) for metric in (*MAIN, "auroc")), f"{row['floor']:.2f}",
                          str(len(row["seeds"]))])  # fmt: skip
    return table(["method", "AP", "max-F1", "LocAcc", "AUROC", "F1 floor", "seeds"], _by_ap(lines, 1))


def with_prior(results: Results) -> str:
    """Table 2 with objects added; a map without bounds is joined by EZ-VSL's fusion, and told by its own confidence."""
    rows, lines = results["rows"], []
    for name in names(rows, "methods"):
        pair = one(rows, "methods", name), one(rows, "methods", name, form="ogl")
        called = f"`{name}`"
        if pair[1] is None:
            called += " (min-max)"
            found = [one(rows, "methods", name, protocol=key, form="ogl_minmax") for key in ("own", "exact")]
            pair = one(rows, "methods", name, protocol="own") or pair[0], found[0] or found[1]
        if pair[1] is not None:
            lines.append([called, *(cell(row, metric) for metric in MAIN for row in pair)])
    header = ["method", "AP", "AP + OGL", "max-F1", "max-F1 + OGL", "LocAcc", "LocAcc + OGL"]
    return table(header, _by_ap(lines, 1))


def ablations(results: Results) -> str:
    """Table 3: SLAVC with one thing changed."""
    rows = results["rows"]
    found = [("all of it", one(rows, "methods", "slavc"), one(rows, "methods", "slavc", "best"))]
    for infer, called in (("loc", "map of localization alone"), ("avc", "map of correspondence alone"),
                          ("online", "map of the online encoders")):  # fmt: skip
        found.append((called, one(rows, "methods", "slavc", form=infer), None))
    for group in ("dropout", "momentum", "decomposition", "form"):
        found += [(f"{group}: {name}", one(rows, group, name), one(rows, group, name, "best"))
                  for name in names(rows, group)]  # fmt: skip
    lines = [[called, *(cell(row, metric) for metric in MAIN), cell(best, "ap", False), cell(best, "loc_acc", False)]
             for called, row, best in found if row is not None]  # fmt: skip
    return table(["SLAVC with", "AP", "max-F1", "LocAcc", "AP, best epoch", "LocAcc, best epoch"], lines)


def batches(results: Results) -> str:
    """Each line, and what it has more than its method in batches of 128 as they come."""
    rows, more = results["rows"], {gap["name"]: gap for gap in results.get("changes", [])}
    found = [(name, one(rows, group, name)) for group in ("batches", "singles") for name in names(rows, group)]
    lines = [[name, *(cell(row, metric, False) for metric in (*MAIN, "auroc")),
              *(cell(more.get(name), metric) for metric in (*MAIN, "auroc")), str(len(row["seeds"]))]
             for name, row in sorted(found, key=_batch) if row is not None]  # fmt: skip
    changed = [f"{name} more than in 128" for name in ("AP", "max-F1", "LocAcc", "AUROC")]
    return table(["batches of", "AP", "max-F1", "LocAcc", "AUROC", *changed, "seeds"], lines)


def _batch(line: tuple[str, Any]) -> tuple[str, int, str]:
    name, size, *rest = line[0].split()
    return name, -int(size), " ".join(rest)


def differences(results: Results) -> str:
    lines = []
    for gap in results["gaps"]:
        about = gap["name"] if gap["group"] == "methods" else f"{gap['group']}: {gap['name']}"
        called = f"itself, {gap['form']} sound" if gap["form"] else about
        lines.append(
            [called, *(cell(gap, metric) for metric in ("ap", "max_f1", "loc_acc", "auroc")), str(gap["pairs"])]
        )
    return table(["SLAVC minus", "AP", "max-F1", "LocAcc", "AUROC", "pairs"], lines)


def controls(results: Results) -> str:
    rows, lines = results["rows"], []
    for name in names(rows, "methods"):
        for form, called in (("", "its own"), ("shuffled", "another clip's"), ("silent", "silence")):
            row = one(rows, "methods", name, form=form)
            if row is not None and one(rows, "methods", name, form="silent") is not None:
                more = row["more"]
                lines.append([f"`{name}`", called, *(cell(row, m, False) for m in (*MAIN, "auroc")),
                              _number(more["extended pointing"])])  # fmt: skip
    return table(["method", "sound", "AP", "max-F1", "LocAcc", "AUROC", "pointing"], lines)


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


def more(results: Results, header: list[str], keys: list[str]) -> str:
    """Some of the numbers beside the main ones, of every method."""
    rows, lines = results["rows"], []
    for name in names(rows, "methods"):
        row = one(rows, "methods", name)
        if row is not None:
            lines.append([f"`{name}`", *(_number(row["more"].get(key)) for key in keys)])
    return table(["method", *header], lines)


def tasks(results: Results) -> str:
    header = ["single: LocAcc", "pointing", "multi: LocAcc", "pointing", "interactive: IIoU", "IAUC"]
    keys = ["single loc_acc", "single pointing", "multi loc_acc", "multi pointing", "iiou", "iauc"]
    return more(results, header, keys)


def kinds(results: Results) -> str:
    known = [kind for kind in results["about"]["clips"] if kind != "positive"]
    header = [f"{kind}: {number}" for kind in known for number in ("AUROC", "max-F1")]
    return more(results, header, [f"{number}/{kind}" for kind in known for number in ("auroc", "max_f1")])


def by_size(results: Results) -> str:
    known = {name: count for name, count in results["about"]["sizes"].items() if count}
    header = [f"{name} ({count}): {number}" for name, count in known.items() for number in ("LocAcc", "AP")]
    return more(results, header, [f"{number}/{name}" for name in known for number in ("loc_acc", "ap")])


def by_class(results: Results) -> str:
    """SLAVC's LocAcc and pointing for each class, beside EZ-VSL's and the centre prior's."""
    rows = results["rows"]
    found = {name: one(rows, "methods", name) for name in ("slavc", "ezvsl", "center_prior")}
    there = {name: row["more"] for name, row in found.items() if row is not None}
    if not there:
        return ""
    known = [key.partition("/")[2] for key in next(iter(there.values())) if key.startswith("loc_acc_of/")]
    lines = [[name, *(_number(numbers.get(f"{number}/{name}")) for numbers in there.values()
                      for number in ("loc_acc_of", "pointing_of"))] for name in known]  # fmt: skip
    return table(["class", *(f"`{name}`: {number}" for name in there for number in ("LocAcc", "pointing"))], lines)


def right_size(results: Results) -> str:
    rows, lines = results["rows"], []
    for name in names(rows, "methods"):
        plain, sized = one(rows, "methods", name), one(rows, "methods", name, protocol="adaptive")
        if plain is not None and sized is not None:
            lines.append([f"`{name}`", _number(plain["more"]["extended pointing"]), cell(plain, "loc_acc", False),
                          cell(sized, "loc_acc", False)])  # fmt: skip
    return table(
        ["method", "peak on the source", "LocAcc, half of the picture", "LocAcc, masks of the right size"], lines
    )


def seeds(results: Results) -> str:
    rows, lines = results["rows"], []
    for name in names(rows, "methods"):
        row = one(rows, "methods", name)
        if row is not None and len(row["seeds"]) > 1:
            each = [" / ".join(_number(value) for value in row[f"{m}_by_seed"]) for m in ("max_f1", "loc_acc", "iiou")]
            lines.append([f"`{name}`", *each])
    return table(["method", "max-F1 by seed", "LocAcc by seed", "IIoU by seed"], lines)


def training(results: Results) -> str:
    """Validation AP over the epochs, of each line's first seed; the figure has the rest."""
    lines = []
    for run in results["training"]:
        aps, epochs = run["val"]["ap"], run["val"]["epoch"]
        if run["seed"] == 0 and len(aps) > 1:
            at = sorted({round(i * (len(aps) - 1) / 4) for i in range(5)})
            told = " ".join(f"{aps[i]:.1f} ({int(epochs[i])})" for i in at)
            called = f"`{run['name']}`" if run["group"] == "methods" else f"{run['group']}: {run['name']}"
            lines.append([called, told, f"{max(aps):.2f}", f"{aps[-1] - max(aps):+.2f}",
                          f"{run['loss'][0]:.3f}", f"{run['loss'][-1]:.3f}"])  # fmt: skip
    return table(["run, seed 0", "validation AP (epoch)", "best", "last - best", "first loss", "last loss"], lines)


def commands(results: Results) -> str:
    """What to type for each line; seeds differ in --optim.seed alone."""
    lines: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for run in results["runs"]:
        lines.setdefault((run["group"], run["name"]), []).append(run)
    parts = []
    for (group, name), runs in lines.items():
        told = ", ".join(f"{run['seed']} ({run['commit']})" for run in runs)
        first = runs[0]
        parts.append(f"- **{group}: {name}**, seeds (commits) {told}: `{first['train']}`")
    return "\n".join(parts)


TABLES: dict[str, Callable[[Results], str]] = {
    "last_and_best": last_and_best, "methods": methods, "with_prior": with_prior, "ablations": ablations,
    "batches": batches, "differences": differences, "controls": controls, "tasks": tasks, "kinds": kinds,
    "by_size": by_size, "by_class": by_class, "right_size": right_size, "seeds": seeds, "training": training,
    "commands": commands, "figures": lambda results: figures.links(results),
}  # fmt: skip


def main(argv: Sequence[str] | None = None) -> int:
    ask = argparse.ArgumentParser(prog="python -m studies.coco_esc.page", description=__doc__)
    ask.add_argument("--runs", type=Path, help="collect the numbers of these runs first: --out of the study")
    ask.add_argument("--add", action="store_true", help="keep what the results tell of lines that have no run there")
    ask.add_argument("--results", type=Path, default=RESULTS)
    ask.add_argument("--page", type=Path, default=PAGE)
    args = ask.parse_args(argv)
    try:
        if args.runs is not None:
            collect(trials.every(), args.runs, args.results, add=args.add)
    except EarsightError as error:
        sys.stderr.write(f"{error}\n")
        return 2
    write(args.results, args.page)
    return 0


if __name__ == "__main__":
    sys.exit(main())
