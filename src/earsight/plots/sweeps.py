"""Plots over a choice of the protocol: AP against the IoU that makes a hit, LocAcc against the size of predictions."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from earsight.errors import UsageError
from earsight.metrics import iou_sweep, prediction_size, sizes
from earsight.metrics.base import SIZES, Records
from earsight.plots.figure import GREY, PALETTE, Target, key, label, need_positives, new_figure, save
from earsight.protocols import Protocol


def ap_against_iou(path: Target, records: Mapping[str, Records], protocol: Protocol) -> None:
    """AP over the cIoU from which on a prediction counts as a hit, one line for each named group of records."""
    if not records:
        raise UsageError("Expected records to draw, but got none. Evaluate a set with clips in it.")
    figure, axes = new_figure()
    axes.axvline(protocol.gamma, color=GREY, ls="--", lw=1.2, label=f"protocol: {protocol.gamma:g}")
    for i, (name, some) in enumerate(records.items()):
        need_positives(some)
        thresholds, values = iou_sweep.curve(some, protocol)
        axes.plot(thresholds, 100 * values, "o-", ms=3.5, lw=2, color=PALETTE[i % len(PALETTE)], label=label(name))
    axes.set(xlim=(0, 1), xlabel="cIoU that makes a hit", ylabel="AP (%)")
    axes.set_ylim(0, max(1.0, 1.08 * axes.dataLim.y1))
    axes.set_title("AP against the IoU threshold", loc="left")
    key(figure)
    save(figure, path)


def loc_acc_against_size(path: Target, records: Records, protocol: Protocol) -> None:
    """LocAcc of predictions that keep 10% to 90% of the picture, for all positives and for each size of source."""
    need_positives(records)
    if records.by_size.shape[1] == 0:
        raise UsageError("Expected records measured at every prediction size, but got none. Score with sizes=True.")
    counts = {"all": int(records.positives.sum()), **sizes.counts(records, protocol)}
    figure, axes = new_figure()
    for i, (name, values) in enumerate(prediction_size.curve(records, protocol).items()):
        if not np.isnan(values).all():
            style = {"color": "#222222", "lw": 2.6} if name == "all" else {"color": PALETTE[(i - 1) % 7], "lw": 1.8}
            axes.plot(100 * np.array(SIZES), 100 * values, "o-", ms=3.5, label=f"{name} ({counts[name]})", **style)
    axes.set(xlim=(5, 95), ylim=(0, 103), xlabel="Share of the picture that is predicted (%)", ylabel="LocAcc (%)")
    axes.set_title("LocAcc against prediction size, by source size", loc="left")
    key(figure)
    save(figure, path)
