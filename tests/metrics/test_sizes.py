"""Facts about scores by the size of the source."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from earsight.data.truth import truth_map
from earsight.metrics import average_precision, sizes
from earsight.metrics.base import Records
from earsight.protocols import get

EXACT, OFFICIAL = get("exact"), get("official")


def test_the_buckets_are_half_open_at_their_borders(make) -> None:  # type: ignore[no-untyped-def]
    areas = [1, 1023, 1024, 9215.5, 9216, 20735, 20736, 50176]
    records = make(["positive"] * 8, np.zeros(8), np.zeros(8), area=areas)
    expected = ["small", "small", "medium", "medium", "large", "large", "huge", "huge"]
    assert sizes.buckets(records, EXACT).tolist() == expected
    assert sizes.counts(records, EXACT) == {"small": 2, "medium": 2, "large": 2, "huge": 2}


def test_an_empty_map_is_small_and_a_negative_is_in_no_bucket(make) -> None:  # type: ignore[no-untyped-def]
    records = make(["positive", "easy"], [0.5, 0.5], [0, np.nan], area=[0, 0])
    assert sizes.buckets(records, EXACT).tolist() == ["small", ""]


@pytest.mark.parametrize("size", [112, 448, 100])
def test_the_borders_grow_with_the_picture(make, size: int) -> None:  # type: ignore[no-untyped-def]
    shares = np.array([1023.5, 1024.5, 9215.5, 9216.5, 20735.5, 20736.5]) / 224**2
    records = make(["positive"] * 6, np.zeros(6), np.zeros(6), area=shares * size**2)
    expected = ["small", "medium", "medium", "large", "large", "huge"]
    assert sizes.buckets(records, replace(EXACT, size=size)).tolist() == expected


def test_loc_acc_is_that_of_the_bucket_and_ap_has_all_negatives(make) -> None:  # type: ignore[no-untyped-def]
    kinds = ["positive"] * 4 + ["easy", "hard"]
    area = [500, 500, 30000, 30000, 0, 0]
    records = make(kinds, [0.9, 0.2, 0.8, 0.7, 0.5, 0.1], [0.6, 0.6, 0.9, 0.1, np.nan, np.nan], area=area)
    numbers = sizes.compute(records, EXACT)
    assert (numbers["loc_acc/small"], numbers["loc_acc/huge"]) == (1.0, 0.5)
    # Small alone: 0.9 right, 0.5 false alarm, 0.2 right -> 1 * 1/2 + 2/3 * 1/2.
    assert numbers["ap/small"] == pytest.approx(1 / 2 + 1 / 3, abs=1e-12)
    for name, rows in {"small": [0, 1, 4, 5], "huge": [2, 3, 4, 5]}.items():
        for protocol in (EXACT, OFFICIAL):
            alone = average_precision.compute(records.where(np.array(rows)), protocol)["ap"]
            assert sizes.compute(records, protocol)[f"ap/{name}"] == alone


def test_a_bucket_without_positives_is_undefined(make) -> None:  # type: ignore[no-untyped-def]
    numbers = sizes.compute(make(["positive", "easy"], [0.5, 0.4], [1, np.nan], area=[500, 0]), EXACT)
    assert {name for name, value in numbers.items() if not np.isnan(value)} == {"loc_acc/small", "ap/small"}


def test_perfect_and_worst(make) -> None:  # type: ignore[no-untyped-def]
    kinds, area = ["positive"] * 4 + ["easy"], [10, 5000, 15000, 40000, 0]
    perfect = make(kinds, [0.9, 0.8, 0.7, 0.6, 0.1], [1, 1, 1, 1, np.nan], area=area)
    assert set(sizes.compute(perfect, EXACT).values()) == {1.0}
    worst = make(kinds, [0.1, 0.2, 0.3, 0.4, 0.9], [0, 0, 0, 0, np.nan], area=area)
    assert set(sizes.compute(worst, EXACT).values()) == {0.0}


def test_vggss_has_the_sizes_that_the_paper_counts(shared: Path) -> None:
    rows = json.loads((shared / "metadata" / "vggss.json").read_text())
    area = np.array([truth_map(row["bbox"], 224).sum(dtype=np.float64) for row in rows])
    n = len(rows)
    texts = np.array([row["file"] for row in rows]), np.array(["positive"] * n), np.array([""] * n)
    records = Records(*texts, area, np.zeros(n), np.zeros(n))
    assert sizes.counts(records, EXACT) == {"small": 134, "medium": 1796, "large": 1726, "huge": 1502}
    assert int((area == 0).sum()) == 2
