"""What is found of maps where they were made is what numpy finds on a CPU, to the last bit."""

from __future__ import annotations

from dataclasses import fields, replace

import numpy as np
import pytest
import torch
from torch import Tensor

from earsight import looks_there, scoring
from earsight.data.truth import truth_map
from earsight.errors import DataError
from earsight.looks import Truth
from earsight.masking import predict
from earsight.metrics.base import Records
from earsight.protocols import PROTOCOLS, Protocol, at_level, get
from earsight.resampling import taps, upsampled
from earsight.scoring import score
from earsight.types import Maps, Row

HERE = scoring._looks
ALL = [at_level(get(name), 0.6) for name in sorted(PROTOCOLS)]
DEVICES = [
    "cpu",
    pytest.param(
        "cuda",
        marks=[pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device here")],
    ),
]


@pytest.fixture(params=DEVICES)
def there(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> torch.device:
    """A device on which maps are looked at as on a GPU."""
    monkeypatch.setattr(scoring, "_looks", looks_there.looks)
    return torch.device(request.param)


def some_rows(count: int) -> list[Row]:
    """Boxes of all sizes, none to four a clip, with all kinds of consensus, and negatives."""
    random = np.random.default_rng(0)
    rows = []
    for i in range(count):
        corners, sizes = random.uniform(-0.1, 0.7, (i % 5, 2)), random.uniform(-0.01, 0.6, (i % 5, 2))
        boxes = tuple(
            (float(x), float(y), float(x + w), float(y + h)) for (x, y), (w, h) in zip(corners, sizes, strict=True)
        )
        kind = "easy" if i % 7 == 6 else "positive"
        rows.append(Row(f"c{i}", kind=kind, boxes=boxes if kind == "positive" else (), consensus=1 + i % 3))
    return rows


def some_maps(kind: str, count: int, side: int) -> Tensor:
    random = np.random.default_rng(side)
    maps = {
        "noise": random.uniform(-1, 1, (count, side, side)),
        "plateaus": np.maximum(random.uniform(-1, 0.3, (count, side, side)), 0),
        "steps": random.integers(-1, 2, (count, side, side)) / 2,
        "one value": np.full((count, side, side), 0.25),
        "tiny": random.uniform(-1, 1, (count, side, side)) * 1e-30,
    }
    return torch.from_numpy(maps[kind].astype(np.float32))


def assert_equal(found: list[Records], wanted: list[Records]) -> None:
    for one, other in zip(found, wanted, strict=True):
        for column in fields(Records):
            np.testing.assert_array_equal(getattr(one, column.name), getattr(other, column.name), column.name)


@pytest.mark.parametrize("kind", ["noise", "plateaus", "steps", "one value", "tiny"])
@pytest.mark.parametrize("side", [1, 3, 7, 14, 48, 60])
def test_records_of_every_protocol_are_those_of_numpy(
    kind: str, side: int, there: torch.device, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows, values = some_rows(20), some_maps(kind, 20, side)
    protocols = [replace(one, size=48) for one in ALL]
    protocols += [replace(get(name), size=48, upsample="bilinear") for name in ("exact", "official")]
    for bounds, sizes in (((-1.0, 1.0), False), ((-33.333, 33.333), True), (None, True)):
        maps = Maps(values, values, bounds, torch.linspace(0, 1, 20))
        found = score(maps.each(lambda x: x.to(there)), rows, protocols, sizes)
        with monkeypatch.context() as back:
            back.setattr(scoring, "_looks", HERE)
            wanted = score(maps, rows, protocols, sizes)
        assert_equal(found, wanted)


@pytest.mark.parametrize("most", [1, 3])
def test_boxes_of_one_annotator_are_counted_without_weights(most: int, there: torch.device) -> None:
    values = some_maps("noise", 20, 7)
    rows = [replace(row, boxes=row.boxes[:most], consensus=1) for row in some_rows(20)]
    found = score(Maps(values, values).each(lambda x: x.to(there)), rows, ALL, sizes=True)
    for one, protocol in zip(found, ALL, strict=True):
        masks = predict(Maps(values, values), protocol).mask.numpy() if protocol.threshold != "adaptive" else None
        for i, row in enumerate(rows):
            if masks is not None and row.positive:
                truth = truth_map(row.boxes, 224) > 0
                union = (masks[i] | truth).sum()
                assert one.ciou[i] == (masks[i] & truth).sum() / union


def test_maps_of_the_usual_size_are_enlarged_to_the_same_bits(there: torch.device) -> None:
    for side in (7, 14, 16, 28):
        maps = some_maps("noise", 3, side)
        for name in ("exact", "official"):
            found = looks_there.enlarged(maps.to(there), get(name)).cpu().numpy()
            np.testing.assert_array_equal(found, upsampled(maps.numpy(), 224, 224, get(name)))


def test_maps_need_not_be_square(there: torch.device) -> None:
    maps = torch.rand(2, 3, 5, generator=torch.Generator().manual_seed(0))
    protocol = Protocol("wide", size=12)
    np.testing.assert_array_equal(
        looks_there.enlarged(maps.to(there), protocol).cpu().numpy(), upsampled(maps.numpy(), 12, 12, protocol)
    )


def test_one_map_for_all_clips_is_looked_at_there_too(there: torch.device) -> None:
    rows, one = some_rows(9), some_maps("noise", 1, 7).to(there)
    shared, copied = one.expand(9, -1, -1), one.repeat(9, 1, 1)
    bounds = (-1.0, 1.0)
    assert_equal(score(Maps(shared, shared, bounds), rows, ALL), score(Maps(copied, copied, bounds), rows, ALL))


def test_few_maps_at_a_time_give_the_same(there: torch.device, monkeypatch: pytest.MonkeyPatch) -> None:
    rows, maps = some_rows(9), some_maps("plateaus", 9, 7).to(there)
    whole = score(Maps(maps, maps), rows, ALL)
    monkeypatch.setattr(looks_there, "PIXELS", 2 * 224**2)
    assert_equal(score(Maps(maps, maps), rows, ALL), whole)


def test_ground_truth_is_drawn_as_on_a_cpu(there: torch.device) -> None:
    rows = some_rows(20)
    found = looks_there.drawn([Truth.of(row, 31) for row in rows], 31, there).cpu().numpy()
    for one, row in zip(found, rows, strict=True):
        np.testing.assert_array_equal(one, truth_map(row.boxes if row.positive else (), 31, row.consensus))


@pytest.mark.parametrize("bad", [torch.nan, torch.inf, -torch.inf])
def test_maps_that_are_no_numbers_are_refused(there: torch.device, bad: float) -> None:
    maps = some_maps("noise", 3, 7).to(there)
    maps[1, 2, 3] = bad
    with pytest.raises(DataError, match=r"finite maps, but got NaN or infinity in 1 of 3 maps \(first at 1\)"):
        score(Maps(maps, maps), some_rows(3), [get("official")])


def test_taps_name_old_values_in_order_and_share_one() -> None:
    for count, to in ((7, 224), (1, 5), (14, 15), (9, 9)):
        places, weights = taps(count, to, "bicubic", False)
        assert (np.diff(places) == 1).all()
        assert places.min() >= 0
        assert places.max() < count
        assert weights.sum(1).tolist() == pytest.approx([1] * to, abs=1e-6)
