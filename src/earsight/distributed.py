"""All talk between processes. With one process every function is the identity or a constant.

Each process holds a part of the batch; together they must do what one process would do with all of it:

    process 0: clips 0 1 2        gather -> clips 0 1 2 3 4 5 on both, gradients flow back to where they came from
    process 1: clips 3 4 5        every process computes the same loss of the whole batch

The gradient of a gathered tensor is summed over processes and DDP averages parameter gradients, so the parameters get
exactly the gradient of one loss over the whole batch.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from datetime import timedelta
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.functional import pad

from earsight.errors import TrainingError

T = TypeVar("T")
PATIENCE = timedelta(hours=2)
"""How long a process waits for another, for example while the first one validates; torch's 10 minutes may be short."""


def start(device: str) -> bool:
    """Join the process group that torchrun announces in the environment; False when there is none, or already joined.

    Tensors on GPUs travel by NCCL. All else goes by gloo, for which no GPU has to finish its work first.
    """
    if int(os.environ.get("WORLD_SIZE", "1")) == 1 or dist.is_initialized():
        return False
    dist.init_process_group("cpu:gloo,cuda:nccl" if device.startswith("cuda") else "gloo", timeout=PATIENCE)
    return True


def stop() -> None:
    if dist.is_initialized():
        dist.destroy_process_group()


def world() -> int:
    return dist.get_world_size() if dist.is_initialized() else 1


def rank() -> int:
    return dist.get_rank() if dist.is_initialized() else 0


def local_rank() -> int:
    return int(os.environ.get("LOCAL_RANK", "0"))


def on_rank0(work: Callable[[], T]) -> T | None:
    """Let the first process do `work` while the others wait; an error there ends all of them, so none waits forever."""
    if world() == 1:
        return work()
    result, error = None, None
    if rank() == 0:
        try:
            result = work()
        except Exception as caught:  # whatever it is, the others must hear of it before it ends this process
            error = caught
    told = [None if error is None else f"{type(error).__name__}: {error}"]
    dist.broadcast_object_list(told, src=0)
    if error is not None:
        raise error
    if told[0] is not None:
        raise TrainingError(f"Expected the first process to go on, but it stopped with {told[0]}")
    return result


def all_gather_object(value: T) -> list[T]:
    """The value that each process brings, in order."""
    if world() == 1:
        return [value]
    values: list[Any] = [None] * world()
    try:
        dist.all_gather_object(values, value)
    except RuntimeError as error:  # a connection that another process closed when it stopped
        raise TrainingError(
            f"Expected all {world()} processes to go on, but another one stopped. Its own message says why."
        ) from error
    return values


def sizes(mine: int) -> list[int]:
    """How many clips each process holds; they differ when a clip could not be read."""
    if world() == 1:
        return [mine]
    out = [torch.zeros(1, dtype=torch.int64) for _ in range(world())]
    dist.all_gather(out, torch.tensor([mine]))
    return [int(x) for x in out]


class _Gather(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, counts: list[int]) -> Tensor:
        ctx.counts = counts
        most = max(counts)
        padded = pad(x, [0, 0] * (x.ndim - 1) + [0, most - x.shape[0]]).contiguous()
        parts = [torch.empty_like(padded) for _ in counts]
        dist.all_gather(parts, padded)
        return torch.cat([part[:count] for part, count in zip(parts, counts, strict=True)])

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:
        # A copy, because what comes in may also be another tensor's gradient.
        grad = grads[0].clone(memory_format=torch.contiguous_format)
        dist.all_reduce(grad)
        at = sum(ctx.counts[: rank()])
        return grad[at : at + ctx.counts[rank()]], None


def gather(x: Tensor, counts: list[int]) -> Tensor:
    """Rows of all processes in order, (n, ...) -> (sum of counts, ...), with gradient."""
    if len(counts) == 1:
        return x
    out: Tensor = _Gather.apply(x, counts)  # type: ignore[no-untyped-call]
    return out


def dropout(x: Tensor, rate: float, counts: list[int]) -> Tensor:
    """Element-wise dropout whose mask is drawn for the whole batch, so that it does not depend on how it is split.

    Every process has the same random state; each draws all rows and uses its own.
    """
    if rate == 0:
        return x
    keep = torch.rand((sum(counts), *x.shape[1:]), device=x.device) >= rate
    at = sum(counts[: rank()])
    return x * keep[at : at + x.shape[0]] / (1 - rate)


class _Sum(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        out = x.clone()
        dist.all_reduce(out)
        return out

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Tensor:
        grad = grads[0].clone()
        dist.all_reduce(grad)
        return grad


def _sum(x: Tensor) -> Tensor:
    out: Tensor = _Sum.apply(x)  # type: ignore[no-untyped-call]
    return out


class WholeBatchNorm(nn.modules.batchnorm._BatchNorm):
    """Batch norm over the clips of all processes. torch's own SyncBatchNorm does this on GPUs only."""

    def _check_input_dim(self, input: Tensor) -> None:
        """Any (B, C, ...) will do: this stands in for batch norms of every dimension."""

    @torch.compiler.disable  # type: ignore[untyped-decorator]
    def forward(self, x: Tensor) -> Tensor:
        if not self.training or world() == 1:
            return super().forward(x)
        wide = x.float()  # statistics in half precision would be useless
        over = [0, *range(2, x.ndim)]
        shape = [1, -1] + [1] * (x.ndim - 2)
        n = _sum(torch.full((1,), x.numel() / x.shape[1], device=x.device))
        mean = _sum(wide.sum(over)) / n
        # Two passes: the mean of squares minus the squared mean loses all digits where the mean is large.
        centred = wide - mean.view(shape)
        var = _sum((centred * centred).sum(over)) / n
        with torch.no_grad():
            if self.running_mean is not None and self.running_var is not None and self.num_batches_tracked is not None:
                self.num_batches_tracked += 1
                share = self.momentum if self.momentum is not None else 1 / int(self.num_batches_tracked)
                self.running_mean.lerp_(mean, share)
                self.running_var.lerp_(var * n / (n - 1), share)
        out = centred * torch.rsqrt(var + self.eps).view(shape)
        if self.affine:
            out = out * self.weight.view(shape) + self.bias.view(shape)
        return out.to(x.dtype)


def whole_batch_norms(module: nn.Module, device: str) -> nn.Module:
    """Make every batch norm see the whole batch: the number of processes must not change the method."""
    if world() == 1:
        return module
    if device.startswith("cuda"):
        converted: nn.Module = nn.SyncBatchNorm.convert_sync_batchnorm(module)  # type: ignore[no-untyped-call]
        return converted
    for part in module.modules():
        if type(part) in (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d):
            part.__class__ = WholeBatchNorm
    return module
