"""The same steps in one process or in several: what they give is compared by tests/distributed."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

import tiny
from earsight import distributed
from earsight.config import Supervision
from earsight.errors import DataError, TrainingError
from earsight.methods.slavc import Model
from earsight.training.loop import train
from earsight.training.step import wrap
from earsight.types import Batch, Row

CLIPS = 8


class Outcome(NamedTuple):
    """Loss and gradient of one step, and the state after some steps of plain gradient descent."""

    loss: float
    gradient: dict[str, Tensor]
    state: dict[str, Tensor]


def whole_batch() -> Batch:
    random = torch.Generator().manual_seed(1)
    frames = torch.randint(0, 256, (CLIPS, 3, 32, 32), generator=random, dtype=torch.uint8)
    time = torch.arange(tiny.INPUTS.samples) / tiny.INPUTS.rate
    pitches = torch.linspace(200, 3000, CLIPS)[:, None]
    waves = 0.3 * torch.sin(2 * math.pi * pitches * time) + 0.1 * torch.randn(CLIPS, len(time), generator=random)
    return Batch(frames, waves, torch.arange(CLIPS), tuple(Row(f"clip{i}") for i in range(CLIPS)))


def part_of(batch: Batch, shares: tuple[int, ...]) -> Batch:
    at = slice(sum(shares[: distributed.rank()]), sum(shares[: distributed.rank() + 1]))
    more = (batch.truth, batch.supervised, batch.neighbour_pictures, batch.neighbour_sounds)
    mine = [None if x is None else x[at] for x in more]
    return Batch(batch.frames[at], batch.waveforms[at], batch.index[at], batch.rows[at], *mine)


def annotated(batch: Batch) -> Batch:
    """The batch with ground truth for half of its clips, of which the last process may have none."""
    truth = torch.zeros(len(batch), *batch.frames.shape[2:])
    truth[: len(batch) // 2, 8:24, 4:16] = 1
    return replace(batch, truth=truth, supervised=torch.arange(len(batch)) < len(batch) // 2)


def steps(preset: str, shares: tuple[int, ...], *, gather: str = "with gradient", half: bool = False) -> Outcome:
    """Four steps of SLAVC on this process's share. `gather` may break the talk between processes."""
    kept, distributed.gather = distributed.gather, GATHERS.get(gather, distributed.gather)
    torch.manual_seed(0)
    model = Model(tiny.config(preset), tiny.INPUTS)
    assert model.config.visual_dropout == 0.9
    assert any(isinstance(part, nn.BatchNorm2d) for part in model.modules())
    distributed.whole_batch_norms(model, "cpu").train()
    step_of = wrap(model, Supervision())
    optimizer = torch.optim.SGD([p for p in model.parameters() if p.requires_grad], lr=1e-3)
    batch = part_of(whole_batch(), shares)
    for number in range(4):
        optimizer.zero_grad()
        with torch.autocast("cpu", torch.bfloat16, enabled=half):
            step = step_of(batch)
        step.loss.backward()  # type: ignore[no-untyped-call]
        if number == 0:
            loss = float(step.loss.detach())
            gradient = {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}
        optimizer.step()
        model.after_step()
    distributed.gather = kept
    return Outcome(loss, gradient, {name: value.clone() for name, value in model.state_dict().items()})


def without_gradient(x: Tensor, counts: list[int]) -> Tensor:
    """What all-gather gives when nobody takes care: other processes' clips are constants."""
    at = sum(counts[: distributed.rank()])
    whole = distributed._Gather.apply(x.detach(), counts)  # type: ignore[no-untyped-call]
    return torch.cat([whole[:at], x, whole[at + len(x) :]])


def not_at_all(x: Tensor, counts: list[int]) -> Tensor:
    return x


GATHERS: dict[str, Any] = {"without gradient": without_gradient, "not at all": not_at_all}


def shared_gradient() -> Tensor:
    """The gradient of a tensor that is added to a gathered one: gathering must leave it alone."""
    counts = distributed.sizes(2)
    x, other = torch.ones(2, requires_grad=True), torch.ones(sum(counts), requires_grad=True)
    early = other * 1  # made before the gathering, so its gradient is worked on afterwards
    ((distributed.gather(x, counts) + early) * torch.ones(sum(counts))).sum().backward()  # type: ignore[no-untyped-call]
    assert other.grad is not None
    return other.grad


