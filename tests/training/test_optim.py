"""The optimizer and its learning rate."""

from __future__ import annotations

import math
from typing import Literal

import pytest
import torch
from torch import nn

from earsight.config import Optim
from earsight.methods.base import Group
from earsight.training.step import load_optimizer, lr_at, make_optimizer, reset_optimizer_state, set_lr


@pytest.mark.parametrize("kind", ["adam", "adamw", "sgd"])
def test_a_group_without_settings_of_its_own_has_those_of_training(kind: Literal["adam", "adamw", "sgd"]) -> None:
    model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
    model[0].requires_grad_(False)
    optimizer = make_optimizer(
        [Group([p for p in model.parameters() if p.requires_grad])], Optim(optimizer=kind, weight_decay=0.5), 0.1
    )
    (group,) = optimizer.param_groups
    assert [id(p) for p in group["params"]] == [id(p) for p in model[1].parameters()]
    assert (group["lr"], group["weight_decay"]) == (0.1, 0.5)


def test_adamw_shrinks_weights_directly_and_adam_through_the_gradient() -> None:
    moved = {}
    for kind in ("adam", "adamw"):
        weight = nn.Parameter(torch.full((1,), 2.0))
        optimizer = make_optimizer([Group([weight])], Optim(optimizer=kind, weight_decay=0.5), 0.1)
        weight.grad = torch.zeros(1)
        optimizer.step()
        moved[kind] = float(weight.detach())
    assert moved["adamw"] == pytest.approx(2.0 * (1 - 0.1 * 0.5))
    assert moved["adam"] == pytest.approx(2.0 - 0.1)  # the decay is the whole gradient, which Adam scales to 1


def test_a_group_keeps_its_own_rate_and_decay_in_proportion() -> None:
    body, head = nn.Linear(2, 2), nn.Linear(2, 2)
    groups = [Group(list(body.parameters())), Group(list(head.parameters()), lr=0.5, weight_decay=0.0)]
    optimizer = make_optimizer(groups, Optim(weight_decay=0.25), 0.1)
    assert [(g["lr"], g["weight_decay"]) for g in optimizer.param_groups] == [(0.1, 0.25), (0.5, 0.0)]
    set_lr(optimizer, 0.05)
    assert [g["lr"] for g in optimizer.param_groups] == pytest.approx([0.05, 0.25])


def test_a_parameter_that_is_forgotten_moves_as_at_the_first_step() -> None:
    one, two = nn.Parameter(torch.zeros(1)), nn.Parameter(torch.zeros(1))
    optimizer = make_optimizer([Group([one, two])], Optim(), 0.1)
    for gradient in (1.0, -0.5):
        one.grad, two.grad = torch.full((1,), gradient), torch.full((1,), gradient)
        if gradient < 0:
            before = one.item(), two.item()
            reset_optimizer_state(optimizer, [two])
        optimizer.step()
    assert two.item() - before[1] == pytest.approx(0.1)  # a first step has the length of the rate, against the gradient
    assert one.item() - before[0] != pytest.approx(0.1)


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


@pytest.mark.parametrize("kind", ["adam", "sgd"])
def test_a_saved_optimizer_goes_on_as_if_it_had_never_stopped(kind: Literal["adam", "sgd"]) -> None:
    ends = []
    for stop in (False, True):
        weight = nn.Parameter(torch.ones(2, 3))
        optimizer = make_optimizer([Group([weight])], Optim(optimizer=kind), 0.1)
        for step in range(4):
            if stop and step == 2:
                saved = optimizer.state_dict()
                optimizer = make_optimizer([Group([weight])], Optim(optimizer=kind), 0.1)
                load_optimizer(optimizer, saved)
            weight.grad = torch.arange(6.0).view(2, 3) - step
            optimizer.step()
        ends.append(weight.detach().clone())
    assert torch.equal(*ends)


def test_the_state_of_other_parameters_is_refused() -> None:
    optimizer = make_optimizer([Group([nn.Parameter(torch.ones(2))])], Optim(), 0.1)
    with pytest.raises(ValueError, match="an optimizer of other parameters"):
        load_optimizer(optimizer, {"state": {}, "param_groups": [{"params": [0, 1]}]})


def test_settings_of_a_saved_optimizer_are_those_of_the_run() -> None:
    optimizer = make_optimizer([Group([nn.Parameter(torch.ones(2))])], Optim(weight_decay=0.5), 0.1)
    load_optimizer(optimizer, {"state": {}, "param_groups": [{"params": [0], "betas": [1], "weight_decay": "x"}]})
    assert optimizer.param_groups[0]["weight_decay"] == 0.5
