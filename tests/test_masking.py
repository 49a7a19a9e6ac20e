"""Facts about masks and confidences, against plain versions of the published arithmetic."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from earsight.errors import DataError, UsageError
from earsight.levels import levels, needed
from earsight.masking import own_scores, predict
from earsight.protocols import PROTOCOLS, Protocol, get
from earsight.ranks import Ranked
from earsight.types import Maps

TOP_HALF = sorted(name for name, protocol in PROTOCOLS.items() if protocol.threshold == "top_half")


def some_maps(count: int = 5, side: int = 7, bounds: tuple[float, float] | None = (-33.3, 33.3)) -> Maps:
    dense = torch.randn(count, side, side, generator=torch.Generator().manual_seed(3)) * 8
    return Maps(dense, dense, bounds, torch.arange(count).float())


def as_defined(flat: torch.Tensor, protocol: Protocol) -> torch.Tensor:
    """The mask (B, n) of scores (B, n), each step of its definition written down."""
    if protocol.scaling == "minmax":
        low, high = flat.aminmax(dim=1, keepdim=True)
        flat = torch.where(high > low, (flat - low) / (high - low), flat)
    if protocol.threshold == "top_half":
        at = flat.kthvalue(int(flat.shape[1] * protocol.level) + 1, dim=1, keepdim=True).values
    else:
        at = torch.full_like(flat[:, :1], protocol.level)
    return flat > at if protocol.strict else flat >= at


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
    assert mask.flatten(1).sum(1).tolist() == pytest.approx([expected] * 5, abs=3)  # rounding may make ties


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
    torch.testing.assert_close(out.score, dense)


def test_official_equals_a_plain_version_of_the_published_arithmetic() -> None:
    maps, tau = some_maps(bounds=(-1 / 0.03, 1 / 0.03)), 0.03
    out = predict(maps, get("official"))
    big = F.interpolate(maps.dense[:, None], size=(224, 224), mode="bicubic", align_corners=True)[:, 0].numpy()
    for i in range(5):
        score = (big[i] + 1 / tau) / (2 / tau)
        stretched = (score - score.min()) / (score.max() - score.min())
        threshold = np.sort(stretched.ravel())[int(50176 * 0.5)]
        np.testing.assert_array_equal(out.mask[i].numpy(), stretched >= threshold)
        assert out.confidence[i].item() == pytest.approx(np.sort(score.ravel())[-12544:].mean(), rel=1e-6)


def test_max_confidence_is_the_highest_value_of_the_own_grid() -> None:
    maps = some_maps()
    expected = (maps.dense.amax((1, 2)) + 33.3) / 66.6
    torch.testing.assert_close(predict(maps, get("exact")).confidence, expected)


@pytest.mark.parametrize("confidence", ["max", "top_quarter_mean", "native"])
def test_confidence_does_not_depend_on_the_size_asked_for(confidence: str) -> None:
    protocol = replace(get("exact"), confidence=confidence)
    small, large = predict(some_maps(), protocol), predict(some_maps(), protocol, (180, 320))
    assert large.score.shape == large.mask.shape == (5, 180, 320)
    torch.testing.assert_close(small.confidence, large.confidence, rtol=0, atol=0)


@pytest.mark.parametrize("name", TOP_HALF)
def test_a_map_alone_gives_the_same_answer_as_in_a_batch(name: str) -> None:
    maps = some_maps()
    together = predict(maps, get(name))
    for i in range(5):
        alone = predict(Maps(maps.native[i : i + 1], maps.dense[i : i + 1], maps.bounds), get(name))
        assert torch.equal(alone.mask[0], together.mask[i])
        assert torch.equal(alone.score[0], together.score[i])
        assert torch.equal(alone.confidence[0], together.confidence[i])


def test_without_bounds_the_score_is_the_raw_map() -> None:
    maps = some_maps(side=224, bounds=None)
    torch.testing.assert_close(predict(maps, get("exact")).score, maps.dense)


def test_half_precision_maps_are_scored_in_full() -> None:
    dense = torch.randn(2, 7, 7).bfloat16()
    assert predict(Maps(dense, dense), get("exact")).score.dtype == torch.float32


def test_native_confidence_needs_a_method_that_has_one() -> None:
    dense = torch.zeros(1, 7, 7)
    with pytest.raises(UsageError, match="confidence of its own"):
        predict(Maps(dense, dense), replace(get("exact"), confidence="native"))


def test_maps_with_nan_are_refused() -> None:
    dense = torch.zeros(3, 7, 7)
    dense[1, 0, 0] = torch.nan
    with pytest.raises(DataError, match=r"finite maps, but got NaN or infinity in 1 of 3 maps \(first at 1\)"):
        predict(Maps(dense, dense), get("exact"))


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize("scaling", ["bounds", "minmax"])
@pytest.mark.parametrize(("threshold", "level"), [("top_half", 0.5), ("top_half", 0.9), ("absolute", 0.5)])
@pytest.mark.parametrize("kind", ["normal", "tiny values", "few values", "one value", "far from zero"])
def test_one_level_says_what_the_definition_says(
    kind: str, threshold: str, level: float, scaling: str, strict: bool
) -> None:
    draw = torch.Generator().manual_seed(0)
    normal = torch.randn(6, 900, generator=draw)
    flat = {
        "normal": normal,
        "tiny values": normal * 1e-30,
        "few values": torch.randint(0, 4, (6, 900), generator=draw) / 3,
        "one value": torch.full((6, 900), 0.3),
        "far from zero": 1e6 + normal.round(decimals=1),
    }[kind]
    protocol = Protocol("t", threshold=threshold, level=level, scaling=scaling, strict=strict)  # type: ignore[arg-type]
    got = flat.numpy() >= levels(Ranked(flat.numpy(), cuts=needed([protocol], 900)[0]), protocol)[:, None]
    np.testing.assert_array_equal(got, as_defined(flat, protocol).numpy())


def test_stretching_makes_neighbours_equal_and_the_level_knows() -> None:
    near = np.nextafter(np.float32(0.0), np.float32(1))
    flat = np.array([[-1.0, -near, 0.0, near, 1.0, 2.0]], np.float32)  # (x + 1) / 3 is the same for the middle three
    protocol = Protocol("t", threshold="top_half", scaling="minmax")
    assert (flat >= levels(Ranked(flat, cuts=[3]), protocol)[:, None]).tolist() == [
        [False, True, True, True, True, True]
    ]


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
    assert predict(maps, dense).mask.flatten(1).sum(1).tolist() == [50, 50]
    # Strictly above the median is what a plateau does least harm to: all that is not zero.
    assert predict(maps, replace(native, strict=True)).mask.flatten(1).sum(1).tolist() == [40, 40]


@pytest.mark.parametrize("confidence", ["max", "peak", "top_quarter_mean", "native"])
@pytest.mark.parametrize("name", TOP_HALF)
def test_a_native_protocol_sees_the_native_map_and_its_bounds_alone(name: str, confidence: str) -> None:
    maps = replace(some_maps(), native=some_maps(side=9).dense.exp(), native_bounds=(0.0, 50.0))
    protocol = replace(get(name), map="native", confidence=confidence)
    only = Maps(maps.native, maps.native, (0.0, 50.0), maps.confidence)
    found, wanted = predict(maps, protocol), predict(only, replace(protocol, map="dense"))
    for part in ("score", "mask", "confidence"):
        assert torch.equal(getattr(found, part), getattr(wanted, part))
    assert not torch.equal(found.mask, predict(maps, get(name)).mask)


def test_a_native_mask_is_what_the_definition_says() -> None:
    maps, protocol = plateau(), Protocol("t", size=10, map="native")
    flat = maps.native.flatten(1)
    assert torch.equal(as_defined(flat, protocol).view(2, 10, 10), predict(maps, protocol).mask)


@pytest.mark.parametrize("which", ["dense", "native"])
def test_scores_on_the_own_grid_are_those_of_the_prediction_there(which: str) -> None:
    maps, protocol = replace(plateau(), native_bounds=(0.0, 2.0)), Protocol("t", map=which)  # type: ignore[arg-type]
    assert torch.equal(own_scores(maps, protocol), predict(maps, protocol, (10, 10)).score)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device here")
@pytest.mark.parametrize("which", ["dense", "native"])
def test_cuda_thresholds_the_map_that_the_protocol_names(which: str) -> None:
    maps, protocol = plateau(), Protocol("t", size=10, map=which)  # type: ignore[arg-type]
    here, there = predict(maps, protocol), predict(maps.each(lambda x: x.cuda()), protocol)
    assert torch.equal(there.mask.cpu(), here.mask)
    torch.testing.assert_close(there.confidence.cpu(), here.confidence)


def test_nan_is_refused_in_the_map_that_is_looked_at() -> None:
    bad = torch.full((1, 7, 7), torch.nan)
    maps = Maps(bad, torch.zeros(1, 7, 7))
    predict(maps, get("exact"))
    with pytest.raises(DataError, match="finite maps, but got NaN"):
        predict(maps, get("exact:map=native"))
