"""Plots of an evaluation or a training run, as PNG files. matplotlib is imported when the first one is drawn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from earsight.errors import UsageError
from earsight.heatmap import overlay
from earsight.metrics import average_precision, max_f1
from earsight.metrics.base import Records, hits
from earsight.protocols import Protocol
from earsight.types import F32, POSITIVE, U8, Box, Mask

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Colours that stay apart for people with any kind of colour vision; the first is always the model or the positives.
PALETTE = ("#0072B2", "#D55E00", "#E69F00", "#CC79A7", "#009E73", "#56B4E9", "#5A5A5A")
GREY = "#8A8A8A"
SCORES = {"ap": "AP", "max_f1": "max-F1", "loc_acc": "LocAcc", "auc": "AUC", "auroc": "AUROC"}
"""What the right panel of a training curve shows, and as what."""


@dataclass(frozen=True)
class Tile:
    """One picture of a grid.

    Args:
        picture: uint8 (3, H, W).
        score: float32 (H, W) in 0..1.
        caption: one line under the picture.
        mask: bool (H, W), outlined; None for no outline.
        boxes: where the source is, as fractions of the picture.
    """

    picture: U8
    score: F32
    caption: str = ""
    mask: Mask | None = None
    boxes: tuple[Box, ...] = ()


def pr_curve(path: Path, records: Records, protocol: Protocol) -> None:
    """Precision against recall over all confidences, with the precision of accepting everything."""
    _need_positives(records)
    precision, recall, _ = average_precision.curve(records, protocol)
    ap = average_precision.compute(records, protocol)["ap"]
    figure, axes = _figure()
    axes.step(np.append(0, recall), np.append(precision[0], precision), where="pre", color=PALETTE[0], lw=2)
    axes.fill_between(
        np.append(0, recall), np.append(precision[0], precision), step="pre", color=PALETTE[0], alpha=0.12, lw=0
    )
    base = hits(records, protocol).sum() / len(records)
    axes.axhline(base, color=GREY, ls="--", lw=1.2, label=f"accept everything: {100 * base:.1f}%")
    axes.set(xlim=(0, 1), ylim=(0, 1.03), xlabel="Recall", ylabel="Precision")
    axes.set_title(f"Precision and recall, AP {100 * ap:.2f}", loc="left")
    axes.legend(loc="lower left", frameon=False)
    _save(figure, path)


def f1_curve(path: Path, records: Records, protocol: Protocol) -> None:
    """F1 against the confidence threshold, with its highest point and the accept-everything floor."""
    _need_positives(records)
    f1, thresholds = max_f1.curve(records, protocol)
    top, at = max_f1.best(records, protocol)
    floor = max_f1.floor(records, protocol)
    figure, axes = _figure()
    axes.plot(thresholds, f1, color=PALETTE[0], lw=2)
    axes.axhline(floor, color=GREY, ls="--", lw=1.2, label=f"floor (accept everything): {100 * floor:.2f}")
    axes.plot([at], [top], "o", color=PALETTE[1], ms=7, label=f"max-F1 {100 * top:.2f} at confidence {at:.3f}")
    axes.set(ylim=(0, 1.03), xlabel="Confidence threshold", ylabel="F1")
    axes.set_title("F1 against confidence", loc="left")
    axes.legend(loc="lower left", frameon=False)
    _save(figure, path)


def confidence_histogram(path: Path, records: Records, threshold: float | None = None) -> None:
    """How the confidences of positives and of each kind of negative lie, with the calibrated threshold if given."""
    if len(records) == 0:
        raise UsageError("Expected records to draw, but got none. Evaluate a set with clips in it.")
    low, high = float(records.confidence.min()), float(records.confidence.max())
    bins = np.linspace(low, high if high > low else low + 1e-3, 41)
    kinds = sorted(set(records.kind.tolist()), key=lambda kind: (kind != POSITIVE, kind))
    figure, axes = _figure()
    for i, kind in enumerate(kinds):
        values = records.confidence[records.kind == kind]
        color, label = PALETTE[i % len(PALETTE)], f"{kind} ({len(values)})"
        share = np.full(len(values), 1 / len(values))
        if kind == POSITIVE:
            axes.hist(values, bins, weights=share, color=color, alpha=0.3, label=label)
        else:
            axes.hist(values, bins, weights=share, color=color, histtype="step", lw=2, label=label)
    if threshold is not None:
        axes.axvline(threshold, color=GREY, ls="--", lw=1.2, label=f"threshold {threshold:.3f}")
    axes.set(xlabel="Confidence", ylabel="Share of the kind")
    axes.set_title("Confidence of positives and negatives", loc="left")
    axes.legend(frameon=False)
    _save(figure, path)


def training_curve(path: Path, rows: Sequence[Mapping[str, Any]], x: str = "step") -> None:
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
            if name in SCORES:
                scores.setdefault(SCORES[name], []).append((float(row[x]), float(value)))
    if not losses and not scores:
        raise UsageError(
            f"Expected log rows with '{x}' and a loss or metric, but got {len(rows)} without. Train first."
        )
    figure, pair = _figure(columns=2)
    for axes, group, title in ((pair[0], losses, "Loss"), (pair[1], scores, "Validation (%)")):
        for i, (name, points) in enumerate(sorted(group.items())):
            at, values = np.array(points).T
            scale = 1 if axes is pair[0] else 100
            marker = "o" if len(at) < 40 else ""
            axes.plot(at, scale * values, marker=marker, ms=3.5, lw=1.8, color=PALETTE[i % len(PALETTE)], label=name)
        axes.set_xlabel(x.capitalize())
        axes.xaxis.get_major_locator().set_params(integer=True)
        axes.set_title(title, loc="left")
        if group:
            axes.legend(frameon=False)
        else:
            axes.set_visible(False)
    _save(figure, path)


def overlay_grid(path: Path, tiles: Sequence[Tile], columns: int = 4) -> None:
    """A grid of pictures with heat map, truth boxes (cyan) and the outline of the prediction (white)."""
    if not tiles:
        raise UsageError("Expected pictures for the grid, but got none. Ask for at least one.")
    columns = min(columns, len(tiles))
    count = -(-len(tiles) // columns)
    figure, grid = _figure(rows=count, columns=columns, size=(2.6 * columns, 2.85 * count))
    for axes in np.ravel(np.array(grid, dtype=object)):
        axes.axis("off")
    from matplotlib.patches import Rectangle
    from matplotlib.patheffects import Normal, Stroke

    dark = [Stroke(linewidth=3.4, foreground="#00000090"), Normal()]
    for axes, tile in zip(np.ravel(np.array(grid, dtype=object)), tiles, strict=False):
        _, height, width = tile.picture.shape
        axes.imshow(overlay(tile.picture, tile.score).transpose(1, 2, 0), interpolation="lanczos")
        if tile.mask is not None and tile.mask.any() and not tile.mask.all():
            lines = axes.contour(tile.mask.astype(np.float32), levels=[0.5], colors="white", linewidths=1.6)
            lines.set_path_effects(dark)
        for x0, y0, x1, y1 in tile.boxes:
            x0, x1 = (min(max(x, 0.0), 1.0) * width - 0.5 for x in (x0, x1))
            y0, y1 = (min(max(y, 0.0), 1.0) * height - 0.5 for y in (y0, y1))
            frame = Rectangle((x0, y0), x1 - x0, y1 - y0, fill=False, ec="#48DBFB", lw=1.8, path_effects=dark)
            axes.add_patch(frame)
        axes.set(xlim=(-0.5, width - 0.5), ylim=(height - 0.5, -0.5))
        axes.set_title(tile.caption, fontsize=8.5, pad=4)
    _save(figure, path)


def _figure(rows: int = 1, columns: int = 1, size: tuple[float, float] | None = None) -> tuple[Figure, Any]:
    # A Figure without pyplot: no global state, no window system, safe in threads.
    from matplotlib.figure import Figure

    figure = Figure(figsize=size or (5.6 * columns, 4.0 * rows), dpi=150, layout="constrained")
    axes: Any = figure.subplots(rows, columns)
    for one in np.ravel(np.array(axes, dtype=object)):
        _plain(one)
    return figure, axes


def _plain(axes: Axes) -> None:
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(color="#E4E4E4", lw=0.8)
    axes.set_axisbelow(True)


def _save(figure: Figure, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, metadata={"Software": None})  # no version inside: the same numbers give the same file


def _need_positives(records: Records) -> None:
    if not records.positives.any():
        raise UsageError("Expected records with positives, but got none. Evaluate a set with visible sources.")
