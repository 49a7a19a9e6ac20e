"""Steps that are replayed as a graph are the steps that would have been taken one by one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest
import torch

import tiny
from earsight import registry
from earsight.config import Optim, Supervision
from earsight.errors import UsageError
from earsight.methods.base import Method, Stage, build
from earsight.training.plan import require_graph
from earsight.training.step import WARMUP_STEPS, Stepper, make_optimizer, prepared, wrap
from earsight.types import Batch
from tiny.any_method import settings
from tiny.lent import Lent, beside
from tiny.parity import whole_batch

CPU = torch.device("cpu")
METHODS = registry.names("method")
gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device here")


@pytest.fixture
def repeatable(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    torch.use_deterministic_algorithms(True)
    yield
    torch.use_deterministic_algorithms(False)


def made(name: str) -> Method:
    torch.manual_seed(0)
    return build(name, settings(name, warmup=0), tiny.INPUTS)


def begun(name: str, where: torch.device) -> tuple[Method, Stage, Batch]:
    """A method in its first stage, and a batch with all that it asks for."""
    model = made(name)
    stage = model.stages(1)[0]
    model.start_stage(stage)
    model.on_epoch(Lent(whole_batch(), stage=stage))
    return model, stage, beside(model, whole_batch(), whole_batch()).to(where)


def some(batch: Batch, at: list[int]) -> Batch:
    """The clips of a batch at these places."""
    parts = {name: value[at] for name, value in batch.tensors().items()}
    return replace(batch, **parts, rows=tuple(batch.rows[i] for i in at))


def losses(name: str, optim: Optim, sizes: tuple[int, ...], where: torch.device, rate: float = 1e-3) -> list[float]:
    """The losses of steps on batches of these sizes, with the learning rate going up."""
    model, stage, batch = begun(name, where)
    prepared(model, optim, where).train()
    optimizer = make_optimizer(model.groups(), optim, 1e-3)
    step = Stepper(wrap(model, Supervision(), stage), model, optimizer, optim, where, len(batch))
    torch.manual_seed(1)
    found = []
    for at, size in enumerate(sizes):
        kept = torch.randperm(len(batch), generator=torch.Generator().manual_seed(at))[:size].tolist()
        taken = step(some(batch, kept), rate * (at + 1))
        found.append(float(taken.values[0]))
    assert taken.names[0] == "loss"
    assert taken.values.shape == (len(taken.names),)
    return found


@pytest.mark.gpu
@gpu
@pytest.mark.parametrize("name", [name for name in METHODS if registry.load("method", name).Model.cuda_graph_safe])
def test_a_replayed_step_is_the_step_itself(name: str, repeatable: None) -> None:
    where, full = torch.device("cuda"), len(whole_batch())
    sizes = (*[full] * 6, full - 1, *[full] * 6)
    assert len(sizes) > 2 * WARMUP_STEPS
    plain = losses(name, Optim(deterministic=True), sizes, where)
    replayed = losses(name, Optim(deterministic=True, graph=True), sizes, where)
    assert plain == pytest.approx(replayed, rel=1e-5)
    assert len(set(plain)) == len(plain)


@pytest.mark.gpu
@gpu
def test_compiled_and_in_half_precision_a_replayed_step_is_close_to_the_plain_one() -> None:
    where, full = torch.device("cuda"), len(whole_batch())
    exact = losses("slavc", Optim(), (full,), where)
    plain = losses("slavc", Optim(precision="bf16"), (full,) * 10, where, 1e-5)
    fast = losses("slavc", Optim(graph=True, compile=True, precision="bf16"), (full,) * 10, where, 1e-5)
    assert plain == pytest.approx(fast, rel=0.02)
    assert plain[0] == pytest.approx(exact[0], rel=0.02)


def test_methods_that_draw_on_the_cpu_are_not_safe_for_a_graph() -> None:
    safe = {name for name in METHODS if registry.load("method", name).Model.cuda_graph_safe}
    assert {"slavc", "ezvsl", "marginnce", "fnac", "lvs", "hardpos", "avobject"} == safe


@pytest.mark.parametrize("name", [name for name in METHODS if registry.load("method", name).Model.cuda_graph_safe])
def test_a_step_that_is_safe_for_a_graph_draws_nothing_on_the_cpu_that_a_graph_would_repeat(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a GPU, what is drawn there is drawn anew at each replay; a number that Python holds is not."""
    model, _, batch = begun(name, CPU)
    model.train()

    def forbidden(*_: object, **__: object) -> None:
        raise AssertionError("a value was read back")

    for how in ("item", "tolist", "__bool__", "__int__", "__float__", "__index__"):
        monkeypatch.setattr(torch.Tensor, how, forbidden)
    model.loss(batch, [len(batch)])


def test_a_graph_is_refused_where_steps_cannot_be_replayed() -> None:
    graph, none, cuda = Optim(graph=True), Supervision(), torch.device("cuda")

    def refused(name: str, optim: Optim, supervision: Supervision, device: torch.device) -> None:
        job = replace(tiny.job(method=name, settings=settings(name)), optim=optim, supervision=supervision)
        require_graph(made(name), job, device)

    refused("dmc", Optim(), none, CPU)
    refused("slavc", graph, none, cuda)
    with pytest.raises(UsageError, match=r"Expected a GPU for --optim\.graph, but got cpu\. Train without it\."):
        refused("slavc", graph, none, CPU)
    with pytest.raises(UsageError, match=r"a method whose steps are all alike for --optim\.graph, but got dmc\."):
        refused("dmc", graph, none, cuda)
    with pytest.raises(UsageError, match=r"adam or adamw for --optim\.graph, but got sgd\."):
        refused("slavc", replace(graph, optimizer="sgd"), none, cuda)
    with pytest.raises(UsageError, match=r"no ground truth for --optim\.graph, but got --supervision\.weight 2\."):
        refused("slavc", graph, Supervision(weight=2.0), cuda)
