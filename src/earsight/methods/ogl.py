"""Object-guided localization (OGL): what a network that was trained on ImageNet finds salient, whatever is heard.

From Mo and Morgado, Localizing Visual Sounds the Easy Way, ECCV 2022; the SLAVC paper uses it alone and added to other
methods, which `object_prior.py` does for any method. Nothing is learned: the map is the mean over channels of the
absolute last features of a frozen ResNet-18.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from earsight.config import Inputs, Optim, need
from earsight.encoders.base import Encoders, make_image_encoder
from earsight.errors import TrainingError
from earsight.methods.base import Method, Preset, Stage
from earsight.types import Batch, Maps, Step


@dataclass(frozen=True)
class Config:
    """Settings of OGL. The defaults are the published code's."""

    weights: str = "imagenet"
    """The network: "imagenet", or a file with weights of a ResNet-18. "random" knows no objects and is for tests."""
    layer4_stride: int = 2
    """2 gives 7x7 maps at 224 px, as published; 1 gives 14x14, the grid of some methods that it may be added to."""
    scale: float = 2.5
    """Activation that counts as a score of 1; a few are higher."""

    def __post_init__(self) -> None:
        need(self.layer4_stride in (1, 2), "layer4_stride 1 or 2", self.layer4_stride)
        need(self.scale > 0, "a positive scale", self.scale)


class Model(Method):
    """A frozen picture encoder. Its name makes weights files readable wherever a file of a ResNet-18 is."""

    def __init__(self, config: Config, inputs: Inputs) -> None:
        super().__init__(inputs)
        self.config = config
        self.encoder = make_image_encoder(Encoders(layer4_stride=config.layer4_stride, weights=config.weights), inputs)
        self.requires_grad_(False)

    def train(self, mode: bool = True) -> Model:
        """Frozen all through: batch norms keep ImageNet's statistics."""
        super().train(mode)
        self.encoder.eval()
        return self

    def stages(self, epochs: int) -> tuple[Stage, ...]:
        return ()

    def loss(self, batch: Batch, counts: list[int]) -> Step:
        raise TrainingError(
            "Expected a method with something to learn, but got OGL, which is frozen. Use it as it is, or another."
        )

    def localize(self, pictures: Tensor, sounds: Tensor) -> Maps:
        found = self.encoder(self.encoder.preprocess(pictures)).abs().mean(1)
        # NOTE: the published scale is no bound: higher activations are not clipped and have scores above 1.
        return Maps(native=found, dense=found, bounds=(0.0, self.config.scale))


def official() -> Preset:
    """The published code of EZ-VSL and SLAVC."""
    return Preset(Config(), Inputs.official(), Optim(), "official")


PRESETS = {"official": official}
