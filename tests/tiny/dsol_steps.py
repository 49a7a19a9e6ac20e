"""Steps of each kind of DSOL's passes, in one process or in several, and a whole run of both stages."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

import tiny
from earsight import distributed
from earsight.config import Supervision
from earsight.methods import dsol
from earsight.training.job import Job
from earsight.training.loop import train
from earsight.training.step import wrap
from tiny.parity import CLIPS, Outcome, annotated, part_of, whole_batch

SETTINGS = dsol.Config(encoders=tiny.SMALL, dim=8, clusters=3, passes=2)


def job(**changes: Any) -> Job:
    """A run that localizes, clusters, classifies twice, and so on: three steps a pass, a state every other step."""
    return tiny.job(method="dsol", settings=replace(SETTINGS, **changes), limit=24, val="", epochs=2)


def make_model(**changes: Any) -> dsol.Model:
    """A model of tiny settings; the same one every time."""
    torch.manual_seed(0)
    return dsol.Model(replace(SETTINGS, **changes), tiny.INPUTS)


def model_in(kind: str, **changes: Any) -> dsol.Model:
    """A model before a "match", "classify" or "mix" step."""
    model = make_model(**{"mixtures": 2, "clusters": 5, **changes})
    model.labels = torch.arange(CLIPS) % 5
    model.dictionary.normal_()
    model.passed = int(kind == "classify")
    if kind == "mix":
        model.start_stage(model.stages(2)[1])
    return model


def steps(kind: str, shares: tuple[int, ...], variant: str = "music", weight: float = 0.0) -> Outcome:
    """Three steps of plain gradient descent on this process's share of a batch."""
    model = model_in(kind, variant=variant)
    distributed.whole_batch_norms(model, "cpu").train()
    step_of = wrap(model, Supervision(weight), model.stages(2)[int(kind == "mix")])
    optimizer = torch.optim.SGD([p for p in model.parameters() if p.requires_grad], lr=1e-4)
    batch = part_of(annotated(whole_batch()) if weight else whole_batch(), shares)
    for at in range(3):
        optimizer.zero_grad()
        step = step_of(batch)
        step.loss.backward()  # type: ignore[no-untyped-call]
        if at == 0:
            loss = float(step.loss.detach())
            gradient = {key: p.grad.clone() for key, p in model.named_parameters() if p.grad is not None}
        optimizer.step()
    return Outcome(loss, gradient, {key: value.clone() for key, value in model.state_dict().items()})


def run(out: Path) -> dict[str, Any]:
    """Both stages, and the state they end with."""
    train(job(mixtures=1), out, device="cpu")
    values: dict[str, Any] = torch.load(out / "state.pt", weights_only=True)
    return values
