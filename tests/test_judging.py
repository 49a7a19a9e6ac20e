"""Scores, masks and confidences in numpy: those that torch's interpolation gives for the same maps."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch.nn.functional import interpolate

from earsight import protocols
from earsight.errors import DataError, UsageError
from earsight.judging import Found, judged
from earsight.masking import predict
from earsight.types import Maps

BOUNDS = (-1.0, 1.0)


def maps(seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).uniform(-1, 1, (3, 7, 7)).astype(np.float32)


@pytest.mark.parametrize(
    "name",
    ["exact", "official", "paper", "exact:map=native", "exact:confidence=native", "exact:confidence=peak",
     "exact:threshold=absolute,level=0.6", "exact:upsample=bilinear"],
)  # fmt: skip
@pytest.mark.parametrize("size", [None, (7, 7), (50, 90)])
def test_answers_are_those_of_torch(name: str, size: tuple[int, int] | None) -> None:
    protocol = protocols.get(name)
    dense, native, own = maps(), np.maximum(maps(), 0.0), np.array([0.1, 0.2, 0.3], np.float32)
    got = judged(Found(dense, native, BOUNDS, (0.0, 1.0), own), protocol, size)
    raw, (low, high) = (native, (0.0, 1.0)) if protocol.map == "native" else (dense, BOUNDS)

    def by_torch(height: int, width: int) -> np.ndarray:
        given = torch.from_numpy(raw)[:, None]
        large = interpolate(given, (height, width), mode=protocol.upsample, align_corners=protocol.align_corners)
        return (large[:, 0].numpy() - low) / (high - low)

    wanted, square = by_torch(*(size or (224, 224))), by_torch(224, 224)
    np.testing.assert_allclose(got.score, wanted, atol=1e-5)
    flat = wanted.reshape(3, -1)
    at = np.sort(flat)[:, [int(flat.shape[1] * protocol.level)]]
    at = np.float32(protocol.level) if protocol.threshold == "absolute" else at
    mask = flat > at if protocol.strict else flat >= at
    # A pixel that equals the threshold may fall on either side.
    assert (got.mask.reshape(3, -1) != mask).mean() < 1e-3
    top = np.sort(square.reshape(3, -1))[:, -(224**2 // 4) :]
    highest = (raw.max((1, 2)) - low) / (high - low)
    sure = {"max": highest, "peak": top[:, -1], "top_quarter_mean": top.mean(1), "native": own}
    np.testing.assert_allclose(got.confidence, sure[protocol.confidence], atol=1e-5)


def test_maps_of_torch_are_judged_alike() -> None:
    dense, native = maps(), np.maximum(maps(), 0.0)
    tensors = Maps(*map(torch.from_numpy, (native, dense)), BOUNDS, native_bounds=(0.0, 1.0))
    for protocol in (protocols.get("official"), protocols.get("exact:map=native")):
        got, wanted = predict(tensors, protocol), judged(Found(dense, native, BOUNDS, (0.0, 1.0)), protocol)
        for one, other in zip((got.score, got.mask, got.confidence), vars(wanted).values(), strict=True):
            assert np.array_equal(one.numpy(), other)


def test_each_answer_is_that_of_all() -> None:
    found = Found(maps(), maps(), BOUNDS, BOUNDS)
    every = judged(found, protocols.get("official"))
    for i in range(len(found)):
        one = judged(found.one(i), protocols.get("official"))
        assert np.array_equal(one.score[0], every.score[i])
        assert np.array_equal(one.mask[0], every.mask[i])
        assert one.confidence[0] == every.confidence[i]


def test_maps_without_bounds_stay_as_they_are() -> None:
    dense = 30 * maps()
    assert np.array_equal(judged(Found(dense, dense), protocols.get("exact"), (7, 7)).score, dense)


def test_broken_maps_and_missing_confidences_are_refused() -> None:
    broken = maps()
    broken[1, 2, 3] = np.nan
    with pytest.raises(DataError, match=r"Expected finite maps, but got NaN or infinity in 1 of 3 maps \(first at 1\)"):
        judged(Found(broken, broken), protocols.get("exact"))
    with pytest.raises(UsageError, match="Expected a method with a confidence of its own, but got maps without one"):
        judged(Found(maps(), maps()), protocols.get("exact:confidence=native"))
