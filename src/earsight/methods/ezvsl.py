"""EZ-VSL: a sound must match at least one place of its own picture, and no place of any other.

Mo and Morgado, "Localizing Visual Sounds the Easy Way", ECCV 2022. Multiple-instance contrastive learning: a picture is
a bag of places, the best place speaks for the bag, and pictures and sounds find each other in both directions.
Object-guided localization (OGL), the paper's second part, needs no training and is no part of this file.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from torch import Tensor, nn

from earsight import distributed
from earsight.config import Inputs, Optim, check_choices, check_most, need
from earsight.encoders.base import Encoders, global_max_pool, init_like_published, make_encoders
from earsight.losses import all_pairs, match, paired, pool
from earsight.methods.base import Features, Preset, TwoTower
from earsight.types import Batch, Maps, Step


@dataclass(frozen=True)
class Config:
    """Settings of EZ-VSL. The defaults are the published code's."""

    encoders: Encoders = field(default_factory=Encoders)
    """Which networks see and hear."""
    dim: int = 512
    """Size of the projected features."""
    temperature: float = 0.03
    """Divides the cosines."""

    def __post_init__(self) -> None:
        check_choices(self)
        need(self.dim >= 1, "dim of at least 1", self.dim)
        check_most(self, dim=4096)
        need(self.temperature > 0, "a positive temperature", self.temperature)


class Model(TwoTower):
    """Two encoders, a projection for each, and the loss of the best places. Successors change `training_features` or
    `step`."""

    cuda_graph_safe = True

    def __init__(self, config: Config, inputs: Inputs) -> None:
        super().__init__(inputs)
        self.config = config
        self.image, self.audio = make_encoders(config.encoders, inputs)
        self.image_proj = nn.Conv2d(self.image.channels, config.dim, 1)
        self.audio_proj = nn.Linear(self.audio.channels, config.dim)
        init_like_published(self.image_proj)
        init_like_published(self.audio_proj)

    def loss(self, batch: Batch, counts: list[int]) -> Step:
        # NOTE: the published code leaves each GPU's negatives on it; here they are those of the whole batch.
        image, audio = self.training_features(batch, counts)
        step = self.step(distributed.gather(image["places"], counts), distributed.gather(audio["sound"], counts))
        return step if batch.truth is None else replace(step, maps=self.compare(image, audio))

    def training_features(self, batch: Batch, counts: list[int]) -> tuple[Features, Features]:
        """Features of this process's pictures and sounds; `counts` are all processes' clips."""
        return self.embed_images(batch.frames), self.embed_sounds(batch.waveforms)

    def step(self, image: Tensor, audio: Tensor) -> Step:
        """The loss of a whole batch's features, pictures (N, dim, h, w) and sounds (N, dim)."""
        return both_ways(pool(all_pairs(image, audio), "max") / self.config.temperature)

    def project_image(self, encoded: Tensor) -> Features:
        return {"places": self.image_proj(encoded)}

    def project_audio(self, encoded: Tensor) -> Features:
        return {"sound": self.audio_proj(global_max_pool(encoded))}

    def compare(self, image: Features, audio: Features) -> Maps:
        cosine = paired(image["places"], audio["sound"])
        # NOTE: the published map is this one over the temperature, which changes no threshold within the bounds.
        return Maps(native=cosine, dense=cosine, bounds=(-1.0, 1.0))


def both_ways(pairs: Tensor) -> Step:
    """Each picture finds its sound and each sound its picture, from pair scores (N, N): the sum, not the mean.

    >>> import torch
    >>> round(float(both_ways(torch.tensor([[1.0, 0.5], [0.2, 1.0]])).loss), 6)
    0.845178
    """
    see, hear = match(pairs, "audios"), match(pairs, "images")
    return Step(see + hear, {"loss_image": see.detach(), "loss_audio": hear.detach()})


def official() -> Preset:
    """The published code (stoneMo/EZ-VSL) with its scripts' settings for the large sets; small ones get 100 epochs."""
    return Preset(Config(), Inputs.official(), Optim(), "official")


def paper() -> Preset:
    """The paper's text, which scales pictures to 256 where the code has 246."""
    return Preset(Config(), replace(Inputs.official(), resize=256), Optim(), "paper")


PRESETS = {"official": official, "paper": paper}
