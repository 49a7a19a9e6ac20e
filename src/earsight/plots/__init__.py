"""Plots of an evaluation or a training run, as PNG. matplotlib is imported when the first one is drawn."""

from __future__ import annotations

from earsight.plots.confidence import confidence_histogram, f1_curve, pr_curve
from earsight.plots.figure import GREY, PALETTE, Target
from earsight.plots.overlays import Tile, overlay_grid, overlay_jpeg
from earsight.plots.sweeps import ap_against_iou, loc_acc_against_size
from earsight.plots.training import training_curve

__all__ = [
    "GREY",
    "PALETTE",
    "Target",
    "Tile",
    "ap_against_iou",
    "confidence_histogram",
    "f1_curve",
    "loc_acc_against_size",
    "overlay_grid",
    "overlay_jpeg",
    "pr_curve",
    "training_curve",
]
