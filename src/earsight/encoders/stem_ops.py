"""Batch norm, ReLU and 3x3 max pooling by 2 as one operation on a GPU, for pictures that lie channels-last.

Done one after another, these passes over the largest activation of a ResNet take a fifth of a training step, most of it
in the gradient of the pooling. Here the forward pass reads that activation twice (statistics, then pooling) and writes
only the pooled quarter; the backward pass sums over the pooled quarter, then reads and writes the activation once.

    x (B, C, H, W) -> mean, var (C,) -> y (B, C, h, w), winner (B, C, h, w) which of nine it was, top (B, C, h, w) its x

All sums run in a fixed order, so that a step repeats bit for bit.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from earsight.encoders import stem_kernels as kernels

# Found by trying on an H200, where they halve the time of the next best.
BLOCK = 128
"""Places that a program takes at a time when it sums."""
COLUMNS, BACK_COLUMNS = 8, 16
"""Neighbouring columns that a program takes when it pools, and on the way back."""
PROGRAMS = 528
"""Programs that sum, each over its share of the places."""
TOGETHER = 4
"""Channels whose sums one program joins."""

Pooled = tuple[Tensor, Tensor, Tensor, Tensor, Tensor]


def _like(x: Tensor, h: int, w: int, dtype: torch.dtype) -> Tensor:
    return torch.empty((x.shape[0], x.shape[1], h, w), dtype=dtype, device=x.device, memory_format=torch.channels_last)


def _up(count: int, by: int) -> int:
    return -(-count // by)


def _share(places: int) -> int:
    """Places of each program that sums, a multiple of what it takes at a time."""
    return BLOCK * _up(places, BLOCK * PROGRAMS)


@torch.library.custom_op("earsight::normed_pool", mutates_args=())
def normed_pool(x: Tensor, weight: Tensor, bias: Tensor, eps: float) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """y, mean, var, winner, top of x."""
    x = x.contiguous(memory_format=torch.channels_last)
    batch, channels, height, width = x.shape
    h, w = _up(height, 2), _up(width, 2)
    places = batch * height * width
    means, spreads = (torch.empty((PROGRAMS, channels), device=x.device) for _ in range(2))
    counts = torch.empty(PROGRAMS, device=x.device)
    mean, var = (torch.empty(channels, device=x.device) for _ in range(2))
    kernels.moments[(PROGRAMS,)](x, means, spreads, counts, places, _share(places), channels, BLOCK)
    kernels.joined_moments[(channels // TOGETHER,)](
        means, spreads, counts, mean, var, PROGRAMS, places, channels, TOGETHER, 256
    )
    y, top, winner = _like(x, h, w, x.dtype), _like(x, h, w, x.dtype), _like(x, h, w, torch.uint8)
    kernels.pool[(batch * h, _up(w, COLUMNS))](
        x, mean, var, weight, bias, y, winner, top, height, width, h, w, eps, channels, COLUMNS, num_warps=2
    )
    return y, mean, var, winner, top


@normed_pool.register_fake
def _(x: Tensor, weight: Tensor, bias: Tensor, eps: float) -> Pooled:
    h, w = _up(x.shape[2], 2), _up(x.shape[3], 2)
    mean, var = (torch.empty(x.shape[1], device=x.device) for _ in range(2))
    return _like(x, h, w, x.dtype), mean, var, _like(x, h, w, torch.uint8), _like(x, h, w, x.dtype)


@torch.library.custom_op("earsight::normed_pool_back", mutates_args=())
def normed_pool_back(
    grad: Tensor, x: Tensor, weight: Tensor, mean: Tensor, var: Tensor, winner: Tensor, top: Tensor, eps: float
) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients of x, weight and bias."""
    x = x.contiguous(memory_format=torch.channels_last)
    grad = grad.contiguous(memory_format=torch.channels_last)
    batch, channels, height, width = x.shape
    h, w = grad.shape[2:]
    places = batch * h * w
    plain, weighted = (torch.empty((PROGRAMS, channels), device=x.device) for _ in range(2))
    kernels.gradient_sums[(PROGRAMS,)](
        grad, winner, top, mean, var, plain, weighted, places, _share(places), eps, channels, BLOCK
    )
    dbias, dweight = plain.sum(0), weighted.sum(0)
    dx = torch.empty_like(x)
    kernels.gradient[(batch * height, _up(width, BACK_COLUMNS))](
        x, grad, winner, mean, var, weight, dbias, dweight, dx, height, width, h, w, batch * height * width, eps,
        channels, BACK_COLUMNS, num_warps=2,
    )  # fmt: skip
    return dx, dweight, dbias


@normed_pool_back.register_fake
def _(
    grad: Tensor, x: Tensor, weight: Tensor, mean: Tensor, var: Tensor, winner: Tensor, top: Tensor, eps: float
) -> tuple[Tensor, Tensor, Tensor]:
    return _like(x, x.shape[2], x.shape[3], x.dtype), torch.empty_like(weight), torch.empty_like(weight)


def _keep(ctx: Any, inputs: tuple[Any, ...], output: Pooled) -> None:
    x, weight, _, eps = inputs
    ctx.save_for_backward(x, weight, *output[1:])
    ctx.eps = eps


def _back(ctx: Any, grad: Tensor, *_: Tensor) -> tuple[Tensor, Tensor, Tensor, None]:
    dx, dweight, dbias = normed_pool_back(grad, *ctx.saved_tensors, ctx.eps)
    return dx, dweight, dbias, None


normed_pool.register_autograd(_back, setup_context=_keep)
