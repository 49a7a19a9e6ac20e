"""The same weights in ours and in the reference, so that both give the same answers."""

from __future__ import annotations

import torch
from torch import nn

from benchmarks.reference.training import Slavc
from earsight.methods import slavc


def twin(model: slavc.Model, pair: tuple[nn.Module, nn.Module, int]) -> Slavc:
    """The reference with our weights; `pair` are its encoders, of the same layers in the same order."""
    config = model.config
    plain = Slavc(pair, config.dim, config.temperature, config.visual_dropout, config.momentum)
    for ours, theirs in ((model.online, plain.online), (model.target, plain.target)):
        for side in ("image", "audio"):
            _copy(getattr(ours, side), getattr(theirs, side))
            for head in ("loc", "avc"):
                _copy(getattr(ours, f"{side}_heads")[head], getattr(theirs, f"{side}_{head}"))
    return plain


@torch.no_grad()
def _copy(source: nn.Module, to: nn.Module) -> None:
    for ours, theirs in zip(source.state_dict().values(), to.state_dict().values(), strict=True):
        theirs.copy_(ours)
