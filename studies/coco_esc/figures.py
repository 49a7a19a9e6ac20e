"""Figures of the study, drawn from results.json where matplotlib is installed."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from earsight.metrics.sweeps import IOU_PERCENT
from earsight.report.figures import PALETTE, key, new_figure, save
from studies.coco_esc.results import CURVE
from studies.words import names, one

Results = dict[str, Any]
SHOWN = 7
"""Methods in a figure, those of the highest AP."""


def write(results: Results, folder: Path) -> None:
    """All figures; none without matplotlib."""
    if importlib.util.find_spec("matplotlib") is None:
        return
    folder.mkdir(parents=True, exist_ok=True)
    for name, (_, draw) in FIGURES.items():
        draw(results, folder / f"{name}.png")


def links(results: Results) -> str:
    """The figures as a page shows them."""
    return "\n\n".join(f"![{about}](img/{name}.png)" for name, (about, _) in FIGURES.items())


def best_methods(results: Results) -> list[dict[str, Any]]:
    found = [one(results["rows"], "methods", name) for name in names(results["rows"], "methods")]
    rows = [row for row in found if row is not None]
    return sorted(rows, key=lambda row: -row["numbers"]["ap"][0])[:SHOWN]


def confidence_curves(results: Results, path: Path) -> None:
    """F1 over the share of clips that are accepted, and AP over the cIoU that makes a hit."""
    figure, pair = new_figure(columns=2)
    for color, row in zip(PALETTE, best_methods(results), strict=False):
        pair[0].plot(100 * CURVE, row["f1_curve"], color=color, lw=1.8, label=row["name"])
        pair[1].plot(np.array(IOU_PERCENT) / 100, row["ap_curve"], color=color, lw=1.8)
    pair[0].set(xlabel="Clips accepted, most confident first (%)", ylabel="F1 (%)", xlim=(0, 100))
    pair[1].set(xlabel="cIoU that makes a hit", ylabel="AP (%)", xlim=(0, 1))
    key(figure)
    save(figure, path)


def training_curves(results: Results, path: Path) -> None:
    """Validation AP and LocAcc over the epochs, mean over seeds: SLAVC, its ablations, and EZ-VSL."""
    runs: dict[str, list[dict[str, Any]]] = {}
    for run in results["training"]:
        if run["group"] == "methods" and run["name"] in ("slavc", "ezvsl"):
            runs.setdefault(run["name"], []).append(run["val"])
        elif run["group"] in ("dropout", "momentum"):
            runs.setdefault(f"{run['group']}: {run['name']}", []).append(run["val"])
    figure, pair = new_figure(columns=2)
    for color, (name, vals) in zip(PALETTE, runs.items(), strict=False):
        shared = min(len(val["epoch"]) for val in vals)
        for axes, number in zip(pair, ("ap", "loc_acc"), strict=True):
            mean = np.mean([val[number][:shared] for val in vals], axis=0)
            label = name if number == "ap" else None
            axes.plot(vals[0]["epoch"][:shared], mean, color=color, lw=1.8, label=label)
    pair[0].set(xlabel="Epoch", ylabel="Validation AP (%)")
    pair[1].set(xlabel="Epoch", ylabel="Validation LocAcc (%)")
    key(figure)
    save(figure, path)


def sizes(results: Results, path: Path) -> None:
    """LocAcc by the size of the source."""
    known = [name for name, count in results["about"]["sizes"].items() if count]
    figure, axes = new_figure()
    rows = best_methods(results)
    for i, (color, row) in enumerate(zip(PALETTE, rows, strict=False)):
        values = [row["more"].get(f"loc_acc/{name}") or 0.0 for name in known]
        axes.bar(np.arange(len(known)) + i * 0.8 / len(rows), values, 0.8 / len(rows), color=color, label=row["name"])
    axes.set_xticks(np.arange(len(known)) + 0.4 - 0.4 / len(rows), known)
    axes.set(ylabel="LocAcc (%)")
    key(figure)
    save(figure, path)


FIGURES: dict[str, tuple[str, Callable[[Results, Path], None]]] = {
    "coco_esc_curves": (
        "F1 over the clips that are accepted, and AP over the cIoU that makes a hit",
        confidence_curves,
    ),
    "coco_esc_training": ("Validation AP and LocAcc while training, mean over seeds", training_curves),
    "coco_esc_sizes": ("LocAcc by the size of the source", sizes),
}
