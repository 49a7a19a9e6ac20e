"""Facts about scoring maps against ground truth, held against a slow version with one step a line."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from earsight import scoring
from earsight.data.truth import truth_map
from earsight.errors import DataError, UsageError
from earsight.metrics.base import SIZES, Records
from earsight.protocols import PROTOCOLS, Protocol, at_level, get
from earsight.scoring import score
from earsight.thresholds import rank
from earsight.types import Maps, Row

NAMES = sorted(PROTOCOLS)
ALL = [at_level(get(name), 0.6) for name in NAMES]


def some_rows(count: int, seed: int = 0) -> list[Row]:
    """Boxes of all sizes, one to three a clip, some with consensus 2, some clips without any, some negatives."""
    random = np.random.default_rng(seed)
    rows = []
    for i in range(count):
        corners = random.uniform(0, 0.7, (i % 4, 2))
        sizes = random.uniform(0.01, 0.6, (i % 4, 2))
        boxes = tuple(
            (float(x), float(y), float(x + w), float(y + h)) for (x, y), (w, h) in zip(corners, sizes, strict=True)
        )
        kind = "easy" if i % 7 == 6 else "positive"
        rows.append(Row(f"c{i}", kind=kind, boxes=boxes if kind == "positive" else (), consensus=1 + i % 2))
    return rows


def some_maps(count: int, side: int = 14, seed: int = 0, bounds: tuple[float, float] | None = (-1.0, 1.0)) -> Maps:
    dense = torch.rand(count, side, side, generator=torch.Generator().manual_seed(seed)) * 2 - 1
    return Maps(dense, dense, bounds, torch.linspace(0, 1, count))


def slowly(maps: Maps, rows: list[Row], protocol: Protocol) -> list[tuple[float, float, float]]:
    """cIoU, confidence and kept pixels of each map, pixel by pixel as the definitions say."""
    out = []
    size = protocol.size
    for i, row in enumerate(rows):
        dense = maps.dense[i : i + 1, None].float()
        if dense.shape[-1] != size:
            dense = F.interpolate(dense, (size, size), mode=protocol.upsample, align_corners=protocol.align_corners)
        raw = dense[0, 0].numpy()
        low, high = maps.bounds or (0.0, 1.0)
        value = (raw - np.float32(low)) / np.float32(high - low)
        stretched = (value - value.min()) / (value.max() - value.min()) if protocol.scaling == "minmax" else value
        truth = truth_map(row.boxes if row.positive else (), size, row.consensus)
        ordered = np.sort(stretched.ravel())
        if protocol.threshold == "top_half":
            at = ordered[int(size**2 * protocol.level)]
        elif protocol.threshold == "adaptive":
            at = ordered[size**2 - (np.count_nonzero(truth) or size**2 // 2)]
        else:
            at = np.float32(protocol.level)
        mask = stretched > at if protocol.strict else stretched >= at
        inside, outside = float((truth * mask).sum(dtype=np.float64)), int((mask & (truth == 0)).sum())
        below = (float(truth.sum(dtype=np.float64)) if protocol.ciou == "union" else inside) + outside
        if protocol.confidence == "max":
            sure = float((maps.dense[i].max() - low) / (high - low))
        elif protocol.confidence == "peak":
            sure = float(value.max())
        elif protocol.confidence == "native":
            assert maps.confidence is not None
            sure = float(maps.confidence[i])
        else:
            sure = float(np.sort(value.ravel())[-(size**2 // 4) :].mean(dtype=np.float64).astype(np.float32))
        out.append((inside / below if below else 0.0, sure, float(mask.sum())))
    return out


def assert_same(got: Records, expected: list[tuple[float, float, float]]) -> None:
    for i, (ciou, sure, kept) in enumerate(expected):
        if got.kind[i] == "positive":
            assert got.ciou[i] == pytest.approx(ciou, abs=1e-12)
        else:
            assert np.isnan(got.ciou[i])
        assert got.confidence[i] == pytest.approx(sure, rel=1e-6)
        assert got.predicted[i] == kept


@pytest.mark.parametrize("side", [7, 14, 48])
@pytest.mark.parametrize("protocol", ALL, ids=NAMES)
def test_every_protocol_is_what_its_slow_version_says(protocol: Protocol, side: int) -> None:
    protocol = replace(protocol, size=48)
    rows, maps = some_rows(20), some_maps(20, side)
    (got,) = score(maps, rows, [protocol])
    assert_same(got, slowly(maps, rows, protocol))


@pytest.mark.parametrize("changes", [{"ciou": "no_miss"}, {"confidence": "native"}, {"upsample": "bilinear"}])
def test_every_choice_is_what_its_slow_version_says(changes: dict[str, str]) -> None:
    protocol = replace(get("exact"), size=32, **changes)  # type: ignore[arg-type]
    rows, maps = some_rows(12), some_maps(12, 9)
    assert_same(score(maps, rows, [protocol])[0], slowly(maps, rows, protocol))


def test_ciou_toy_values() -> None:
    # The top row of a 5 x 5 grid: truth 1, 1, 1/2, 0, 0 and prediction 1, 0, 1, 1, 0.
    row = Row("toy", boxes=((0.0, 0.0, 0.4, 0.2), (0.0, 0.0, 0.6, 0.2)), consensus=2)
    dense = torch.zeros(1, 5, 5)
    dense[0, 0] = torch.tensor([1.0, 0, 1, 1, 0])
    protocol = Protocol("toy", size=5, threshold="absolute")
    union, no_miss = score(Maps(dense, dense), [row], [protocol, replace(protocol, ciou="no_miss")])
    assert union.ciou[0] == pytest.approx(3 / 7, abs=1e-15)
    assert no_miss.ciou[0] == pytest.approx(0.6, abs=1e-15)
    assert (union.area[0], union.support[0], union.predicted[0]) == (2.5, 3, 3)


def test_nothing_with_nothing_is_zero_and_the_truth_with_itself_is_one() -> None:
    dense = torch.zeros(2, 8, 8)
    dense[1, 2:5, 1:7] = 1
    rows = [Row("nothing"), Row("itself", boxes=((1 / 8, 2 / 8, 7 / 8, 5 / 8),))]
    protocol = Protocol("t", size=8, threshold="absolute")
    for form in ("union", "no_miss"):
        assert score(Maps(dense, dense), rows, [replace(protocol, ciou=form)])[0].ciou.tolist() == [0, 1]


def test_fixed_sizes_keep_that_share_of_the_picture() -> None:
    rows, maps = some_rows(9), some_maps(9, 20, bounds=None)
    protocol = replace(get("exact"), size=20)
    got = score(maps, rows, [protocol], sizes=True)[0]
    for k, share in enumerate(SIZES):
        alone = score(maps, rows, [replace(protocol, level=(400 - round(400 * share)) / 400)])[0]
        assert alone.predicted.tolist() == [round(400 * share)] * 9
        np.testing.assert_array_equal(got.by_size[:, k], alone.ciou)
    np.testing.assert_array_equal(got.by_size[:, 4], got.ciou)


def test_batches_threads_and_company_never_change_a_record(monkeypatch: pytest.MonkeyPatch) -> None:
    rows, maps = some_rows(40), some_maps(40)
    whole = score(maps, rows, ALL, sizes=True)
    for chunk, threads in ((1, 1), (7, 3), (64, 2)):
        monkeypatch.setattr(scoring, "CHUNK", chunk)
        monkeypatch.setattr(scoring, "cores", lambda threads=threads: threads)
        for start, stop in ((0, 40), (3, 17)):
            part = Maps(maps.native[start:stop], maps.dense[start:stop], maps.bounds)
            for one, other in zip(whole, score(part, rows[start:stop], ALL, sizes=True), strict=True):
                for column in ("ciou", "confidence", "predicted", "by_size", "area", "support"):
                    np.testing.assert_array_equal(getattr(one, column)[start:stop], getattr(other, column))


def test_a_protocol_gives_the_same_alone_and_among_others() -> None:
    rows, maps = some_rows(10), some_maps(10, 224)
    for protocol, together in zip(ALL, score(maps, rows, ALL), strict=True):
        (alone,) = score(maps, rows, [protocol])
        np.testing.assert_array_equal(alone.ciou, together.ciou)
        np.testing.assert_array_equal(alone.confidence, together.confidence)


def test_one_map_for_all_clips_is_ranked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    ranked: list[int] = []
    monkeypatch.setattr(scoring, "rank", lambda flat, **how: ranked.append(len(flat)) or rank(flat, **how))
    one = some_maps(1).dense.expand(30, -1, -1)
    score(Maps(one, one), some_rows(30), [get("official")], sizes=True)
    assert ranked == [1]


def test_a_single_pixel_has_an_adaptive_mask_without_a_truth_too() -> None:
    one = torch.ones(2, 1, 1)
    (found,) = score(Maps(one, one), [Row("a"), Row("b", kind="easy")], [get("adaptive:size=1,strict=false")])
    assert found.predicted.tolist() == [1, 1]


@pytest.mark.parametrize("side", [7, 48])
@pytest.mark.parametrize("plateaus", [False, True])
def test_one_map_for_all_clips_gives_what_a_copy_for_each_gives(side: int, plateaus: bool) -> None:
    rows, one = some_rows(30), some_maps(1, side).dense
    one = one.relu() if plateaus else one
    protocols = [replace(protocol, size=48) for protocol in ALL]
    shared, copied = one.expand(30, -1, -1), one.repeat(30, 1, 1)
    own = torch.linspace(0, 1, 30)
    for found, wanted in zip(
        score(Maps(shared, shared, (-1.0, 1.0), own), rows, protocols, sizes=True),
        score(Maps(copied, copied, (-1.0, 1.0), own), rows, protocols, sizes=True),
        strict=True,
    ):
        for column in ("ciou", "confidence", "predicted", "area", "support", "by_size", "peak"):
            np.testing.assert_array_equal(getattr(found, column), getattr(wanted, column))


def test_maps_with_nan_are_refused() -> None:
    maps = some_maps(3)
    maps.dense[1, 2, 3] = torch.nan
    with pytest.raises(DataError, match=r"finite maps, but got NaN or infinity in 1 of 3 maps \(first at 1\)"):
        score(maps, some_rows(3), [get("exact")])


def test_universal_without_a_level_is_refused() -> None:
    with pytest.raises(UsageError, match="Expected a level for the protocol universal, but got none"):
        score(some_maps(3), some_rows(3), [get("universal")])


@pytest.mark.parametrize("side", [1, 2, 3])
def test_fixed_sizes_keep_at_least_one_pixel_of_the_smallest_squares(side: int) -> None:
    # A tenth of one or four pixels rounds to none, which is no order statistic.
    rising = torch.arange(side**2, dtype=torch.float32).view(1, side, side)
    row = Row("a", boxes=((0.0, 0.0, 1.0, 1.0),))
    found = score(Maps(rising, rising), [row], [Protocol("tiny", size=side)], sizes=True)[0]
    kept = [max(round(side**2 * share), 1) for share in SIZES]
    assert found.by_size.tolist() == [[count / side**2 for count in kept]]


def test_the_plateau_trap_selects_all_pixels_of_a_native_map() -> None:
    dense = ((torch.randperm(100, generator=torch.Generator().manual_seed(0)) - 59.5) / 100).view(1, 10, 10)
    maps = Maps(dense.relu(), dense, (-1.0, 1.0), native_bounds=(0.0, 1.0))
    row = Row("a", boxes=((0.0, 0.0, 0.5, 1.0),))
    native, plain = score(maps, [row], [Protocol("n", size=10, map="native"), Protocol("d", size=10)])
    assert native.predicted.tolist() == [100]
    assert native.ciou.tolist() == [0.5]  # the whole picture, whatever was heard
    assert plain.predicted.tolist() == [50]


@pytest.mark.parametrize("side", [14, 7, 224])
def test_dense_and_native_protocols_in_one_call_are_those_of_two_calls(side: int) -> None:
    rows = some_rows(12)
    maps = replace(some_maps(12), native=some_maps(12, side, seed=5).dense.relu(), native_bounds=(0.0, 2.0))
    native = [replace(one, map="native") for one in ALL]
    mixed = [one for both in zip(ALL, native, strict=True) for one in both]
    found = score(maps, rows, mixed, sizes=True)
    alone = Maps(maps.native, maps.native, (0.0, 2.0), maps.confidence)
    for protocol, got in zip(mixed, found, strict=True):
        of = alone if protocol.map == "native" else maps
        (wanted,) = score(of, rows, [replace(protocol, map="dense")], sizes=True)
        for column in ("ciou", "confidence", "predicted", "area", "by_size"):
            np.testing.assert_array_equal(getattr(got, column), getattr(wanted, column))
    assert_same(found[1], slowly(alone, rows, ALL[0]))


def test_the_peak_is_the_weight_of_the_truth_under_the_highest_pixel() -> None:
    left = Row("left", boxes=((0.0, 0.0, 0.5, 1.0),))
    two = Row("two", boxes=((0.0, 0.0, 1.0, 1.0), (0.0, 0.0, 0.5, 1.0)), consensus=2)
    none = Row("none", kind="easy")
    on_left, on_right, on_both = (torch.tensor([[x]]) for x in ([2.0, 1.0], [1.0, 2.0], [2.0, 2.0]))
    for row, maps, wanted in (
        (left, on_left, 1.0),
        (left, on_right, 0.0),
        (two, on_right, 0.5),
        (none, on_left, np.nan),
    ):
        for spec in ("exact:size=8,upsample=bilinear", "official:size=8", "adaptive:size=8"):
            (records,) = score(Maps(maps, maps, (0.0, 4.0)), [row], [get(spec)])
            assert records.peak.tolist() == pytest.approx([wanted], nan_ok=True), (row.id, spec)
    (records,) = score(Maps(on_both, on_both), [left], [get("exact:size=2,upsample=bilinear")])
    assert records.peak.tolist() == [0.5], "of equal peaks, each counts"
