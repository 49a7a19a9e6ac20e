"""Facts about bootstrap intervals and paired differences."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from earsight.errors import DataError, UsageError
from earsight.evaluation import measure
from earsight.metrics import average_precision, rejection
from earsight.metrics.base import TITLES, Records, hits, module_of, ratio
from earsight.protocols import Protocol, get
from earsight.report import bootstrap
from earsight.report.bootstrap import Difference, counted, drawn
from earsight.types import Row

EXACT = get("exact")
NAMES = tuple(TITLES)


def intervals(
    records: Records, protocol: Protocol, names: Sequence[str] = NAMES, draws: int = 1000, seed: int = 0
) -> dict[str, tuple[float, float]]:
    return drawn([records], protocol, names, draws, seed)[0].intervals()


def paired(
    a: Records, b: Records, protocol: Protocol, names: Sequence[str] = NAMES, draws: int = 100, seed: int = 0
) -> dict[str, Difference]:
    return bootstrap.paired(a, b, protocol, names, draws, seed)


def some(count: int = 60, seed: int = 0, skill: float = 0.0, digits: int = 1, negatives: bool = True) -> Records:
    """Records with many equal confidences; with `skill`, positives are surer and better placed."""
    random = np.random.default_rng(seed)
    rows = [Row(f"c{i}", kind="easy" if negatives and i % 3 == 0 else "positive") for i in range(count)]
    better = skill * np.array([row.positive for row in rows])
    confidence = np.round(random.random(count) + better, digits)
    return Records.of(
        rows, area=np.ones(count), confidence=confidence, ciou=np.minimum(random.random(count) + skill, 1)
    )


@pytest.mark.parametrize("protocol", ["exact", "official", "paper", "exact:f1=official"])
@pytest.mark.parametrize("count", [1, 2, 60, 431])
@pytest.mark.parametrize("digits", [1, 9])
def test_counts_give_the_numbers_of_compute_draw_by_draw(protocol: str, count: int, digits: int) -> None:
    records = some(count, digits=digits).sorted_by_id()
    modules = {module_of(name) for name in NAMES}
    measures = {module: module.of_counts(records, get(protocol)) for module in modules}
    for counts in counted(records.positives, 41, seed=3):
        for module, measure_of in measures.items():
            whole = module.compute(records.drawn(np.repeat(np.arange(count), counts)), get(protocol))
            for name, number in measure_of(counts).items():
                assert number == pytest.approx(whole[name], abs=1e-12, nan_ok=True), name


@pytest.mark.parametrize("digits", [1, 2, 9])
def test_areas_have_the_digits_they_had_when_every_step_was_added_up(digits: int) -> None:
    records = some(431, digits=digits).sorted_by_id()
    order = np.argsort(-records.confidence, kind="stable")
    confidence, positive = records.confidence[order], records.positives[order]
    last = np.flatnonzero(np.append(np.diff(confidence) != 0, True))
    ap, auroc = average_precision.of_counts(records, EXACT), rejection.of_counts(records, EXACT)
    for counts in counted(records.positives, 13, seed=0):
        row = counts[order]
        claims, above, tp = (np.cumsum(row * one)[last] for one in (1, positive, hits(records, EXACT)[order]))
        added = ratio(tp, claims) * np.diff(ratio(tp, tp + positive.sum() - above), prepend=0.0)
        assert ap(counts)["ap"] == np.cumsum(added)[-1], "one after another"
        more, equal = np.diff(above, prepend=0), np.diff(claims - above, prepend=0)
        below = (~positive).sum() - (claims - above)
        won = (more * (below + 0.5 * equal)).sum()
        assert auroc(counts)["auroc"] == won / (positive.sum() * (~positive).sum())


def test_models_with_clips_of_their_own_are_drawn_again_for_a_difference() -> None:
    records = some(60, digits=9).sorted_by_id()
    turned = replace(records, confidence=records.confidence[::-1].copy())
    at, beside = np.arange(60), int(np.flatnonzero(records.positives[1:] & records.positives[:-1])[0])
    a, b = records.where(at[at != beside]), turned.where(at[at != beside + 1])  # positives are in the same places
    first, second = drawn([a, b], EXACT, ("ap",), draws=30)
    assert np.array_equal(first.records.positives, second.records.positives)
    assert first.minus(second, ("ap",)) == paired(a, b, EXACT, ("ap",), draws=30)
    kinds = np.roll(records.kind, 1)
    other = replace(records, kind=kinds, ciou=np.where(kinds == "positive", 0.5, np.nan))
    first, second = drawn([records, other], EXACT, ("ap",), draws=3)
    with pytest.raises(DataError, match="positive in both or in neither"):
        first.minus(second, ("ap",))


def test_draws_keep_the_number_of_positives_and_of_negatives() -> None:
    records = some().sorted_by_id()
    for counts in counted(records.positives, 50, seed=0):
        assert counts[records.positives].sum() == records.positives.sum()
        assert counts.sum() == len(records)


def test_the_same_seed_gives_the_same_intervals_in_any_order_of_records() -> None:
    records = some(digits=9)
    shuffled = records.where(np.random.default_rng(5).permutation(len(records)))
    assert intervals(records, EXACT, draws=50) == intervals(shuffled, EXACT, draws=50)
    assert intervals(records, EXACT, draws=50) != intervals(records, EXACT, draws=50, seed=1)


def test_other_numbers_asked_for_do_not_change_an_interval() -> None:
    both = intervals(some(), EXACT, ("ap", "loc_acc", "false_alarm_at_90"), draws=40)
    assert both["ap"] == intervals(some(), EXACT, ("ap",), draws=40)["ap"]
    assert list(both) == ["ap", "loc_acc", "false_alarm_at_90"]


def test_an_interval_holds_the_number_and_narrows_with_more_clips() -> None:
    few, many = some(60, digits=9), some(3000, digits=9)
    for records in (few, many):
        value = measure(records, EXACT)["loc_acc"]
        low, high = intervals(records, EXACT, ("loc_acc",), draws=300)["loc_acc"]
        assert low < value < high
    wide, narrow = (np.diff(intervals(r, EXACT, ("loc_acc",), draws=300)["loc_acc"])[0] for r in (few, many))
    assert narrow < wide / 4


def test_the_interval_of_loc_acc_is_that_of_a_share() -> None:
    records = some(3000, digits=9)
    share, n = measure(records, EXACT)["loc_acc"], int(records.positives.sum())
    low, high = intervals(records, EXACT, ("loc_acc",), draws=2000)["loc_acc"]
    assert (high - low) / 2 == pytest.approx(1.96 * math.sqrt(share * (1 - share) / n), rel=0.08)


def test_what_is_undefined_has_no_interval() -> None:
    without = intervals(some(negatives=False), EXACT, draws=20)
    assert all(math.isnan(end) for end in without["auroc"])
    assert not math.isnan(without["ap"][0])
    negatives = some().where(~some().positives)
    assert all(math.isnan(end) for interval in intervals(negatives, EXACT, draws=20).values() for end in interval)


def test_numbers_with_parts_are_drawn_through_their_own_file() -> None:
    found = intervals(some(), EXACT, ("max_f1/easy", "ap/iou_75"), draws=5)
    assert all(0 <= low <= high <= 1 for low, high in found.values())


def test_equal_records_differ_by_nothing_and_p_is_one() -> None:
    for difference in paired(some(), some(), EXACT, draws=50).values():
        assert difference == Difference(0.0, 0.0, 0.0, 1.0, 60, 0)


def test_a_better_model_is_told_from_chance_and_the_sign_turns_with_the_order() -> None:
    better, worse = some(400, skill=0.4), some(400, seed=1)
    there = paired(better, worse, EXACT, ("ap",), draws=200)["ap"]
    back = paired(worse, better, EXACT, ("ap",), draws=200)["ap"]
    assert there.value == measure(better, EXACT)["ap"] - measure(worse, EXACT)["ap"]
    assert 0 < there.low < there.value < there.high
    assert there.p == pytest.approx(2 / 201)
    assert (back.value, back.low, back.high, back.p) == pytest.approx(
        (-there.value, -there.high, -there.low, there.p), abs=1e-12
    )


@pytest.mark.parametrize("protocol", ["exact", "official"])
def test_models_that_are_drawn_together_have_the_numbers_they_have_alone(protocol: str) -> None:
    names = ("ap", "iiou", "loc_acc", "false_alarm_at_90", "max_f1", "auroc")
    whole = [heard_with(2, 40, seed) for seed in range(3)]
    turned = whole[1].where(np.random.default_rng(0).permutation(len(whole[1])))
    fewer = whole[2].where(np.arange(len(whole[2])) % 7 > 0)
    models = [whole[0], turned, fewer, some(50), some(50, negatives=False)]
    found = drawn(models, get(protocol), names, draws=21, seed=4)
    for one, records in zip(found, models, strict=True):
        alone = intervals(records, get(protocol), names, draws=21, seed=4)
        assert str(one.intervals()) == str(alone)  # as text, because NaN is not equal to itself
    for other, records in zip(found[:3], models, strict=False):
        expected = paired(models[0], records, get(protocol), names[:3], draws=21, seed=4)
        assert found[0].minus(other, names[:3]) == expected
    assert found[0].minus(found[2], ("ap",))["ap"].unshared == len(whole[2]) - len(fewer) > 0


def test_p_is_twice_the_smaller_side_with_one_more_draw_on_it() -> None:
    assert bootstrap._p(np.array([1.0, 2.0, -1.0, 3.0])) == pytest.approx(2 * 2 / 5)
    assert bootstrap._p(np.array([1.0, 0.0])) == 1.0
    assert math.isnan(bootstrap._p(np.array([math.nan])))


def test_only_shared_clips_count_and_the_others_are_told() -> None:
    whole = some(90, digits=9)
    order = np.random.default_rng(2).permutation(90)
    a, b = whole.where(order[:80]), some(90, seed=1, digits=9).where(order[10:])
    found = paired(a, b, EXACT, ("loc_acc",), draws=20)["loc_acc"]
    assert (found.shared, found.unshared) == (70, 20)
    same = set(a.id) & set(b.id)
    values = [measure(one.where(np.isin(one.id, list(same))), EXACT)["loc_acc"] for one in (a, b)]
    assert found.value == pytest.approx(values[0] - values[1], abs=1e-12)


def test_records_of_other_clips_are_refused() -> None:
    other = some(10)
    renamed = Records(np.char.add(other.id, "x"), other.kind, other.label, other.area, other.confidence, other.ciou)
    with pytest.raises(DataError, match=r"same clips, but got 10 and 10 without one id in common\. Compare"):
        paired(other, renamed, EXACT)
    flipped = np.where(other.positives, "easy", "positive")
    ciou = np.where(other.positives, np.nan, 0.5)
    with pytest.raises(DataError, match=r"positive in both or in neither, but got 'c0' as both\. Compare"):
        paired(other, Records(other.id, flipped, other.label, other.area, other.confidence, ciou), EXACT)


def test_bad_settings_are_refused() -> None:
    with pytest.raises(UsageError, match="Expected at least 1 draw, but got 0"):
        intervals(some(), EXACT, draws=0)
    with pytest.raises(UsageError, match="Unknown number 'app', did you mean 'ap'"):
        intervals(some(), EXACT, ("app",))


def heard_with(sounds: int, pictures: int = 300, seed: int = 0, share: float = 0.7) -> Records:
    """Pictures with several sounds each, found by chance, beside pictures with one sound and negatives."""
    random = np.random.default_rng(seed)
    rows = [Row(f"p{i}+s{j}") for i in range(pictures) for j in range(sounds)]
    rows += [Row(f"q{i}+s0") for i in range(50)] + [Row(f"n{i}", kind="easy") for i in range(50)]
    n = len(rows)
    ciou = (random.random(n) < share) * 0.6 + 0.1
    return Records.of(rows, area=np.ones(n), confidence=np.round(random.random(n), 2), ciou=ciou)


@pytest.mark.parametrize("sounds", [2, 3, 4])
def test_pictures_with_several_sounds_are_drawn_whole(sounds: int) -> None:
    records = heard_with(sounds)
    value = measure(records, EXACT)["iiou"]
    low, high = intervals(records, EXACT, ("iiou",), draws=1000)["iiou"]
    assert low < value < high
    assert (high - low) / 2 == pytest.approx(1.96 * math.sqrt(value * (1 - value) / 300), rel=0.12)


def test_both_models_are_measured_on_the_same_drawn_pictures() -> None:
    better, worse = heard_with(3, share=0.8), heard_with(3, seed=1, share=0.6)
    found = paired(better, worse, EXACT, ("iiou", "iauc"), draws=300)
    for name, difference in found.items():
        assert difference.value == pytest.approx(measure(better, EXACT)[name] - measure(worse, EXACT)[name])
        assert 0 < difference.low < difference.value < difference.high
    assert paired(better, better, EXACT, ("iauc",), draws=30)["iauc"] == Difference(0.0, 0.0, 0.0, 1.0, 1000, 0)


def test_drawing_pictures_changes_no_other_interval() -> None:
    records = heard_with(2, pictures=40)
    names = ("ap", "loc_acc", "false_alarm_at_90")
    both = intervals(records, EXACT, ("iiou", *names, "iauc"), draws=40)
    assert list(both) == ["iiou", *names, "iauc"]
    assert {name: both[name] for name in names} == intervals(records, EXACT, names, draws=40)
    assert both == intervals(records, EXACT, ("iiou", *names, "iauc"), draws=40)
    assert both["iiou"] != intervals(records, EXACT, ("iiou",), draws=40, seed=1)["iiou"]
    assert all(math.isnan(end) for end in intervals(some(), EXACT, ("iiou",), draws=5)["iiou"])
