"""Facts about order statistics and thresholds, against plain sorting and the definitions."""

from __future__ import annotations

import numpy as np
import pytest

from earsight.protocols import Protocol
from earsight.thresholds import lowest_kept, needed, rank, thresholds
from earsight.types import F32, Mask


def beside(flat: F32, index: int) -> tuple[F32, F32]:
    """The scores before and behind an order statistic of each row, infinite where there is none."""
    edges = np.pad(np.sort(flat, axis=1), [(0, 0), (1, 1)], constant_values=[(0, 0), (-np.inf, np.inf)])
    return edges[:, index], edges[:, index + 2]


@pytest.mark.parametrize("many", [False, True])
@pytest.mark.parametrize("few", [False, True])
def test_statistics_in_any_order_are_those_of_a_sorted_row(many: bool, few: bool) -> None:
    random = np.random.default_rng(0)
    flat = (random.integers(0, 5, (4, 101)) if few else random.standard_normal((4, 101))).astype(np.float32)
    before, ordered = flat.copy(), np.sort(flat, axis=1)
    for seed in range(20):
        cuts = np.random.default_rng(seed).permutation(101)[: 12 if many else 3].tolist()
        ranked = rank(flat, cuts=cuts, top=25)
        for index in cuts:
            around = ranked.around[index]
            np.testing.assert_array_equal(around.at, ordered[:, index])
            np.testing.assert_array_equal((around.below, around.above), beside(flat, index))
            np.testing.assert_array_equal(ranked.count(around.at), (flat >= around.at[:, None]).sum(1))
        assert ranked.top_mean.tolist() == pytest.approx(ordered[:, -25:].mean(1).tolist(), abs=1e-6)
        each = np.array([0, 3, 50, 100])
        np.testing.assert_array_equal(ranked.at(each), ordered[np.arange(4), each])
        np.testing.assert_array_equal((ranked.lowest, ranked.highest), (ordered[:, 0], ordered[:, -1]))
    np.testing.assert_array_equal(flat, before)


