"""A method with two stages: the second replaces and freezes modules, and clusters between epochs."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from earsight import distributed
from earsight.config import Inputs
from earsight.encoders.frontend import Pixels
from earsight.methods.base import Context, Method, Stage
from earsight.types import Batch, Maps, Step


@dataclass(frozen=True)
class Config:
    first: int = 2
    second: int = 3


class Model(Method):
    centre: Tensor
    places: Tensor

    def __init__(self, config: Config, inputs: Inputs) -> None:
        super().__init__(inputs)
        self.config = config
        self.body = nn.Sequential(nn.Conv2d(3, 4, 5, 4, bias=False), nn.BatchNorm2d(4), nn.ReLU())
        self.head: nn.Module = nn.Conv2d(4, 1, 1)
        self.register_buffer("centre", torch.zeros(4))
        self.stage = ""
        self.begun: list[str] = []
        self.pixels = Pixels()
        self.register_buffer("places", torch.zeros(0), persistent=False)

    def stages(self, epochs: int) -> tuple[Stage, ...]:
        return Stage("coarse", self.config.first), Stage("fine", self.config.second, lr=0.01)

    def start_stage(self, stage: Stage) -> None:
        self.stage = stage.name
        if stage.name == "fine":
            self.head = nn.Sequential(nn.Conv2d(4, 4, 1, bias=False), nn.BatchNorm2d(4), nn.Conv2d(4, 1, 1))
            self.body.requires_grad_(False)

    def on_epoch(self, context: Context) -> None:
        if context.epoch >= 0:
            features = context.extract(lambda batch: self.body(self.pixels(batch.frames)).mean((2, 3)))
            self.centre = features.nanmean(0)
            return
        self.begun.append(context.stage.name)
        if context.stage.name == "fine":
            found = context.extract(lambda batch: self.body(self.pixels(batch.frames)).mean((1, 2, 3)))
            self.places = found.nan_to_num(0) + torch.rand(len(context.rows))

    def loss(self, batch: Batch, counts: list[int]) -> Step:
        score = distributed.gather(self.score(batch.frames).mean((1, 2)), counts)
        wanted = distributed.gather(batch.frames.float().mean((1, 2, 3)) / 100, counts)
        if len(self.places):
            wanted = wanted + self.places[distributed.gather(batch.index, counts)]
        return Step((score - wanted).square().mean() + self.centre.mean())

    def score(self, frames: Tensor) -> Tensor:
        out: Tensor = self.head(self.body(self.pixels(frames)))[:, 0]
        return out

    def localize(self, frames: Tensor, waveforms: Tensor) -> Maps:
        maps = self.score(frames)
        return Maps(maps, maps)


PRESETS: dict[str, object] = {}
