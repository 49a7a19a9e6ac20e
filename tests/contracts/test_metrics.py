"""What a report may expect of every metric in the metrics folder, and of the example on the page about adding one."""

from __future__ import annotations

import math
import re
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from earsight import registry
from earsight.metrics.base import Records
from earsight.protocols import PROTOCOLS, get

PAGE = "docs/add-a-metric.md"
METRICS = [*registry.names("metric"), PAGE]
EVERY = [(name, protocol) for name in METRICS for protocol in PROTOCOLS]
NEGATIVES_ALONE = re.compile(r"pia|auc_n|pia/.+")
"""Numbers that say nothing about positives, and so are defined without them."""
AREAS = np.array([500.0, 5000.0, 15000.0, 40000.0])
"""One source of each size of sizes.py, in pixels of the 224 grid."""


def load(name: str) -> ModuleType:
    if name != PAGE:
        return registry.load("metric", name)
    text = (Path(__file__).parents[2] / PAGE).read_text(encoding="utf-8").split("```python\n")[1].split("```")[0]
    module = ModuleType("example")
    exec(compile(text, PAGE, "exec"), module.__dict__)
    return module


def records(count: int, seed: int = 0, kinds: tuple[str, ...] = ("positive", "easy", "hard", "real")) -> Records:
    """Random records with every column, read-only; few distinct confidences, so that ties are common.

    From eight on, and where positives are asked for, there are some of every size. Two clips share a picture.
    """
    random = np.random.default_rng(seed)
    kind = random.choice(np.array(kinds), count)
    kind[: 8 if "positive" in kinds and count >= 8 else 0] = "positive"
    positive = kind == "positive"
    area = np.where(positive, np.resize(AREAS, count), 0.0)
    by_size = np.where(positive[:, None], random.integers(0, 21, (count, 9)) / 20, np.nan)
    made = Records(
        np.array([f"picture{i // 2}+clip{i}" for i in range(count)], dtype=np.str_),
        kind,
        random.choice(np.array(["dog", "owl", "cat"]), count),
        area,
        random.integers(0, 9, count) / 8,
        by_size[:, 4].copy(),
        predicted=random.integers(0, 224**2 + 1, count).astype(float),
        by_size=by_size,
        peak=np.where(positive, random.integers(0, 3, count) / 2, np.nan),
    )
    for name in made.names():
        getattr(made, name).flags.writeable = False
    return made


def compute(name: str, of: Records, protocol: str) -> dict[str, float]:
    numbers: dict[str, float] = load(name).compute(of, get(protocol))
    return numbers


def entry(number: str, better: dict[str, bool]) -> str:
    """The entry of HIGHER_IS_BETTER that speaks of this number: itself, or its family."""
    family = [f"{number.partition('/')[0]}/*"] if "/" in number else []
    found = [name for name in (number, *family) if name in better]
    assert len(found) == 1, f"{number} has {len(found)} entries"
    return found[0]


def check_names(numbers: dict[str, float], better: dict[str, bool]) -> None:
    """Every number has an entry, and every entry that names one number has it."""
    assert {entry(number, better) for number in numbers} >= {name for name in better if not name.endswith("/*")}


def same(got: dict[str, float], expected: dict[str, float]) -> None:
    """To the last digit, NaN being equal to NaN."""
    assert list(got) == list(expected)
    np.testing.assert_array_equal(list(got.values()), list(expected.values()))


@pytest.mark.parametrize("name", METRICS)
def test_a_metric_file_says_what_it_measures(name: str) -> None:
    module = load(name)
    low, high = module.RANGE
    assert low < high
    assert module.HIGHER_IS_BETTER
    assert all(type(value) is bool for value in module.HIGHER_IS_BETTER.values())
    assert all(re.fullmatch(r"[a-z0-9_]+(/([a-z0-9_]+|\*))?", number) for number in module.HIGHER_IS_BETTER)
    assert ">>>" in (module.__doc__ or "")
    assert "Undefined" in (module.__doc__ or "") or "undefined" in (module.__doc__ or "")
    assert re.match(r"[A-Z].*[.:]\n", module.__doc__ or "")


def test_no_two_metrics_give_a_number_of_the_same_name() -> None:
    numbers = [number for name in METRICS for number in load(name).HIGHER_IS_BETTER]
    assert len(set(numbers)) == len(numbers)
    families = {number[:-1] for number in numbers if number.endswith("/*")}
    assert not [n for n in numbers if not n.endswith("/*") and any(n.startswith(family) for family in families)]


@pytest.mark.parametrize(("name", "protocol"), EVERY)
def test_numbers_are_plain_floats_in_range(name: str, protocol: str) -> None:
    module = load(name)
    for seed in range(5):
        numbers = compute(name, records(40, seed), protocol)
        check_names(numbers, module.HIGHER_IS_BETTER)
        assert {entry(number, module.HIGHER_IS_BETTER) for number in numbers} == set(module.HIGHER_IS_BETTER)
        for value in numbers.values():
            assert type(value) is float
            assert module.RANGE[0] <= value <= module.RANGE[1] + 1e-12


