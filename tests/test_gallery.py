"""Which clips a report shows."""

from __future__ import annotations

import numpy as np
import pytest

from earsight.evaluate import Evaluation
from earsight.gallery import choose, tiles
from earsight.methods.base import Method
from earsight.metrics.base import Records
from earsight.protocols import get


def evaluation(kinds: list[str], areas: list[float]) -> Evaluation:
    n = len(kinds)
    positive = np.array(kinds) == "positive"
    records = Records(
        np.array([f"clip{i}" for i in range(n)]),
        np.array(kinds),
        np.array(["dog"] * n),
        np.array(areas),
        np.linspace(0, 1, n),
        np.where(positive, 0.5, np.nan),
    )
    return Evaluation("set:test", "abc", get("exact"), "real", records, {}, 0.0, 1.0)


def test_positives_go_from_small_to_large_and_every_kind_of_negative_is_there() -> None:
    kinds = ["positive"] * 5 + ["easy"] * 3 + ["hard"]
    chosen = choose(evaluation(kinds, [50, 10, 40, 20, 30, 0, 0, 0, 0]), positives=3, each_kind=2)
    assert chosen == [1, 4, 0, 5, 7, 8]


def test_a_set_without_positives_shows_its_negatives() -> None:
    assert choose(evaluation(["easy", "easy"], [0, 0])) == [0, 1]


def test_an_evaluation_without_maps_cannot_be_drawn() -> None:
    with pytest.raises(ValueError, match="made without keep_maps=True"):
        tiles(evaluation(["positive"], [5]), None, Method.__new__(Method))  # type: ignore[arg-type]
