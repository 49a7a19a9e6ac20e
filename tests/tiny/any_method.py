"""Any method of the methods folder, made tiny: its steps in one process or in several, and its runs."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import torch

import tiny
from earsight import distributed, registry
from earsight.methods.base import build
from earsight.models.encoders import Encoders
from earsight.train.loop import wrap
from tiny.parity import Outcome, part_of, whole_batch

SMALLER = {"dim": 8, "momentum": 0.9, "warmup": 1}
"""What is made smaller, where a method has it. Everything random stays, so that it is seen to repeat."""


def settings(name: str, **more: Any) -> Any:
    """A method's settings as its first preset has them, with small encoders, and `more` where it has them."""
    config = next(iter(registry.load("method", name).PRESETS.values()))().config
    changes: dict[str, Any] = {k: v for k, v in {**SMALLER, **more}.items() if hasattr(config, k)}
    for f in fields(config):
        if isinstance(getattr(config, f.name), Encoders):
            # The stride is the method's, because some need maps of more than a few places.
            changes[f.name] = replace(tiny.SMALL, layer4_stride=getattr(config, f.name).layer4_stride)
    return replace(config, **changes)


def steps(name: str, shares: tuple[int, ...], number: int = 3) -> Outcome:
    """Some steps of a method's first stage on this process's share of a batch."""
    torch.manual_seed(0)
    model = build(name, settings(name, warmup=0), tiny.INPUTS)  # all terms from the first step on
    model.start_stage(model.stages()[0])
    distributed.whole_batch_norms(model, "cpu").train()
    step_of = wrap(model)
    optimizer = torch.optim.SGD([p for p in model.parameters() if p.requires_grad], lr=1e-4)
    batch = part_of(whole_batch(), shares)
    for at in range(number):
        optimizer.zero_grad()
        step = step_of(batch)
        step.loss.backward()  # type: ignore[no-untyped-call]
        if at == 0:
            loss = float(step.loss.detach())
            gradient = {key: p.grad.clone() for key, p in model.named_parameters() if p.grad is not None}
        optimizer.step()
        model.after_step()
    return Outcome(loss, gradient, {key: value.clone() for key, value in model.state_dict().items()})
