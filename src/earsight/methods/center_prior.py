"""Centre prior: a disc at the middle of every picture, whatever is seen and heard.

What the SLAVC paper's tables call "Center Prior". It learns nothing and listens to nothing, so a method that localizes
has to be above it. Its confidence is the same for all clips: it cannot tell whether a source is visible.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from earsight.config import Inputs, Optim
from earsight.errors import TrainingError
from earsight.methods.base import Method, Preset, Stage
from earsight.resampling import centre_disc
from earsight.types import Batch, Maps, Step


@dataclass(frozen=True)
class Config:
    """The centre prior has no settings."""


class Model(Method):
    """The same map for every pair, at the size of the picture that other methods would see."""

    def __init__(self, config: Config, inputs: Inputs) -> None:
        super().__init__(inputs)
        self.config = config
        self.register_buffer("disc", torch.from_numpy(centre_disc(inputs.image_size)), persistent=False)

    def stages(self, epochs: int) -> tuple[Stage, ...]:
        return ()

    def loss(self, batch: Batch, counts: list[int]) -> Step:
        raise TrainingError(
            "Expected a method with something to learn, but got the centre prior. Use it as it is, or another."
        )

    def localize(self, pictures: Tensor, sounds: Tensor) -> Maps:
        maps = self.get_buffer("disc").expand(pictures.shape[0], -1, -1)
        return Maps(native=maps, dense=maps, bounds=(0.0, 1.0), confidence=maps.new_ones(pictures.shape[0]))


def paper() -> Preset:
    """The row "Center Prior" of the SLAVC paper's tables."""
    return Preset(Config(), Inputs.official(), Optim(), "official")


PRESETS = {"paper": paper}
