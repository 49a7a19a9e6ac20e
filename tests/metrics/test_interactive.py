"""Facts about pictures that are seen with several sounds."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from earsight.metrics import interactive, loc_acc
from earsight.metrics.base import Records
from earsight.protocols import get

EXACT = get("exact")


def some(ids: list[str], ciou: list[float], kinds: list[str] | None = None) -> Records:
    n = len(ids)
    kind = np.array(kinds or ["positive"] * n)
    return Records(np.array(ids), kind, np.array([""] * n), np.zeros(n), np.zeros(n), np.array(ciou))


def test_a_picture_counts_when_all_of_its_sources_are_found() -> None:
    records = some(["a+1", "a+2", "b+1", "b+2", "b+3"], [0.5, 0.9, 0.9, 0.9, 0.49])
    assert interactive.compute(records, EXACT)["iiou"] == 0.5
    assert interactive.compute(records, get("paper"))["iiou"] == 0.0  # where 0.5 must be exceeded
    assert interactive.units(records).tolist() == [0.5, 0.49]
    assert interactive.compute(records, EXACT)["iauc"] == loc_acc.auc(np.array([0.5, 0.49]))


def test_pictures_with_one_sound_and_negatives_play_no_part() -> None:
    pairs = some(["a+1", "a+2"], [0.8, 0.71])
    more = some(
        ["a+1", "a+2", "b+1", "c", "a+3", "b+2"],
        [0.8, 0.71, 0.0, 0.0, np.nan, np.nan],
        ["positive"] * 4 + ["offscreen"] * 2,
    )
    assert (
        interactive.compute(pairs, EXACT)
        == interactive.compute(more, EXACT)
        == {"iiou": 1.0, "iauc": pytest.approx(0.725)}
    )


def test_a_clip_that_is_drawn_twice_is_one_sound() -> None:
    records = some(["a+1", "b+1", "b+2"], [0.8, 0.7, 0.6])
    assert np.isnan(interactive.compute(records.drawn(np.array([0, 0, 1])), EXACT)["iiou"])
    assert interactive.compute(records.drawn(np.array([1, 2, 2])), EXACT)["iiou"] == 1.0


def test_perfect_worst_and_undefined() -> None:
    records = some(["a+1", "a+2"], [1.0, 1.0])
    assert interactive.compute(records, EXACT) == {"iiou": 1.0, "iauc": 1.0}
    assert interactive.compute(replace(records, ciou=np.array([1.0, 0.0])), EXACT)["iiou"] == 0.0
    for records in (some([], []), some(["a", "b"], [1.0, 1.0])):
        assert all(np.isnan(value) for value in interactive.compute(records, EXACT).values())


def test_a_map_that_never_moves_finds_at_most_one_of_two_sources_that_are_apart() -> None:
    random = np.random.default_rng(0)
    ids = [f"{i // 2}+{i}" for i in range(200)]
    one_found = np.where(np.arange(200) % 2 == random.integers(2), 1.0, 0.0)
    assert interactive.compute(some(ids, one_found.tolist()), EXACT)["iiou"] == 0.0
