"""Facts about masks and confidences, against plain versions of the published arithmetic."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from earsight.errors import DataError, UsageError
from earsight.predict import predict
from earsight.protocols import PROTOCOLS, Protocol, get
from earsight.resampling import scaled
from earsight.types import MapArrays, Maps

TOP_HALF = sorted(name for name, protocol in PROTOCOLS.items() if protocol.threshold == "top_half")


def some_maps(count: int = 5, side: int = 7, bounds: tuple[float, float] | None = (-33.3, 33.3)) -> Maps:
    dense = torch.randn(count, side, side, generator=torch.Generator().manual_seed(3)) * 8
    return Maps(dense, dense, bounds, torch.arange(count).float())


@pytest.mark.parametrize(("level", "kept"), [(0.3, 7), (0.5, 5), (0.7, 3)])
def test_ten_distinct_pixels_toy(level: float, kept: int) -> None:
    dense = torch.randperm(10, generator=torch.Generator().manual_seed(0)).float().view(1, 2, 5)
    protocol = Protocol("tiny", level=level)
    assert predict(Maps(dense, dense), protocol, (2, 5)).mask.sum() == kept


@pytest.mark.parametrize("name", TOP_HALF)
def test_top_half_keeps_half_of_the_picture(name: str) -> None:
    protocol = get(name)
    mask = predict(some_maps(), protocol).mask
    assert mask.shape == (5, 224, 224)
    expected = 25087 if protocol.strict else 25088
    assert protocol.kept == expected
    assert mask.sum((1, 2)).tolist() == pytest.approx([expected] * 5, abs=3)  # rounding may make ties


def test_ties_at_the_threshold_add_pixels_unless_strict() -> None:
    dense = torch.tensor([[[0.0, 1.0], [1.0, 1.0]]])
    assert predict(Maps(dense, dense), Protocol("t", size=2)).mask.sum() == 3
    assert predict(Maps(dense, dense), Protocol("t", size=2, strict=True)).mask.sum() == 0


def test_absolute_threshold_compares_the_scaled_score() -> None:
    dense = torch.tensor([[[-1.0, 0.0], [0.2, 1.0]]])
    protocol = Protocol("t", size=2, threshold="absolute", level=0.5)
    maps = Maps(dense, dense, (-1.0, 1.0))
    assert predict(maps, protocol).mask.tolist() == [[[False, True], [True, True]]]
    assert predict(maps, replace(protocol, strict=True)).mask.tolist() == [[[False, False], [True, True]]]


def test_minmax_scaling_stretches_each_map_for_the_threshold_only() -> None:
    dense = torch.tensor([[[0.5, 0.6], [0.7, 0.8]], [[0.1, 0.1], [0.1, 0.1]]])
    protocol = Protocol("t", size=2, threshold="absolute", level=0.6, scaling="minmax")
    out = predict(Maps(dense, dense, (0.0, 1.0)), protocol)
    assert out.mask[0].tolist() == [[False, False], [True, True]]
    assert not out.mask[1].any()  # a flat map stays as it is
    np.testing.assert_array_equal(out.score, dense.numpy())


def test_official_equals_a_plain_version_of_the_published_arithmetic() -> None:
    maps, tau = some_maps(bounds=(-1 / 0.03, 1 / 0.03)), 0.03
    out = predict(maps, get("official"))
    big = F.interpolate(maps.dense[:, None], size=(224, 224), mode="bicubic", align_corners=True)[:, 0].numpy()
    for i in range(5):
        score = (big[i] + 1 / tau) / (2 / tau)
        stretched = (score - score.min()) / (score.max() - score.min())
        threshold = np.sort(stretched.ravel())[int(50176 * 0.5)]
        np.testing.assert_array_equal(out.mask[i], stretched >= threshold)
        assert out.confidence[i].item() == pytest.approx(np.sort(score.ravel())[-12544:].mean(), rel=1e-6)


def test_max_confidence_is_the_highest_value_of_the_own_grid() -> None:
    maps = some_maps()
    expected = (maps.dense.amax((1, 2)) + 33.3) / 66.6
    np.testing.assert_allclose(predict(maps, get("exact")).confidence, expected.numpy(), rtol=1e-6)


@pytest.mark.parametrize("confidence", ["max", "top_quarter_mean", "native"])
def test_confidence_does_not_depend_on_the_size_asked_for(confidence: str) -> None:
    protocol = replace(get("exact"), confidence=confidence)
    small, large = predict(some_maps(), protocol), predict(some_maps(), protocol, (180, 320))
    assert large.score.shape == large.mask.shape == (5, 180, 320)
    np.testing.assert_array_equal(small.confidence, large.confidence)


@pytest.mark.parametrize("name", TOP_HALF)
def test_a_map_alone_gives_the_same_answer_as_in_a_batch(name: str) -> None:
    maps = some_maps()
    together = predict(maps, get(name))
    for i in range(5):
        alone = predict(Maps(maps.native[i : i + 1], maps.dense[i : i + 1], maps.bounds), get(name))
        for part in ("score", "mask", "confidence"):
            assert np.array_equal(getattr(alone, part)[0], getattr(together, part)[i])


def test_without_bounds_the_score_is_the_raw_map() -> None:
    maps = some_maps(side=224, bounds=None)
    np.testing.assert_array_equal(predict(maps, get("exact")).score, maps.dense.numpy())


def test_half_precision_maps_are_scored_in_full() -> None:
    dense = torch.randn(2, 7, 7).bfloat16()
    assert predict(Maps(dense, dense), get("exact")).score.dtype == np.float32


def test_native_confidence_needs_a_method_that_has_one() -> None:
    dense = torch.zeros(1, 7, 7)
    with pytest.raises(UsageError, match="confidence of its own"):
        predict(Maps(dense, dense), replace(get("exact"), confidence="native"))


def test_maps_with_nan_are_refused() -> None:
    dense = torch.zeros(3, 7, 7)
    dense[1, 0, 0] = torch.nan
    with pytest.raises(DataError, match=r"finite maps, but got NaN or infinity in 1 of 3 maps \(first at 1\)"):
        predict(Maps(dense, dense), get("exact"))


def test_the_adaptive_policy_needs_a_truth_and_universal_a_level() -> None:
    dense = torch.rand(1, 7, 7)
    with pytest.raises(UsageError, match="Expected a ground truth for the policy adaptive"):
        predict(Maps(dense, dense), get("adaptive"))
    with pytest.raises(UsageError, match="Expected a level for the protocol universal, but got none"):
        predict(Maps(dense, dense), get("universal"))


def plateau(count: int = 2, side: int = 10) -> Maps:
    """Cosines, and what a ReLU leaves of them: exactly 60 of 100 cells are zero."""
    order = torch.stack([torch.randperm(side**2, generator=torch.Generator().manual_seed(i)) for i in range(count)])
    dense = ((order - 59.5) / 100).view(count, side, side)
    return Maps(dense.relu(), dense, (-1.0, 1.0), torch.arange(count).float(), (0.0, 1.0))


def test_a_native_map_with_sixty_percent_zeros_selects_everything_and_a_dense_one_half() -> None:
    maps = plateau()
    assert (maps.native == 0).flatten(1).sum(1).tolist() == [60, 60]
    native, dense = (Protocol("t", size=10, map=which) for which in ("native", "dense"))  # type: ignore[arg-type]
    assert predict(maps, native).mask.all()
    assert predict(maps, dense).mask.sum((1, 2)).tolist() == [50, 50]
    # Strictly above the median is what a plateau does least harm to: all that is not zero.
    assert predict(maps, replace(native, strict=True)).mask.sum((1, 2)).tolist() == [40, 40]


@pytest.mark.parametrize("confidence", ["max", "peak", "top_quarter_mean", "native"])
@pytest.mark.parametrize("name", TOP_HALF)
def test_a_native_protocol_sees_the_native_map_and_its_bounds_alone(name: str, confidence: str) -> None:
    maps = replace(some_maps(), native=some_maps(side=9).dense.exp(), native_bounds=(0.0, 50.0))
    protocol = replace(get(name), map="native", confidence=confidence)
    only = Maps(maps.native, maps.native, (0.0, 50.0), maps.confidence)
    found, wanted = predict(maps, protocol), predict(only, replace(protocol, map="dense"))
    for part in ("score", "mask", "confidence"):
        assert np.array_equal(getattr(found, part), getattr(wanted, part))
    assert not np.array_equal(found.mask, predict(maps, get(name)).mask)


def test_a_native_mask_is_what_the_definition_says() -> None:
    maps, protocol = plateau(), Protocol("t", size=10, map="native")
    flat = maps.native.flatten(1)
    wanted = flat >= flat.sort(1).values[:, 50:51]
    assert np.array_equal(wanted.view(2, 10, 10).numpy(), predict(maps, protocol).mask)


@pytest.mark.parametrize("which", ["dense", "native"])
def test_scores_on_the_own_grid_are_shares_of_the_bounds(which: str) -> None:
    maps, protocol = replace(plateau(), native_bounds=(0.0, 2.0)), Protocol("t", map=which)  # type: ignore[arg-type]
    own = scaled(*maps.arrays().which(protocol.map))
    assert np.array_equal(own, predict(maps, protocol, (10, 10)).score)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device here")
@pytest.mark.parametrize("which", ["dense", "native"])
def test_cuda_thresholds_the_map_that_the_protocol_names(which: str) -> None:
    maps, protocol = plateau(), Protocol("t", size=10, map=which)  # type: ignore[arg-type]
    here, there = predict(maps, protocol), predict(maps.each(lambda x: x.cuda()), protocol)
    assert np.array_equal(there.mask, here.mask)
    np.testing.assert_allclose(there.confidence, here.confidence)


def test_nan_is_refused_in_the_map_that_is_looked_at() -> None:
    bad = torch.full((1, 7, 7), torch.nan)
    maps = Maps(bad, torch.zeros(1, 7, 7))
    predict(maps, get("exact"))
    with pytest.raises(DataError, match="finite maps, but got NaN"):
        predict(maps, get("exact:map=native"))


BOUNDS = (-1.0, 1.0)


def arrays(seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).uniform(-1, 1, (3, 7, 7)).astype(np.float32)


@pytest.mark.parametrize(
    "name",
    ["exact", "official", "paper", "exact:map=native", "exact:confidence=native", "exact:confidence=peak",
     "exact:threshold=absolute,level=0.6", "exact:upsample=bilinear"],
)  # fmt: skip
@pytest.mark.parametrize("size", [None, (7, 7), (50, 90)])
def test_answers_are_those_of_torch(name: str, size: tuple[int, int] | None) -> None:
    protocol = get(name)
    dense, native, own = arrays(), np.maximum(arrays(), 0.0), np.array([0.1, 0.2, 0.3], np.float32)
    got = predict(MapArrays(native, dense, BOUNDS, own, (0.0, 1.0)), protocol, size)
    raw, (low, high) = (native, (0.0, 1.0)) if protocol.map == "native" else (dense, BOUNDS)

    def by_torch(height: int, width: int) -> np.ndarray:
        small = torch.from_numpy(raw)[:, None]
        large = F.interpolate(small, (height, width), mode=protocol.upsample, align_corners=protocol.align_corners)
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


def test_maps_of_torch_are_the_same_arrays() -> None:
    dense, native = arrays(), np.maximum(arrays(), 0.0)
    tensors = Maps(*map(torch.from_numpy, (native, dense)), BOUNDS, native_bounds=(0.0, 1.0))
    for name in ("official", "exact:map=native"):
        got = predict(tensors, get(name))
        wanted = predict(MapArrays(native, dense, BOUNDS, native_bounds=(0.0, 1.0)), get(name))
        for part in ("score", "mask", "confidence"):
            assert np.array_equal(getattr(got, part), getattr(wanted, part))
    shared = torch.zeros(1, 2, 2, dtype=torch.bfloat16, requires_grad=True).expand(3, -1, -1)
    both = Maps(shared, shared, BOUNDS, torch.zeros(3)).arrays()
    assert both.native is both.dense
    assert both.dense.dtype == both.confidence.dtype == np.float32  # type: ignore[union-attr]
    assert both.one(1).native.shape == (1, 2, 2)
