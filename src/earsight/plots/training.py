"""Plot of a training run: losses and validation metrics."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from earsight.errors import UsageError
from earsight.metrics.base import TITLES
from earsight.plots.figure import PALETTE, Target, label, new_figure, save


def training_curve(path: Target, rows: Sequence[Mapping[str, Any]], x: str = "step") -> None:
    """Losses on the left and validation metrics on the right, both against `x`, from the rows of a run's log.

    A row holds numbers by name and, after an epoch, the group "val" with the metrics. Rows without `x` and everything
    else in them (rates, times) are left out.
    """
    losses: dict[str, list[tuple[float, float]]] = {}
    scores: dict[str, list[tuple[float, float]]] = {}
    for row in rows:
        if x not in row:
            continue
        for name, value in row.items():
            if "loss" in name and isinstance(value, int | float):
                losses.setdefault(name, []).append((float(row[x]), float(value)))
        for name, value in row.get("val", {}).items():
            if name in TITLES:
                scores.setdefault(TITLES[name], []).append((float(row[x]), float(value)))
    if not losses and not scores:
        raise UsageError(
            f"Expected log rows with '{x}' and a loss or metric, but got {len(rows)} without. Train first."
        )
    figure, pair = new_figure(columns=2)
    for axes, group, title in ((pair[0], losses, "Loss"), (pair[1], scores, "Validation (%)")):
        for i, (name, points) in enumerate(sorted(group.items())):
            at, values = np.array(points).T
            scale = 1 if axes is pair[0] else 100
            marker = "o" if len(at) < 40 else ""
            axes.plot(
                at, scale * values, marker=marker, ms=3.5, lw=1.8, color=PALETTE[i % len(PALETTE)], label=label(name)
            )
        axes.set_xlabel(x.capitalize())
        axes.xaxis.get_major_locator().set_params(integer=True)
        axes.set_title(title, loc="left")
        if group:
            # Below the axes, where it covers no line whatever the numbers are.
            below = {"loc": "upper center", "bbox_to_anchor": (0.5, -0.15)}
            axes.legend(**below, ncols=5, frameon=False, fontsize=9.5, handlelength=1.5, columnspacing=1.4)
        else:
            axes.set_visible(False)
    save(figure, path)
