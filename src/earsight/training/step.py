"""One training step: loss, gradient, optimizer, averages; on a GPU on request as one graph of kernels that is replayed.

Launching a step's thousand kernels one by one takes a CPU longer than they take the GPU. A graph of them is launched at
once. It repeats what was recorded, so it is only for methods whose steps are all alike (`Method.cuda_graph_safe`).
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from earsight import distributed
from earsight.config import Optim, Supervision
from earsight.device import placed
from earsight.encoders.base import Encoder
from earsight.errors import UsageError
from earsight.methods.base import Group, Method, Stage
from earsight.types import Batch, Maps, Step

WARMUP_STEPS = 3
"""Steps that are taken one kernel after another before a graph is recorded: they let libraries choose their kernels and
make the optimizer's memory."""


class StepMetrics(NamedTuple):
    """Loss and logs of a step: (n,) in the order of `names`, still on the device."""

    names: tuple[str, ...]
    values: Tensor


class Supervised(nn.Module):
    """A method's loss with that of its annotated clips, when there is ground truth in the batch.

    The step that comes out has no maps: with several processes, torch would wait for gradients of all that made them.
    """

    def __init__(self, method: Method, settings: Supervision) -> None:
        super().__init__()
        self.method, self.settings = method, settings

    def forward(self, batch: Batch) -> Step:
        counts = distributed.sizes(len(batch))
        step = self.method.loss(batch, counts)
        if not self.settings.weight or batch.truth is None or batch.supervised is None:
            return Step(step.loss, step.logs)
        if step.maps is None:
            raise UsageError(
                "Expected a method whose training step makes maps, but this one makes none. "
                "Train it without --supervision.weight."
            )
        # All processes' maps, so that the mean runs over the annotated clips of the whole batch.
        which = distributed.gather(batch.supervised.float(), counts) > 0
        if not which.any():  # every step logs the same names
            return Step(step.loss, {**step.logs, "loss_supervised": step.loss.new_zeros(())})
        truth = distributed.gather(batch.truth, counts)[which]
        native, dense = (distributed.gather(x, counts)[which] for x in (step.maps.native, step.maps.dense))
        loss = self.method.supervised_loss(Maps(native, dense, step.maps.bounds), truth, self.settings.form)
        if self.settings.over == "batch":
            loss = loss * which.float().mean()
        logs = {**step.logs, "loss_supervised": loss.detach()}
        return Step(step.loss + self.settings.weight * loss, logs)


def wrap(model: Method, supervision: Supervision, stage: Stage | None = None) -> Callable[[Batch], Step]:
    """The method's training step, with gradients averaged over processes when there are several."""
    step = Supervised(model, supervision)
    if distributed.world() == 1:
        return step
    unused = stage is not None and stage.has_unused_parameters
    # Buffers are equal everywhere because batch norms see the whole batch.
    return DistributedDataParallel(step, broadcast_buffers=False, find_unused_parameters=unused)


def prepared(model: Method, settings: Optim, device: torch.device) -> Method:
    """The method on its device, laid out and compiled as the settings ask."""
    placed(distributed.whole_batch_norms(model, device.type), device)
    if device.type == "cuda":
        torch.backends.cudnn.benchmark = not settings.deterministic
    if settings.compile:
        for module in model.modules():
            if isinstance(module, Encoder):
                module.compile(dynamic=False)
    return model


def eagerly() -> contextlib.AbstractContextManager[Any]:
    """Run compiled modules as they are: for a few batches of another size, compiling takes longer than computing."""
    stance: contextlib.AbstractContextManager[Any] = torch.compiler.set_stance("force_eager")
    return stance


class _Recorded(NamedTuple):
    graph: torch.cuda.CUDAGraph
    batch: Batch
    metrics: StepMetrics


