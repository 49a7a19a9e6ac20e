"""The optimizer and its learning rate."""

from __future__ import annotations

import math
from typing import Literal

import pytest
import torch
from torch import nn

from earsight.config import Optim
from earsight.train.optim import lr_at, make_optimizer


@pytest.mark.parametrize("kind", ["adam", "adamw"])
def test_only_parameters_that_want_gradients_are_trained(kind: Literal["adam", "adamw"]) -> None:
    model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
    model[0].requires_grad_(False)
    optimizer = make_optimizer(model.parameters(), Optim(optimizer=kind, weight_decay=0.5), 0.1)
    (group,) = optimizer.param_groups
    assert [id(p) for p in group["params"]] == [id(p) for p in model[1].parameters()]
    assert (group["lr"], group["weight_decay"]) == (0.1, 0.5)


def test_adamw_shrinks_weights_directly_and_adam_through_the_gradient() -> None:
    moved = {}
    for kind in ("adam", "adamw"):
        weight = nn.Parameter(torch.full((1,), 2.0))
        optimizer = make_optimizer([weight], Optim(optimizer=kind, weight_decay=0.5), 0.1)
        weight.grad = torch.zeros(1)
        optimizer.step()
        moved[kind] = float(weight.detach())
    assert moved["adamw"] == pytest.approx(2.0 * (1 - 0.1 * 0.5))
    assert moved["adam"] == pytest.approx(2.0 - 0.1)  # the decay is the whole gradient, which Adam scales to 1


def test_warm_up_rises_in_a_line_and_the_cosine_falls_to_zero() -> None:
    settings = Optim(schedule="cosine", warmup_steps=4)
    rates = [lr_at(step, 20, settings, 2.0) for step in range(21)]
    assert rates[:5] == [0.5, 1.0, 1.5, 2.0, 2.0]
    assert rates == [*rates[:4], *sorted(rates[4:], reverse=True)]
    assert rates[12] == pytest.approx(1.0)
    assert rates[20] == pytest.approx(0.0)
    assert lr_at(25, 20, settings, 2.0) == pytest.approx(0.0)


def test_a_warm_up_longer_than_training_never_gets_there() -> None:
    rate = lr_at(9, 10, Optim(schedule="cosine", warmup_steps=100), 1.0)
    assert rate == pytest.approx(0.1)
    assert math.isfinite(lr_at(100, 10, Optim(schedule="cosine", warmup_steps=100), 1.0))