@pytest.mark.parametrize(("name", "protocol"), EVERY)
def test_the_order_of_the_records_and_how_they_were_cut_never_matter(name: str, protocol: str) -> None:
    whole = records(450)
    expected = compute(name, whole, protocol)
    assert not any(math.isnan(value) for value in expected.values())
    for seed, pieces in enumerate((1, 2, 7, 450)):
        order = np.random.default_rng(seed).permutation(len(whole))
        same(compute(name, whole.where(order), protocol), expected)
        parts = [whole.where(part) for part in np.array_split(order, pieces)]
        same(compute(name, Records.concat(parts), protocol), expected)


@pytest.mark.parametrize(("name", "protocol"), EVERY)
def test_only_the_order_of_the_confidences_counts(name: str, protocol: str) -> None:
    whole = records(60)
    expected = compute(name, whole, protocol)
    for change in (np.exp, np.arctan, lambda x: -5 + 100 * x):
        columns = {name: getattr(whole, name) for name in whole.names()}
        changed = Records(**{**columns, "confidence": change(whole.confidence)})
        same(compute(name, changed, protocol), expected)


@pytest.mark.parametrize(("name", "protocol"), EVERY)
def test_clips_may_repeat_as_in_a_bootstrap(name: str, protocol: str) -> None:
    whole, module = records(60), load(name)
    index = np.random.default_rng(0).integers(0, len(whole), len(whole))
    numbers = compute(name, whole.drawn(index), protocol)
    same(compute(name, whole.drawn(index[::-1]), protocol), numbers)
    for value in numbers.values():
        assert module.RANGE[0] <= value <= module.RANGE[1] + 1e-12


@pytest.mark.parametrize(("name", "protocol"), EVERY)
@pytest.mark.parametrize("count", [0, 1, 2, 30])
def test_without_positives_a_number_is_nan_unless_it_is_about_negatives_alone(
    name: str, protocol: str, count: int
) -> None:
    module = load(name)
    numbers = compute(name, records(count, kinds=("easy", "hard")), protocol)
    check_names(numbers, module.HIGHER_IS_BETTER)
    for number, value in numbers.items():
        if count and NEGATIVES_ALONE.fullmatch(number):
            assert module.RANGE[0] <= value <= module.RANGE[1] + 1e-12
        else:
            assert math.isnan(value)


@pytest.mark.parametrize(("name", "protocol"), EVERY)
@pytest.mark.parametrize("count", [1, 2, 30])
def test_without_negatives_a_number_is_in_range_or_nan(name: str, protocol: str, count: int) -> None:
    module = load(name)
    numbers = compute(name, records(count, kinds=("positive",)), protocol)
    check_names(numbers, module.HIGHER_IS_BETTER)
    for value in numbers.values():
        assert math.isnan(value) or module.RANGE[0] <= value <= module.RANGE[1] + 1e-12


@pytest.mark.parametrize(("name", "protocol"), EVERY)
def test_columns_that_were_not_measured_give_nan_and_no_error(name: str, protocol: str) -> None:
    module, whole = load(name), records(40)
    bare = Records(whole.id, whole.kind, whole.label, whole.area, whole.confidence, whole.ciou)
    numbers = compute(name, bare, protocol)
    check_names(numbers, module.HIGHER_IS_BETTER)
    for value in numbers.values():
        assert math.isnan(value) or module.RANGE[0] <= value <= module.RANGE[1] + 1e-12


@pytest.mark.parametrize(("name", "protocol"), EVERY)
def test_a_perfect_answer_is_better_than_a_useless_one(name: str, protocol: str) -> None:
    better = load(name).HIGHER_IS_BETTER
    kind = np.array(["positive"] * 20 + ["easy"] * 10 + ["hard"] * 10)
    positive = kind == "positive"
    ids, label, area = (
        np.array([f"p{i // 2}+c{i}" for i in range(40)]),
        np.array(["x"] * 40),
        np.resize(AREAS, 40) * positive,
    )
    rising = np.linspace(0.1, 0.9, 40)

    def answer(confidence: np.ndarray, ciou: float, marked: float) -> Records:
        right = np.where(positive, ciou, np.nan)
        by_size, predicted = np.repeat(right[:, None], 9, axis=1), np.where(positive, area, marked)
        return Records(ids, kind, label, area, confidence, right, predicted=predicted, by_size=by_size, peak=right)

    best = compute(name, answer(rising[::-1], 1.0, 0.0), protocol)
    worst = compute(name, answer(rising, 0.0, 224.0**2), protocol)
    assert {entry(number, better) for number in best} == set(better)
    for number in best:
        higher = better[entry(number, better)]
        assert best[number] > worst[number] if higher else best[number] < worst[number]
