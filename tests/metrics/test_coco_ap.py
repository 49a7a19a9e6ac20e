"""Facts about average precision with COCO's recall."""

from __future__ import annotations

import numpy as np
import pytest

from earsight.metrics import average_precision, coco_ap
from earsight.metrics.base import Records
from earsight.protocols import get

EXACT, OFFICIAL = get("exact"), get("official")


def test_toy_value_in_every_protocol(toy: Records) -> None:
    # Hits at 0.9, 0.8 and 0.4 of four positives: 1/4 (1 + 1 + 3/6).
    for name in ("exact", "official", "paper"):
        assert coco_ap.compute(toy, get(name))["ap_coco"] == pytest.approx(0.625, abs=1e-12)


def test_a_positive_found_in_the_wrong_place_is_missed(make) -> None:  # type: ignore[no-untyped-def]
    records = make(["positive", "positive"], [0.9, 0.1], [1, 0])
    precision, recall, thresholds = coco_ap.curve(records, EXACT)
    assert precision.tolist() == [1.0, 0.5]
    assert recall.tolist() == [0.5, 0.5]
    assert thresholds.tolist() == [0.9, 0.1]
    assert coco_ap.compute(records, EXACT)["ap_coco"] == 0.5
    assert average_precision.compute(records, EXACT)["ap"] == 0.75


def test_perfect_and_worst(make) -> None:  # type: ignore[no-untyped-def]
    kinds = ["positive", "positive", "easy"]
    assert coco_ap.compute(make(kinds, [0.9, 0.8, 0.1], [1, 1, np.nan]), EXACT)["ap_coco"] == 1
    assert coco_ap.compute(make(kinds, [0.1, 0.2, 0.9], [0, 0, np.nan]), EXACT)["ap_coco"] == 0


def test_undefined_without_positives(make) -> None:  # type: ignore[no-untyped-def]
    assert np.isnan(coco_ap.compute(make(["easy"], [0.5], [np.nan]), EXACT)["ap_coco"])