@pytest.mark.parametrize("kind", ["smooth", "noise", "periodic", "ties", "one value", "ascending", "outliers"])
@pytest.mark.parametrize("n", [1, 2, 16, 1000, 12_345])
def test_statistics_of_long_rows_of_every_kind(kind: str, n: int) -> None:
    random, x = np.random.default_rng(n), np.arange(n)
    rows = {
        "smooth": np.sin(x / 300 + random.uniform(0, 9, (5, 1))),
        "noise": random.standard_normal((5, n)),
        "periodic": np.where(x % 17 == 0, -1.0, random.standard_normal((5, n))),
        "ties": random.integers(0, 3, (5, n)),
        "one value": np.full((5, n), 0.25),
        "ascending": x * random.uniform(1, 2, (5, 1)),
        "outliers": random.standard_normal((5, n)) ** 21,
    }
    flat = rows[kind].astype(np.float32)
    ordered = np.sort(flat, axis=1)
    for index in sorted({0, 1, n // 20, n // 2, n - n // 4, n - 2, n - 1} & set(range(n))):
        ranked = rank(flat, cuts=[index], top=n - index)
        around = ranked.around[index]
        np.testing.assert_array_equal(around.at, ordered[:, index])
        np.testing.assert_array_equal((around.below, around.above), beside(flat, index))
        expected = ordered[:, index:].mean(axis=1, dtype=np.float64)
        np.testing.assert_allclose(ranked.top_mean, expected, rtol=1e-6, atol=1e-9 * float(np.abs(flat).max()))
        assert ranked.at_highest.tolist() == (flat == flat.max(axis=1)[:, None]).sum(1).tolist()


@pytest.mark.parametrize("cuts", [[6000], [0, 12_344], list(range(0, 12_000, 1000))])
def test_long_rows_with_what_is_no_number_say_so(cuts: list[int]) -> None:
    flat = np.random.default_rng(0).standard_normal((4, 12_345)).astype(np.float32)
    flat[1, 500], flat[2, ::17], flat[3] = np.nan, np.nan, np.nan
    ranked = rank(flat, cuts=cuts, top=1000)
    assert np.isfinite((ranked.lowest, ranked.highest)).all(axis=0).tolist() == [True, False, False, False]
    np.testing.assert_array_equal(ranked.around[cuts[0]].at[0], np.sort(flat[0])[cuts[0]])


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize("scale", [1e-38, 1e-6, 1.0, 1e30])
def test_the_lowest_kept_score_parts_the_map_where_the_stretched_values_part(scale: float, strict: bool) -> None:
    random = np.random.default_rng(0)
    for score in (random.standard_normal((20, 40)) * scale).astype(np.float32):
        stretched = (score - score.min()) / (score.max() - score.min())
        for threshold, at in ((score[7], stretched[7]), (np.float32(0.5), np.float32(0.5))):
            level = lowest_kept(score, threshold, strict, stretched=bool(at == threshold))
            np.testing.assert_array_equal(score >= level, stretched > at if strict else stretched >= at)


def test_nothing_above_the_highest_is_kept_and_everything_from_the_lowest() -> None:
    score = np.array([5.0, -3.0, 1.0], np.float32)
    assert lowest_kept(score, score[0], strict=True, stretched=False) == np.inf
    assert lowest_kept(score, score[1], strict=False, stretched=False) == -3
    assert lowest_kept(score, np.float32(1.5), strict=False, stretched=True) == np.inf


@pytest.mark.parametrize("shared", [False, True])
def test_scores_that_reach_a_level_are_counted(shared: bool) -> None:
    flat = np.random.default_rng(0).standard_normal((6, 300)).astype(np.float32)
    flat[3] = flat[3].round(1)
    flat = flat[3:4] if shared else flat
    ordered = np.sort(flat, axis=1)
    ranked = rank(flat, cuts=[150, 10, 225, 299, 0])
    for index in (150, 10, 225, 299, 0):
        at = ordered[:, index]
        for level in (at, np.nextafter(at, np.float32(np.inf))):
            np.testing.assert_array_equal(ranked.count(level), (flat >= level[:, None]).sum(1))
    mixed = np.broadcast_to(ordered, (6, 300))[np.arange(6), [0, 299, 100, 200, 150, 5]]
    np.testing.assert_array_equal(ranked.count(mixed), (flat >= mixed[:, None]).sum(1))


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("cut", [False, True])
def test_what_is_no_number_shows_at_an_end(bad: float, cut: bool) -> None:
    flat = np.arange(12, dtype=np.float32).reshape(2, 6)
    flat[1, 2] = bad
    ranked = rank(flat, cuts=[3] if cut else [])
    low, high = ranked.lowest, ranked.highest
    assert np.isfinite([low[0], high[0]]).all()
    assert not np.isfinite([low[1], high[1]]).all()


def test_the_highest_value_and_how_often_it_is_there() -> None:
    flat = np.array([[1, 5, 2, 5, 0, 3], [4, 4, 4, 4, 4, 4], [0, 1, 2, 3, 4, 5], [7, 7, 7, 7, 1, 0]], np.float32)
    for cuts, top in (([], 0), ([3], 0), ([5], 0), ([3], 2), ([0, 1, 2, 3, 4, 5], 1)):
        ranked = rank(flat.copy(), cuts=cuts, top=top)
        assert ranked.highest.tolist() == [5, 4, 5, 7], cuts
        assert ranked.at_highest.tolist() == [2, 6, 1, 4], cuts


def as_defined(flat: F32, protocol: Protocol) -> Mask:
    """The mask (B, n) of scores (B, n), each step of its definition written down."""
    if protocol.scaling == "minmax":
        low, high = flat.min(1, keepdims=True), flat.max(1, keepdims=True)
        flat = np.where(high > low, (flat - low) / np.where(high > low, high - low, 1), flat)
    at = np.full_like(flat[:, :1], protocol.level)
    if protocol.threshold == "top_half":
        at = np.sort(flat, axis=1)[:, [int(flat.shape[1] * protocol.level)]]
    return flat > at if protocol.strict else flat >= at


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize("scaling", ["bounds", "minmax"])
@pytest.mark.parametrize(("threshold", "level"), [("top_half", 0.5), ("top_half", 0.9), ("absolute", 0.5)])
@pytest.mark.parametrize("kind", ["normal", "tiny values", "few values", "one value", "far from zero"])
def test_one_threshold_says_what_the_definition_says(
    kind: str, threshold: str, level: float, scaling: str, strict: bool
) -> None:
    random = np.random.default_rng(0)
    normal = random.standard_normal((6, 900)).astype(np.float32)
    flat = {
        "normal": normal,
        "tiny values": normal * np.float32(1e-30),
        "few values": (random.integers(0, 4, (6, 900)) / 3).astype(np.float32),
        "one value": np.full((6, 900), 0.3, np.float32),
        "far from zero": np.float32(1e6) + normal.round(1),
    }[kind]
    protocol = Protocol("t", threshold=threshold, level=level, scaling=scaling, strict=strict)  # type: ignore[arg-type]
    got = flat >= thresholds(rank(flat, cuts=needed([protocol], 900)[0]), protocol)[:, None]
    np.testing.assert_array_equal(got, as_defined(flat, protocol))


def test_stretching_makes_neighbours_equal_and_the_threshold_knows() -> None:
    near = np.nextafter(np.float32(0.0), np.float32(1))
    flat = np.array([[-1.0, -near, 0.0, near, 1.0, 2.0]], np.float32)  # (x + 1) / 3 is the same for the middle three
    protocol = Protocol("t", threshold="top_half", scaling="minmax")
    mask = flat >= thresholds(rank(flat, cuts=[3]), protocol)[:, None]
    assert mask.tolist() == [[False, True, True, True, True, True]]
