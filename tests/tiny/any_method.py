"""Any method of the methods folder, made tiny: its steps in one process or in several, and its runs."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import torch

import tiny
from earsight import distributed, registry
from earsight.config import Supervision
from earsight.encoders.base import Encoders
from earsight.methods.base import build
from earsight.training.step import wrap
from tiny.lent import Lent, beside
from tiny.parity import Outcome, annotated, part_of, whole_batch

SMALLER = {"dim": 8, "momentum": 0.9, "warmup": 1, "labels": "clusters", "categories": 3, "weights": "random"}
"""What is made smaller, where a method has it. Everything random stays, so that it is seen to repeat."""


def settings(name: str, preset: str = "", **more: Any) -> Any:
    """A method's settings as a preset has them, or its first, with small encoders, and `more` where it has them."""
    presets = registry.load("method", name).PRESETS
    config = presets[preset or next(iter(presets))]().config
    changes: dict[str, Any] = {k: v for k, v in {**SMALLER, **more}.items() if hasattr(config, k)}
    for f in fields(config):
        if isinstance(getattr(config, f.name), Encoders):
            # The stride is the method's, because some need maps of more than a few places.
            changes[f.name] = replace(tiny.SMALL, layer4_stride=getattr(config, f.name).layer4_stride)
    return replace(config, **changes)


def flags(name: str) -> list[str]:
    """Flags of `earsight train` that make a method's networks small, where it has any."""
    has = {f.name for f in fields(registry.load("method", name).Config)}
    small = (
        ["--method.encoders.image", "small", "--method.encoders.audio", "small", "--method.encoders.width", "4"]
        if "encoders" in has
        else []
    )
    return small + (["--method.weights", "random"] if "weights" in has else [])


def stages(name: str) -> int:
    """How many stages a method's training has."""
    return len(build(name, settings(name), tiny.INPUTS).stages(1))


def steps(name: str, shares: tuple[int, ...], number: int = 3, last: int = 0, weight: float = 0.0) -> Outcome:
    """Some steps of a method's stage `last` on this process's share of a batch; the stages before it have none."""
    torch.manual_seed(0)
    model = build(name, settings(name, warmup=0), tiny.INPUTS)  # all terms from the first step on
    for stage in model.stages(1)[: last + 1]:
        model.start_stage(stage)
        model.on_epoch(Lent(whole_batch(), stage=stage))
    distributed.whole_batch_norms(model, "cpu").train()
    step_of = wrap(model, Supervision(weight), stage)
    optimizer = torch.optim.SGD([p for p in model.parameters() if p.requires_grad], lr=1e-4)
    batch = annotated(whole_batch()) if weight else whole_batch()
    batch = part_of(beside(model, batch, whole_batch()), shares)
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
