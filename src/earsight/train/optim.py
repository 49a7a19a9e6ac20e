"""The optimizer and its learning rate at every step."""

from __future__ import annotations

import math
from collections.abc import Iterable

import torch
from torch import nn

from earsight.config import Optim


def make_optimizer(parameters: Iterable[nn.Parameter], settings: Optim, lr: float) -> torch.optim.Optimizer:
    """Adam or AdamW over the parameters that want gradients."""
    kind = torch.optim.AdamW if settings.optimizer == "adamw" else torch.optim.Adam
    trained = [p for p in parameters if p.requires_grad]
    return kind(trained, lr=lr, weight_decay=settings.weight_decay, fused=all(p.is_cuda for p in trained))


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
