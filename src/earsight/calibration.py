"""Thresholds chosen on a validation list: when a source is called visible, and which pixels are called sounding."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from earsight.config import need
from earsight.errors import UsageError
from earsight.metrics.base import Records


@dataclass(frozen=True)
class Calibration:
    """A confidence from which on a source is called visible, and what that costs on the records it was chosen on.

    Args:
        threshold: claims are made at confidence >= threshold.
        false_alarm: share of negatives that are accepted.
        recall: share of positives that are accepted.
        negatives: how many negatives there were.
    """

    threshold: float
    false_alarm: float
    recall: float
    negatives: int


_CLIPS = {"positives": "clips with a visible source", "negatives": "clips without a visible source"}


def missing(records: Records) -> Literal["", "positives", "negatives"]:
    """Which of the two kinds that calibrating needs these records lack: "" for neither."""
    if not records.positives.any():
        return "positives"
    return "negatives" if records.positives.all() else ""


def calibrate(records: Records, false_alarm: float = 0.1) -> Calibration:
    """The smallest observed confidence that accepts at most a share of `false_alarm` of the negatives."""
    need(0 <= false_alarm <= 1, "a false-alarm rate between 0 and 1", false_alarm)
    positive = np.sort(records.confidence[records.positives])
    negative = np.sort(records.confidence[~records.positives])
    lacks = missing(records)
    if lacks:
        raise UsageError(
            f"Expected positives and negatives to calibrate on, but got {len(positive)} positives and "
            f"{len(negative)} negatives. Use a split that holds {_CLIPS[lacks]}."
        )
    seen = np.unique(records.confidence)
    candidates = np.append(seen, np.nextafter(seen[-1], np.inf))
    rates = (len(negative) - np.searchsorted(negative, candidates, side="left")) / len(negative)
    threshold = float(candidates[rates <= false_alarm][0])
    return Calibration(
        threshold, float(np.mean(negative >= threshold)), float(np.mean(positive >= threshold)), len(negative)
    )


def universal_level(records: Records, quartile: float = 0.75) -> float:
    """The pixel threshold that suits all clips: the third quartile of the highest score, per kind of negative.

    The highest of the kinds' levels counts, so that no kind is let through more than the others. The records must come
    from the protocol `universal`, at any level, and not from a list that is tested on.
    """
    kinds = sorted(set(records.kind[~records.positives].tolist()))
    if not kinds:
        raise UsageError(
            "Expected negatives to estimate a universal level on, but got none. Use a split that holds clips without a "
            "visible source."
        )
    return max(float(np.quantile(records.confidence[records.kind == kind], quartile)) for kind in kinds)
