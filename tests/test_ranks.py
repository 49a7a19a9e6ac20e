"""Facts about order statistics, against plain sorting."""

from __future__ import annotations

import numpy as np
import pytest

from earsight.ranks import Ranked, lowest_kept


@pytest.mark.parametrize("whole", [False, True])
@pytest.mark.parametrize("few", [False, True])
def test_statistics_in_any_order_are_those_of_a_sorted_row(whole: bool, few: bool) -> None:
    random = np.random.default_rng(0)
    flat = (random.integers(0, 5, (4, 101)) if few else random.standard_normal((4, 101))).astype(np.float32)
    before, ordered = flat.copy(), np.sort(flat, axis=1)
    for seed in range(5):
        ranked = Ranked(flat, whole)
        for index in np.random.default_rng(seed).permutation(101)[:12].tolist() * 2:
            np.testing.assert_array_equal(ranked.statistic(index), ordered[:, index])
            assert ranked.top_mean(101 - index).tolist() == pytest.approx(ordered[:, index:].mean(1).tolist(), abs=1e-6)
        each = np.array([0, 3, 50, 100])
        np.testing.assert_array_equal(ranked.statistics(each), ordered[np.arange(4), each])
        np.testing.assert_array_equal(ranked.span, (ordered[:, 0], ordered[:, -1]))
    np.testing.assert_array_equal(flat, before)


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize("scale", [1e-38, 1e-6, 1.0, 1e30])
def test_the_lowest_kept_value_parts_the_row_where_the_stretched_values_part(scale: float, strict: bool) -> None:
    random = np.random.default_rng(0)
    flat = np.sort((random.standard_normal((50, 40)) * scale).astype(np.float32), axis=1)
    low, high = flat[:, 0], flat[:, -1]
    stretched = (flat - low[:, None]) / (high - low)[:, None]
    at = stretched[:, 20:21]
    level = lowest_kept(flat[:, 20], low, high, strict, stretched=False)
    np.testing.assert_array_equal(flat >= level[:, None], stretched > at if strict else stretched >= at)
    level = lowest_kept(np.full(50, 0.5, np.float32), low, high, strict, stretched=True)
    np.testing.assert_array_equal(flat >= level[:, None], stretched > 0.5 if strict else stretched >= 0.5)


def test_nothing_above_the_highest_is_kept_and_everything_from_the_lowest() -> None:
    low, high = np.array([-3.0], np.float32), np.array([5.0], np.float32)
    assert lowest_kept(high, low, high, strict=True, stretched=False).tolist() == [np.inf]
    assert lowest_kept(low, low, high, strict=False, stretched=False).tolist() == [-3.0]
    assert lowest_kept(np.array([1.5], np.float32), low, high, strict=False, stretched=True).tolist() == [np.inf]
