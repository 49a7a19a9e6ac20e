"""Plots of what the confidence is worth: precision and recall, F1, and how confidences lie."""

from __future__ import annotations

import numpy as np

from earsight.errors import UsageError
from earsight.metrics import average_precision, max_f1
from earsight.metrics.base import Records, hits
from earsight.plots.figure import GREY, PALETTE, Target, key, label, need_positives, new_figure, save
from earsight.protocols import Protocol
from earsight.types import POSITIVE

MOST_KINDS = 10
"""Kinds of clips that a histogram tells apart."""


def pr_curve(path: Target, records: Records, protocol: Protocol) -> None:
    """Precision against recall over all confidences, with the precision of accepting everything."""
    need_positives(records)
    precision, recall, _ = average_precision.curve(records, protocol)
    ap = average_precision.compute(records, protocol)["ap"]
    figure, axes = new_figure()
    axes.step(np.append(0, recall), np.append(precision[0], precision), where="pre", color=PALETTE[0], lw=2)
    axes.fill_between(
        np.append(0, recall), np.append(precision[0], precision), step="pre", color=PALETTE[0], alpha=0.12, lw=0
    )
    base = hits(records, protocol).sum() / len(records)
    axes.axhline(base, color=GREY, ls="--", lw=1.2, label=f"accept everything: {100 * base:.1f}%")
    axes.set(xlim=(0, 1), ylim=(0, 1.03), xlabel="Recall", ylabel="Precision")
    axes.set_title(f"Precision and recall, AP {100 * ap:.2f}", loc="left")
    key(figure)
    save(figure, path)


def f1_curve(path: Target, records: Records, protocol: Protocol) -> None:
    """F1 against the confidence threshold, with its highest point and the accept-everything floor."""
    need_positives(records)
    f1, thresholds = max_f1.curve(records, protocol)
    top, at = max_f1.best(records, protocol)
    floor = max_f1.floor(records, protocol)
    figure, axes = new_figure()
    axes.plot(thresholds, f1, color=PALETTE[0], lw=2)
    axes.axhline(floor, color=GREY, ls="--", lw=1.2, label=f"floor, accept everything: {100 * floor:.2f}")
    axes.plot([at], [top], "o", color=PALETTE[1], ms=7, label=f"max-F1 {100 * top:.2f} at {at:.3f}")
    axes.set(ylim=(0, 1.03), xlabel="Confidence threshold", ylabel="F1")
    axes.set_title("F1 against confidence", loc="left")
    key(figure)
    save(figure, path)


def confidence_histogram(path: Target, records: Records, threshold: float | None = None) -> None:
    """How the confidences of positives and of each kind of negative lie, with the calibrated threshold if given."""
    if len(records) == 0:
        raise UsageError("Expected records to draw, but got none. Evaluate a set with clips in it.")
    low, high = float(records.confidence.min()), float(records.confidence.max())
    bins = np.linspace(low, high if high > low else low + 1e-3, 41)
    names, counts = np.unique(records.kind, return_counts=True)
    kinds = sorted(names.tolist(), key=lambda kind: (kind != POSITIVE, kind))
    if len(kinds) > MOST_KINDS:  # the most frequent ones; all others are one line, for which a legend has room
        frequent = set(names[np.argsort(-counts, kind="stable")][: MOST_KINDS - 1].tolist()) | {POSITIVE}
        kinds = [kind for kind in kinds if kind in frequent]
    shown = [(kind, records.confidence[records.kind == kind]) for kind in kinds]
    if len(kinds) < len(names):
        rest = ~np.isin(records.kind, kinds)
        shown.append((f"{len(names) - len(kinds)} other kinds", records.confidence[rest]))
    figure, axes = new_figure()
    for i, (kind, values) in enumerate(shown):
        color, named = PALETTE[i % len(PALETTE)], label(f"{kind} ({len(values)})")
        share = np.full(len(values), 1 / len(values))
        if kind == POSITIVE:
            axes.hist(values, bins, weights=share, color=color, alpha=0.3, label=named)
        else:
            axes.hist(values, bins, weights=share, color=color, histtype="step", lw=2, label=named)
    if threshold is not None:
        axes.axvline(threshold, color=GREY, ls="--", lw=1.2, label=f"threshold {threshold:.3f}")
    axes.set(xlabel="Confidence", ylabel="Share of the kind")
    axes.set_title("Confidence of positives and negatives", loc="left")
    key(figure)
    save(figure, path)
