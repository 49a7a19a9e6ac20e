"""Two real processes do what one does: the gradient above all, which the loss alone would not tell."""

from __future__ import annotations

import functools
from pathlib import Path

import pytest
import torch
from torch import Tensor

from tiny import parity, processes

CASES = [("official", (4, 4)), ("official", (5, 3)), ("paper", (4, 4)), ("paper", (5, 3))]


@functools.cache
def alone(preset: str, half: bool = False) -> parity.Outcome:
    return parity.steps(preset, (parity.CLIPS,), half=half)


def cosine_and_ratio(got: dict[str, Tensor], wanted: dict[str, Tensor]) -> tuple[float, float]:
    assert got.keys() == wanted.keys()
    a, b = (torch.cat([g[name].double().flatten() for name in wanted]) for g in (got, wanted))
    return float(a @ b / (a.norm() * b.norm())), float(a.norm() / b.norm())


def meets_the_bar(got: parity.Outcome, wanted: parity.Outcome) -> bool:
    cosine, ratio = cosine_and_ratio(got.gradient, wanted.gradient)
    return cosine > 0.9999 and abs(ratio - 1) < 1e-3


@pytest.mark.slow
@pytest.mark.parametrize(("preset", "shares"), CASES)
def test_two_processes_have_the_gradient_statistics_and_copies_of_one(
    tmp_path: Path, preset: str, shares: tuple[int, ...]
) -> None:
    one = alone(preset)
    assert set(one.gradient) == {name for name in one.state if name.startswith("online.") and "running" not in name
                                 and "batches" not in name}  # fmt: skip
    for two in processes.together(tmp_path, 2, parity.steps, preset, shares):
        assert two.loss == pytest.approx(one.loss, rel=1e-5)
        assert meets_the_bar(two, one)
        for name, wanted in one.gradient.items():  # not only in sum: every layer
            assert (two.gradient[name] - wanted).norm() <= 1e-3 * wanted.norm() + 1e-5, name
        for name, wanted in one.state.items():  # weights, running statistics and momentum copies after four steps
            torch.testing.assert_close(two.state[name], wanted, rtol=1e-3, atol=1e-5, msg=lambda m, n=name: f"{n}: {m}")
    moved = parity.Model(parity.tiny.config(preset), parity.tiny.INPUTS).state_dict()
    assert any(not torch.equal(one.state[name], moved[name]) for name in one.state if name.startswith("target."))


@pytest.mark.slow
@pytest.mark.parametrize("gather", ["without gradient", "not at all"])
def test_the_bar_sees_gathering_without_gradient(tmp_path: Path, gather: str) -> None:
    one = alone("official")
    work = functools.partial(parity.steps, gather=gather)
    two = processes.together(tmp_path, 2, work, "official", (4, 4))[0]
    assert not meets_the_bar(two, one)
    if gather == "without gradient":
        # The loss is the same, the gradient half: only a test of gradients can tell.
        assert two.loss == pytest.approx(one.loss, rel=1e-5)
        assert cosine_and_ratio(two.gradient, one.gradient)[1] < 0.9


@pytest.mark.slow
def test_two_processes_agree_with_one_in_half_precision(tmp_path: Path) -> None:
    one = alone("official", half=True)
    two = processes.together(tmp_path, 2, functools.partial(parity.steps, half=True), "official", (5, 3))[1]
    assert two.loss == pytest.approx(one.loss, rel=2e-2)
    cosine, ratio = cosine_and_ratio(two.gradient, one.gradient)
    assert cosine > 0.95
    assert ratio == pytest.approx(1, abs=0.1)
    assert all(value.dtype == one.state[name].dtype for name, value in two.state.items())
