"""MarginNCE: EZ-VSL with a negative margin, so that a pair need not beat pairs that may be as good.

Park, Senocak and Chung, "MarginNCE: Robust Sound Localization with a Negative Margin", ICASSP 2023. Clips found in the
wild pair sounds with unrelated pictures and have lookalikes among the negatives. A margin below 0 on the true pair's
cosine alone moves the decision boundary towards leniency.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from earsight.config import Inputs, Optim, need
from earsight.losses import all_pairs, pool
from earsight.methods import ezvsl
from earsight.methods.base import Preset
from earsight.types import Step


@dataclass(frozen=True)
class Config(ezvsl.Config):
    """Settings of MarginNCE: EZ-VSL's, another temperature, and the margin."""

    temperature: float = 0.07
    """Divides the cosines."""
    margin: float = -0.2
    """Taken off the cosine of a true pair: below 0 is lenient, 0 is EZ-VSL, above 0 is strict."""

    def __post_init__(self) -> None:
        super().__post_init__()
        need(-2 <= self.margin <= 2, "margin between -2 and 2, the largest difference of two cosines", self.margin)


class Model(ezvsl.Model):
    config: Config

    def step(self, image: Tensor, audio: Tensor) -> Step:
        cosine = pool(all_pairs(image, audio), "max")
        # NOTE: whether the paper adds or averages the two directions is not known; EZ-VSL's sum is kept. Without weight
        # decay Adam takes nearly the same steps for both.
        return ezvsl.both_ways(with_margin(cosine, self.config.margin) / self.config.temperature)


def with_margin(pairs: Tensor, margin: float) -> Tensor:
    """Similarities (N, N) with `margin` taken off those of true pairs, at n = m.

    >>> with_margin(torch.tensor([[0.5, 0.1], [0.1, 0.5]]), -0.25)
    tensor([[0.7500, 0.1000],
            [0.1000, 0.7500]])
    """
    return pairs - margin * torch.eye(len(pairs), device=pairs.device, dtype=pairs.dtype)


def paper() -> Preset:
    """The paper's loss in EZ-VSL's published setting; margin and temperature are not checked against its text.

    NOTE: no training code was published. Released weights fit EZ-VSL's network, hence the best place speaks for its
    picture.
    """
    return Preset(Config(), Inputs.official(), Optim(), "official")


PRESETS = {"paper": paper}
