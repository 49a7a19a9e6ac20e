"""The optimizer and its learning rate at every step."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import torch
from torch import nn

from earsight.config import Optim
from earsight.methods.base import Group


def make_optimizer(groups: Iterable[Group], settings: Optim, lr: float) -> torch.optim.Optimizer:
    """Adam, AdamW or SGD over groups of parameters; "share" is each group's learning rate over `lr`."""
    trained: list[dict[str, Any]] = [
        {
            "params": group.parameters,
            # A graph of kernels reads the rate where it is; a number would be part of the recording.
            "lr": _rate(lr if group.lr is None else group.lr, group.parameters, settings.graph),
            "share": 1.0 if group.lr is None else group.lr / lr,
            "weight_decay": settings.weight_decay if group.weight_decay is None else group.weight_decay,
        }
        for group in groups
    ]
    if settings.optimizer == "sgd":
        return torch.optim.SGD(trained, momentum=0.9)
    kind = torch.optim.AdamW if settings.optimizer == "adamw" else torch.optim.Adam
    on_gpu = all(p.is_cuda for group in trained for p in group["params"])
    return kind(trained, fused=on_gpu, capturable=settings.graph)


def _rate(rate: float, parameters: list[nn.Parameter], graph: bool) -> float | torch.Tensor:
    return torch.tensor(rate, device=parameters[0].device) if graph and parameters else rate


def load_optimizer(optimizer: torch.optim.Optimizer, state: dict[str, Any]) -> None:
    """Take back what a saved optimizer remembers of its parameters; a ValueError where it is not of these.

    Its settings are those of the run. Rates stay where they are, since a graph reads them there; every step sets them.
    """
    groups = optimizer.state_dict()["param_groups"]
    if [group["params"] for group in state["param_groups"]] != [group["params"] for group in groups]:
        raise ValueError("an optimizer of other parameters")
    parameters = [p for group in optimizer.param_groups for p in group["params"]]
    names = {"momentum_buffer"} if isinstance(optimizer, torch.optim.SGD) else {"step", "exp_avg", "exp_avg_sq"}
    remembered = {}
    for at, of_one in state["state"].items():
        if type(at) is not int or not 0 <= at < len(parameters) or of_one.keys() != names:
            raise ValueError(f"an optimizer that does not remember {', '.join(sorted(names))} of its parameters")
        remembered[at] = {name: _like(parameters[at], name, value) for name, value in of_one.items()}
    rates = [group["lr"] for group in optimizer.param_groups]
    optimizer.load_state_dict({"state": remembered, "param_groups": groups})
    for group, rate in zip(optimizer.param_groups, rates, strict=True):
        group["lr"] = rate


def _like(parameter: nn.Parameter, name: str, value: Any) -> torch.Tensor:
    """What was remembered of a parameter, laid out as the parameter is; the number of steps as it is."""
    shape = torch.Size() if name == "step" else parameter.shape
    if not isinstance(value, torch.Tensor) or value.shape != shape or not value.is_floating_point():
        raise ValueError(f"{name} of another shape or type than its parameter")
    return value.clone() if name == "step" else torch.empty_like(parameter, requires_grad=False).copy_(value)


def set_rate(optimizer: torch.optim.Optimizer, rate: float) -> None:
    """The step's learning rate for every group, in proportion to the group's own."""
    for group in optimizer.param_groups:
        if isinstance(group["lr"], torch.Tensor):
            group["lr"].fill_(rate * group["share"])
        else:
            group["lr"] = rate * group["share"]


def forget(optimizer: torch.optim.Optimizer, parameters: Iterable[nn.Parameter]) -> None:
    """Drop what the optimizer remembers of parameters whose values were drawn again."""
    for parameter in parameters:
        optimizer.state.pop(parameter, None)


def lr_at(step: int, total: int, settings: Optim, lr: float) -> float:
    """Learning rate of a step: a linear warm-up, then constant or half a cosine down to 0.

    >>> [lr_at(s, 100, Optim(warmup_steps=10), 1.0) for s in (0, 9, 99)]
    [0.1, 1.0, 1.0]
    >>> round(lr_at(50, 100, Optim(schedule="cosine"), 1.0), 6)
    0.5
    """
    if step < settings.warmup_steps:
        return lr * (step + 1) / settings.warmup_steps
    if settings.schedule == "constant":
        return lr
    done = (step - settings.warmup_steps) / max(total - settings.warmup_steps, 1)
    return lr * 0.5 * (1 + math.cos(math.pi * min(done, 1.0)))
