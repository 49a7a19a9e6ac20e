"""A method whose loss is not finite from its fourth step on, and one part of which no loss depends on."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from earsight.config import Inputs
from earsight.methods.base import Method, Stage
from earsight.types import Batch, Maps, Step


@dataclass(frozen=True)
class Config:
    after: int = 3


class Model(Method):
    def __init__(self, config: Config, inputs: Inputs) -> None:
        super().__init__(inputs)
        self.config = config
        self.scale = nn.Parameter(torch.ones(1))
        self.spare = nn.Parameter(torch.ones(1))
        self.register_buffer("steps", torch.zeros(1))

    def stages(self, epochs: int) -> tuple[Stage, ...]:
        return (Stage("main", epochs, has_unused_parameters=True),)

    def loss(self, batch: Batch, counts: list[int]) -> Step:
        self.steps += 1
        loss = (self.scale * batch.frames / 255).square().mean()
        return Step(loss * torch.where(self.steps > self.config.after, float("nan"), 1.0)[0], {"half": loss.detach()})

    def localize(self, frames: Tensor, waveforms: Tensor) -> Maps:
        maps = frames[:, 0] / 255
        return Maps(maps, maps)


PRESETS: dict[str, object] = {}