def told_by_first() -> str:
    """What a process learns when the first one cannot do its work."""

    def work() -> None:
        raise OSError("no space left")

    try:
        distributed.on_rank0(work)
    except (OSError, TrainingError) as error:
        return f"{type(error).__name__}: {error}"
    return ""


def norms(half: bool = False) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Batch norm of numbers far from 0 in two steps: output, gradient of the input, running mean and variance."""
    shares = {1: (CLIPS,), 2: (5, 3)}[distributed.world()]
    at = slice(sum(shares[: distributed.rank()]), sum(shares[: distributed.rank() + 1]))
    random = torch.Generator().manual_seed(0)
    x = 300 + 0.1 * torch.randn(CLIPS, 4, 6, generator=random)
    weight = torch.randn(CLIPS, 4, 6, generator=random)[at]
    norm: Any = distributed.whole_batch_norms(nn.Sequential(nn.BatchNorm1d(4, momentum=None)), "cpu")[0]  # type: ignore[index]
    mine = x[at].requires_grad_()
    for _ in range(2):
        out = norm(mine)
    (out * weight).sum().backward()
    assert mine.grad is not None
    return out.detach(), mine.grad, norm.running_mean, norm.running_var


def whole_run(out: Path, **changes: Any) -> dict[str, Any]:
    """A run of `train` and the state it ends with."""
    train(tiny.job(**changes), out, device="cpu")
    values: dict[str, Any] = torch.load(out / "state.pt", weights_only=True)
    return values


def extract(on: str, limit: int = 0) -> tuple[Tensor, Tensor]:
    """What a method gets between epochs: a feature and the place of every clip."""
    from earsight.training.plan import check
    from earsight.training.state import Position
    from earsight.training.validate import TrainingContext

    plan = check(tiny.job(on=on, limit=limit, val=""), Path("none"), torch.device("cpu"))
    model = plan.model
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    context = TrainingContext(plan, plan.stages[0], Position(epoch=1), optimizer)
    features = context.extract(lambda batch: batch.waveforms[:, :50])
    assert model.training
    return features, context.extract(lambda batch: batch.index)


def run_torn(out: Path, on: str, batch_size: int) -> dict[str, str] | str:
    """A run over clips of which some cannot be read: which, or the error that ended it."""
    try:
        train(tiny.job(on=on, val="", batch_size=batch_size, epochs=1), out, device="cpu")
    except DataError as error:
        return str(error)
    values: dict[str, Any] = torch.load(out / "state.pt", weights_only=True)
    failures: dict[str, str] = values["position"]["failures"]
    return failures


def fails_in(rank: int, where: str, out: Path) -> None:
    """A run in which one process fails, in the place named, as the first of them may."""
    from earsight.training import loop, validate
    from earsight.training.folder import RunFolder

    def stop(*args: Any, **options: Any) -> Any:
        raise DataError(f"Expected no trouble, but {where} has some. Look there.")

    if distributed.rank() == rank:
        loop.__dict__[where] = stop
        validate.__dict__[where] = stop
        if where == "begin":
            RunFolder.begin = stop  # type: ignore[method-assign]
        if where == "begin":
            RunFolder.begin = stop  # type: ignore[method-assign]
    train(tiny.job(epochs=1), out, device="cpu")


def run_two_stages(out: Path) -> dict[str, Any]:
    from tiny.two_stages import Config

    return whole_run(out, method="tiny.two_stages", settings=Config(), val="")


def first_weights(settings: Any = None) -> dict[str, Tensor]:
    """What a run of `tiny.job` starts from."""
    torch.manual_seed(0)
    return Model(settings or tiny.config(), tiny.INPUTS).state_dict()


def run_explodes(out: Path, after: int) -> str:
    """A run of a method with a part that no loss depends on, and the error that ends it."""
    from tiny.explodes import Config

    try:
        train(tiny.job(method="tiny.explodes", settings=Config(after), val="", epochs=1), out, device="cpu")
    except TrainingError as error:
        return str(error)
    return ""
