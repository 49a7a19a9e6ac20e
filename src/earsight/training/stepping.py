"""One training step: forward, backward, update, averages; on a GPU on request as one graph of kernels that is replayed.

Launching a step's thousand kernels one by one takes a CPU longer than they take the GPU. A graph of them is launched at
once. It repeats what was recorded, so it is only for methods whose steps are all alike (`Method.cuda_graph_safe`).
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn.parallel import DistributedDataParallel

from earsight import distributed
from earsight.config import Optim, Supervision, need
from earsight.device import placed
from earsight.encoders.base import Encoder
from earsight.methods.base import Method, Stage
from earsight.training.optim import set_rate
from earsight.training.supervision import Supervised
from earsight.types import Batch, Step

WARM = 3
"""Steps that are taken one kernel after another before a graph is recorded: they let libraries choose their kernels and
make the optimizer's memory."""


class Taken(NamedTuple):
    """What is left of a step: its loss and logs, (n,) in the order of `names`, still on the device."""

    names: tuple[str, ...]
    values: Tensor


Parts = tuple[tuple[str, tuple[int, ...]], ...]
"""Which tensors a batch has, and their shapes."""


class _Recorded(NamedTuple):
    graph: torch.cuda.CUDAGraph
    batch: Batch
    taken: Taken


class Stepper:
    """Takes training steps.

    Args:
        model: the method, on its device.
        stage: the stage that is trained.
        optimizer: over the method's groups, of `make_optimizer`.
        settings: precision, gradient clipping, and whether steps become a graph.
        supervision: ground truth in training.
        where: the device.
        usual: clips in a batch of this process that nothing is missing from; only such batches are compiled for.
    """

    def __init__(
        self, model: Method, stage: Stage, optimizer: torch.optim.Optimizer, settings: Optim, supervision: Supervision,
        where: torch.device, usual: int,
    ) -> None:  # fmt: skip
        self._model, self._optimizer, self._settings, self._where, self._usual = (
            model, optimizer, settings, where, usual,
        )  # fmt: skip
        self._step = wrap(model, supervision, stage)
        self._graphed = settings.graph
        self._recorded: _Recorded | None = None
        self._parts: Parts = ()
        self._warm = 0
        self.slow = 0
        """Steps on batches that clips were missing from, which were not compiled for and in no graph."""

    def __call__(self, batch: Batch, rate: float) -> Taken:
        """Learn from a batch at this learning rate."""
        set_rate(self._optimizer, rate)
        usual = len(batch) == self._usual
        self.slow += not usual
        if not (self._graphed and usual):
            with contextlib.nullcontext() if usual else eagerly():
                return self._take(batch)
        parts = _parts_of(batch)
        if parts != self._parts:  # a method may ask for more with each clip from some epoch on
            self._parts, self._recorded, self._warm = parts, None, 0
        if self._warm < WARM:
            self._warm += 1
            return self._take(batch)
        if self._recorded is None:
            self._recorded = self._record(batch)
        else:
            _copy(batch, self._recorded.batch)
        self._recorded.graph.replay()
        # The next replay writes into the same memory.
        return self._recorded.taken._replace(values=self._recorded.taken.values.clone())

    def _record(self, batch: Batch) -> _Recorded:
        """The step as a graph, on a copy of this batch; recording takes no step."""
        static = batch.each(torch.clone)
        self._optimizer.zero_grad(set_to_none=True)  # the graph makes its own gradients
        graph = torch.cuda.CUDAGraph()
        # Another thread may be copying batches to the GPU meanwhile, which is none of the graph's concern.
        with torch.cuda.graph(graph, capture_error_mode="thread_local"):
            taken = self._take(static)
        return _Recorded(graph, static, taken)

    def _take(self, batch: Batch) -> Taken:
        with torch.autocast(self._where.type, torch.bfloat16, enabled=self._settings.precision == "bf16"):
            step = self._step(batch)
        self._optimizer.zero_grad(set_to_none=True)
        step.loss.backward()  # type: ignore[no-untyped-call]
        if self._settings.clip_norm:
            torch.nn.utils.clip_grad_norm_(self._model.parameters(), self._settings.clip_norm)
        self._optimizer.step()
        self._model.after_step()
        return Taken(("loss", *step.logs), torch.stack([step.loss.detach().float(), *map(_scalar, step.logs.values())]))


def _scalar(value: Tensor) -> Tensor:
    return value.detach().float().reshape(())


def _parts_of(batch: Batch) -> Parts:
    return tuple((name, tuple(value.shape)) for name, value in batch.tensors().items())


def _copy(new: Batch, static: Batch) -> None:
    """Fill the tensors of a batch with those of another."""
    values = new.tensors()
    for name, x in static.tensors().items():
        x.copy_(values[name], non_blocking=True)


def wrap(model: Method, supervision: Supervision, stage: Stage | None = None) -> Callable[[Batch], Step]:
    """The method's training step, with gradients averaged over processes when there are several."""
    step = Supervised(model, supervision)
    if distributed.world() == 1:
        return step
    # Buffers are equal everywhere because batch norms see the whole batch.
    return DistributedDataParallel(
        step, broadcast_buffers=False, find_unused_parameters=stage is not None and stage.has_unused_parameters
    )


def prepared(model: Method, settings: Optim, where: torch.device) -> Method:
    """The method on its device, laid out and compiled as the settings ask."""
    placed(distributed.whole_batch_norms(model, where.type), where)
    if where.type == "cuda":
        torch.backends.cudnn.benchmark = not settings.deterministic
    if settings.compile:
        for module in model.modules():
            if isinstance(module, Encoder):
                module.compile(dynamic=False)
    return model


def need_graph(model: Method, name: str, settings: Optim, supervision: Supervision, where: torch.device) -> None:
    """Refuse --optim.graph where a step cannot be replayed, before anything is trained."""
    if not settings.graph:
        return
    need(where.type == "cuda", "a GPU for --optim.graph", where.type, "Train without it.")
    need(distributed.world() == 1, "one process for --optim.graph", distributed.world(), "Train without it.")
    need(settings.optimizer != "sgd", "adam or adamw for --optim.graph", settings.optimizer, "Train without it.")
    need(model.cuda_graph_safe, "a method whose steps are all alike for --optim.graph", name, "Train without it.")
    need(supervision.weight == 0, "no ground truth for --optim.graph", f"--supervision.weight {supervision.weight:g}",
         "Train without one of the two.")  # fmt: skip


def eagerly() -> contextlib.AbstractContextManager[Any]:
    """Run compiled modules as they are: for a few batches of another size, compiling takes longer than computing."""
    stance: contextlib.AbstractContextManager[Any] = torch.compiler.set_stance("force_eager")
    return stance
