"""Slow copies of modules: exponential moving averages of parameters."""

from __future__ import annotations

import copy
from collections.abc import Iterable
from typing import TypeVar

import torch
from torch import Tensor, nn

M = TypeVar("M", bound=nn.Module)


def frozen_copy(module: M) -> M:
    """A copy that never receives gradients; buffers start equal and from then on are the copy's own."""
    twin = copy.deepcopy(module)
    twin.requires_grad_(False)
    return twin


@torch.no_grad()
def update(slow: Iterable[Tensor], online: Iterable[Tensor], momentum: float) -> None:
    """slow <- momentum * slow + (1 - momentum) * online, for parameters in matching order.

    >>> slow, online = [torch.zeros(1)], [torch.ones(1)]
    >>> update(slow, online, 0.9); update(slow, online, 0.9)
    >>> round(slow[0].item(), 6)
    0.19
    """
    slow, online = list(slow), [p.detach() for p in online]
    if slow:
        torch._foreach_lerp_(slow, online, 1 - momentum)
