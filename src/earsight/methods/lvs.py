"""LVS: the sure part of a picture attracts its sound; other sounds, and the picture's own background, push it away.

Chen et al., "Localizing Visual Sounds the Hard Way", CVPR 2021. A soft trimap of a picture's own cosines tells sure
source (above `positive`), sure background (below `negative`) and the undecided rest, which no term looks at. There are
no projections: encoders are compared as they come out, 14x14 places at 224 px.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, logsigmoid, softplus

from earsight.config import Inputs, Optim, check_choices, need
from earsight.encoders.base import Encoders, global_max_pool, init_like_published, make_encoders
from earsight.losses import all_pairs, paired
from earsight.methods.base import Features, Preset, TwoTower, gather
from earsight.types import Batch, Maps, Step


def _encoders(weights: str = "imagenet") -> Encoders:
    return Encoders(layer4_stride=1, weights=weights)


@dataclass(frozen=True)
class Config:
    """Settings of LVS. The defaults are the published objective, without its two accidents, from ImageNet weights.

    The accidents are the diagonal of `published_diagonal` and a start that overwrites the ImageNet weights.
    """

    encoders: Encoders = field(default_factory=_encoders)
    form: Literal["code", "paper"] = "code"
    """The published code's cross-entropy over all candidates, or the paper's one exponent for all negatives."""
    positive: float = 0.65
    """Cosine above which a place counts as source."""
    negative: float = 0.4
    """Cosine below which a place counts as background; equal to `positive`, no place is undecided."""
    softness: float = 0.03
    """Width of the trimap's borders: what divides cosines inside its sigmoid."""
    temperature: float = 0.07
    """Divides the candidates' scores; the paper's form has none."""
    background: bool = True
    """Whether the picture's own background is a negative."""
    published_diagonal: bool = False
    """Take each pair out of its own negatives as the published code does, times -99, instead of leaving it out."""

    def __post_init__(self) -> None:
        check_choices(self)
        need(self.temperature > 0, "a positive temperature", self.temperature)
        need(self.softness > 0, "a positive softness", self.softness)
        need(-1 <= self.negative <= self.positive <= 1, "-1 <= negative <= positive <= 1",
             f"negative {self.negative} and positive {self.positive}")  # fmt: skip
        need(self.form == "code" or not self.published_diagonal, "published_diagonal with form 'code' only", self.form)


def mean_above(cosines: Tensor, level: float, softness: float) -> Tensor:
    """Mean of cosines (..., hw) weighted by how clearly each is above `level`: sum(m c) / sum(m), m a soft mask.

    The weights are a softmax of logarithms, because a mask in which no place passes adds up to 0.

    >>> round(float(mean_above(torch.tensor([0.65, 0.40]), 0.65, 0.03)), 6)
    0.64988
    """
    return (torch.softmax(logsigmoid((cosines - level) / softness), -1) * cosines).sum(-1)


def mean_below(cosines: Tensor, level: float, softness: float) -> Tensor:
    """The same for places below `level`, with the mask 1 - m.

    >>> round(float(mean_below(torch.tensor([0.65, 0.40]), 0.40, 0.03)), 6)
    0.40012
    """
    return -mean_above(-cosines, -level, softness)


def published_loss(pairs: Tensor, behind: Tensor | None, temperature: float, diagonal: bool) -> Tensor:
    """The code's cross-entropy: each picture's own sound among all sounds (N, N) and its own background (N,).

    `diagonal` repeats the own pair among the negatives, times -99. That hides it only while its score is positive.
    """
    own = torch.arange(len(pairs), device=pairs.device)
    columns = [pairs]
    if diagonal:
        hidden = pairs * (1 - 100 * torch.eye(len(pairs), device=pairs.device))
        own, columns = torch.zeros_like(own), [pairs.diagonal()[:, None], hidden]
    if behind is not None:
        columns.append(behind[:, None])
    return cross_entropy(torch.cat(columns, 1) / temperature, own)


def paper_loss(pairs: Tensor, behind: Tensor | None, means: Tensor) -> Tensor:
    """The paper's -log(e^P / (e^P + e^N)): P a picture's own score, N its background's plus all other pairs' `means`.

    NOTE: N is a sum over the batch, so its size goes with the batch size, as in the paper.
    """
    negative = means.sum(1) - means.diagonal()
    if behind is not None:
        negative = negative + behind
    return softplus(negative - pairs.diagonal()).mean()


class Model(TwoTower):
    cuda_graph_safe = True

    def __init__(self, config: Config, inputs: Inputs) -> None:
        super().__init__(inputs)
        self.config = config
        self.image, self.audio = make_encoders(config.encoders, inputs)
        if config.encoders.weights == "random":
            init_like_published(self.image)
        # NOTE: the published encoders have one width; where they differ, sounds are brought to that of pictures.
        self.audio_width: nn.Module = nn.Identity()
        if self.audio.channels != self.image.channels:
            self.audio_width = nn.Sequential(nn.Linear(self.audio.channels, self.image.channels), nn.ReLU())

    def project_audio(self, encoded: Tensor) -> Features:
        return {"sound": self.audio_width(global_max_pool(encoded))}

    def loss(self, batch: Batch, counts: list[int]) -> Step:
        image, audio = self.embed_images(batch.frames), self.embed_sounds(batch.waveforms)
        step = self.step(gather(image, counts), gather(audio, counts))
        return step if batch.truth is None else replace(step, maps=self.compare(image, audio))

    def step(self, image: Features, audio: Features, change: Callable[[Tensor], Tensor] | None = None) -> Step:
        """The loss of a whole batch's features; `change` may put other scores of pairs (N, N) in place of the own."""
        c = self.config
        cosines = all_pairs(image["places"], audio["sound"]).flatten(2)
        pairs = mean_above(cosines, c.positive, c.softness)
        logs = {"source": pairs.diagonal().mean().detach()}
        behind = mean_below(cosines.diagonal().T, c.negative, c.softness) if c.background else None
        if behind is not None:
            logs["background"] = behind.mean().detach()
        if change is not None:
            pairs = change(pairs)
        if c.form == "paper":
            loss = paper_loss(pairs, behind, cosines.mean(2))
        else:
            loss = published_loss(pairs, behind, c.temperature, c.published_diagonal)
        return Step(loss, logs)

    def compare(self, image: Features, audio: Features) -> Maps:
        cosine = paired(image["places"], audio["sound"])
        # Both encoders end in a ReLU, so no cosine is negative.
        return Maps(native=cosine, dense=cosine, bounds=(0.0, 1.0))


def official() -> Preset:
    """The published code (hche11/Localizing-Visual-Sounds-the-Hard-Way), 10 s of sound and random weights.

    NOTE: it was published without training. Optimizer and batch size are the paper's, epochs are those of all methods
    here, and the sample rate, which the code takes from the files, is the paper's too.
    """
    config = Config(encoders=_encoders("random"), published_diagonal=True)
    return Preset(config, Inputs(rate=16000, seconds=10.0), Optim(batch_size=256), "official")


def paper() -> Preset:
    """The paper's text: 3 s at 16 kHz and the loss without temperature.

    NOTE: no whole hop gives its 300 columns from 3 s; 159 samples give 299. Its pictures are resized without a crop;
    here the shorter side becomes 224 and the rest is cropped. Epochs are those of all methods here, and the start is
    ImageNet's, which the code asks for too before it overwrites it.
    """
    inputs = Inputs(resize=224, rate=16000, seconds=3.0, hop=159)
    return Preset(Config(form="paper"), inputs, Optim(batch_size=256), "paper")


PRESETS = {"official": official, "paper": paper}
