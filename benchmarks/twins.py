"""The same weights in ours and in the reference, so that both give the same answers."""

from __future__ import annotations

from itertools import chain

import torch
from torch import nn

from benchmarks.reference.training import Slavc
from earsight.methods import slavc


def twin(model: slavc.Model, pair: tuple[nn.Module, nn.Module, int]) -> Slavc:
    """The reference with our weights; `pair` are its encoders, of the same layers in the same order."""
    config = model.config
    plain = Slavc(pair, config.dim, config.temperature, config.visual_dropout, config.momentum)
    for ours, theirs in ((model.online, plain.online), (model.target, plain.target)):
        for name in ("image", "audio", "image_loc", "audio_loc", "image_avc", "audio_avc"):
            _copy(getattr(ours, name), getattr(theirs, name))
    return plain


@torch.no_grad()
def _copy(source: nn.Module, to: nn.Module) -> None:
    here, there = (list(chain(module.parameters(), module.buffers())) for module in (source, to))
    for ours, theirs in zip(here, there, strict=True):
        theirs.copy_(ours)
