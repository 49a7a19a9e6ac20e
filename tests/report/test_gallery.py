"""Which clips a report shows."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from earsight.config import Inputs
from earsight.data.clips import open_set
from earsight.evaluation import Evaluation
from earsight.methods.base import Method
from earsight.metrics.base import Records
from earsight.protocols import get
from earsight.report.gallery import NEUTRAL, choices, groups
from earsight.scoring import score
from earsight.types import Maps


def evaluation(kinds: list[str], areas: list[float], ciou: list[float] | None = None) -> Evaluation:
    n = len(kinds)
    positive = np.array(kinds) == "positive"
    records = Records(
        np.array([f"clip{i}" for i in range(n)]),
        np.array(kinds),
        np.array(["dog"] * n),
        np.array(areas),
        np.linspace(0, 1, n),
        np.where(positive, 0.5 if ciou is None else np.array(ciou), np.nan),
    )
    return Evaluation("set:test", "abc", get("exact"), "real", records, {}, 0.0, 1.0)


def test_positives_go_from_small_to_large_and_every_kind_of_negative_is_there() -> None:
    kinds = ["positive"] * 5 + ["easy"] * 3 + ["hard"]
    chosen = choices(evaluation(kinds, [50, 10, 40, 20, 30, 0, 0, 0, 0]), count=3)
    assert chosen[NEUTRAL] == [1, 4, 0, 5, 7, 8]


def test_a_set_without_positives_shows_its_negatives() -> None:
    assert choices(evaluation(["easy", "easy"], [0, 0]))[NEUTRAL] == [0, 1]


def test_best_and_worst_go_by_overlap_and_negatives_by_confidence() -> None:
    kinds = ["positive"] * 5 + ["easy"] * 3
    found = choices(evaluation(kinds, [9.0] * 8, [0.3, 0.9, 0.1, 0.5, 0.7, 0, 0, 0]), count=2)
    assert list(found) == ["A few of each kind", "Best", "Worst", "Most confident negatives"]
    assert (found["Best"], found["Worst"], found["Most confident negatives"]) == ([1, 4], [2, 0], [7, 6])


def test_no_clip_is_both_among_the_best_and_the_worst() -> None:
    found = choices(evaluation(["positive"] * 5, [9.0] * 5, [0.3, 0.9, 0.1, 0.5, 0.7]))
    assert (found["Best"], found["Worst"]) == ([1, 4], [2, 0])
    assert list(choices(evaluation(["positive", "easy"], [9.0, 0]))) == [
        "A few of each kind",
        "Most confident negatives",
    ]
    assert list(choices(evaluation(["easy"], [0]))) == ["A few of each kind", "Most confident negatives"]


def test_tiles_tell_what_was_heard_and_answered() -> None:
    toys = open_set("toybox:extended", limit=6)
    rows = list(toys.rows)
    center = np.exp(-(np.hypot(*np.mgrid[-1:1:7j, -1:1:7j]) ** 2)).astype(np.float32)
    dense = torch.from_numpy(np.stack([center * (i + 1) / 6 for i in range(6)]))
    maps = Maps(dense, dense, (0.0, 1.0))
    records = score(maps, rows, [get("exact")])[0]
    done = replace(Evaluation.of(records, toys, get("exact")), maps=maps.arrays())
    model = Method.__new__(Method)
    torch.nn.Module.__init__(model)
    model.inputs = Inputs(rate=8000, seconds=1.0)
    found = groups(done, toys, model, threshold=0.5)
    assert list(found) == list(choices(done))
    for title, some in found.items():
        for i, tile in zip(choices(done)[title], some, strict=True):
            assert tile.id == rows[i].id
            assert tile.boxes == rows[i].boxes
            assert (tile.mask is None) == (records.confidence[i] < 0.5)
            verdict = "visible" if records.confidence[i] >= 0.5 else "no visible source"
            assert tile.caption.startswith(f"hears {rows[i].label or 'the room'}: {verdict}\n")
            assert f"confidence {records.confidence[i]:.2f}" in tile.caption
            assert tile.score.shape == tile.picture.shape[1:]


def test_an_evaluation_without_maps_cannot_be_drawn() -> None:
    with pytest.raises(ValueError, match="made without keep_maps=True"):
        groups(evaluation(["positive"], [5]), None, Method.__new__(Method))  # type: ignore[arg-type]


def test_tiles_show_the_map_that_was_thresholded() -> None:
    toys = open_set("toybox:extended", limit=2)
    dense = torch.rand(2, 7, 7, generator=torch.Generator().manual_seed(0))
    maps = Maps(1 - dense, dense, (0.0, 1.0), native_bounds=(0.0, 1.0))
    model = Method.__new__(Method)
    torch.nn.Module.__init__(model)
    model.inputs = Inputs(rate=8000, seconds=1.0)
    drawn = []
    for how in ("exact:map=native", "exact"):
        (records,) = score(maps, list(toys.rows), [get(how)])
        done = replace(Evaluation.of(records, toys, get(how)), maps=maps.arrays())
        drawn.append(groups(done, toys, model)["A few of each kind"][0])
    native, plain = drawn
    assert native.mask is not None
    assert plain.mask is not None
    assert (native.mask ^ plain.mask).mean() > 0.99  # one keeps the half that the other leaves