class Stepper:
    """Takes training steps.

    Args:
        step: the method's loss, of `wrap`.
        model: the method, on its device.
        optimizer: over the method's groups, of `make_optimizer`.
        settings: precision, gradient clipping, and whether steps become a graph.
        device: of the model.
        full_batch: clips in a batch of this process that nothing is missing from; only such batches are compiled for.
    """

    def __init__(self, step: Callable[[Batch], Step], model: Method, optimizer: torch.optim.Optimizer,
                 settings: Optim, device: torch.device, full_batch: int) -> None:  # fmt: skip
        self._loss, self._model, self._optimizer, self._settings = step, model, optimizer, settings
        self._device, self._full_batch = device, full_batch
        self._recorded: _Recorded | None = None
        self._shapes: dict[str, torch.Size] = {}
        self._warmed_up = 0
        self.irregular = 0
        """Steps on batches that clips were missing from, which were not compiled for and in no graph."""

    def __call__(self, batch: Batch, lr: float) -> StepMetrics:
        """Learn from a batch at this learning rate."""
        set_lr(self._optimizer, lr)
        if len(batch) != self._full_batch:
            self.irregular += 1
            with eagerly():
                return self._take(batch)
        if not self._settings.graph:
            return self._take(batch)
        shapes = {name: value.shape for name, value in batch.tensors().items()}
        if shapes != self._shapes:  # a method may ask for more with each clip from some epoch on
            self._shapes, self._recorded, self._warmed_up = shapes, None, 0
        if self._warmed_up < WARMUP_STEPS:
            self._warmed_up += 1
            return self._take(batch)
        return self._replay(batch)

    def _take(self, batch: Batch) -> StepMetrics:
        with torch.autocast(self._device.type, torch.bfloat16, enabled=self._settings.precision == "bf16"):
            step = self._loss(batch)
        self._optimizer.zero_grad(set_to_none=True)
        step.loss.backward()  # type: ignore[no-untyped-call]
        if self._settings.clip_norm:
            torch.nn.utils.clip_grad_norm_(self._model.parameters(), self._settings.clip_norm)
        self._optimizer.step()
        self._model.after_step()
        values = [value.detach().float().reshape(()) for value in (step.loss, *step.logs.values())]
        return StepMetrics(("loss", *step.logs), torch.stack(values))

    def _replay(self, batch: Batch) -> StepMetrics:
        """The step as a graph, which is recorded first where there is none yet."""
        if self._recorded is None:
            static = batch.each(torch.clone)
            self._optimizer.zero_grad(set_to_none=True)  # the graph makes its own gradients
            graph = torch.cuda.CUDAGraph()
            # Another thread may be copying batches to the GPU meanwhile, which is none of the graph's concern.
            with torch.cuda.graph(graph, capture_error_mode="thread_local"):
                metrics = self._take(static)  # recording takes no step
            self._recorded = _Recorded(graph, static, metrics)
        else:
            values = batch.tensors()
            for name, x in self._recorded.batch.tensors().items():
                x.copy_(values[name], non_blocking=True)
        self._recorded.graph.replay()
        # The next replay writes into the same memory.
        return self._recorded.metrics._replace(values=self._recorded.metrics.values.clone())


def make_optimizer(groups: Iterable[Group], settings: Optim, lr: float) -> torch.optim.Optimizer:
    """Adam, AdamW or SGD over groups of parameters; "share" is each group's learning rate over `lr`."""

    def own_lr(group: Group) -> float | Tensor:
        own = lr if group.lr is None else group.lr
        # A graph of kernels reads the rate where it is; a number would be part of the recording.
        return torch.tensor(own, device=group.parameters[0].device) if settings.graph and group.parameters else own

    trained: list[dict[str, Any]] = [
        {
            "params": group.parameters,
            "lr": own_lr(group),
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


def load_optimizer(optimizer: torch.optim.Optimizer, state: dict[str, Any]) -> None:
    """Take back what a saved optimizer remembers of its parameters; its settings are those of the run."""
    groups = optimizer.state_dict()["param_groups"]
    if [group["params"] for group in state["param_groups"]] != [group["params"] for group in groups]:
        raise ValueError("an optimizer of other parameters")
    optimizer.load_state_dict({"state": state["state"], "param_groups": groups})


def reset_optimizer_state(optimizer: torch.optim.Optimizer, parameters: Iterable[nn.Parameter]) -> None:
    """Drop what the optimizer remembers of parameters whose values were drawn again."""
    for parameter in parameters:
        optimizer.state.pop(parameter, None)


def set_lr(optimizer: torch.optim.Optimizer, lr: float) -> None:
    """The step's learning rate for every group, in proportion to the group's own."""
    for group in optimizer.param_groups:
        if isinstance(group["lr"], Tensor):
            group["lr"].fill_(lr * group["share"])
        else:
            group["lr"] = lr * group["share"]


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
