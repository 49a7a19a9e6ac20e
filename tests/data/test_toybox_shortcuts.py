"""The built-in set is hard for shortcuts and fair to a method that listens."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn.functional import avg_pool2d

from earsight.config import Inputs
from earsight.data.clips import Limited
from earsight.data.sets.toybox import Toybox
from earsight.data.toys.scene import NAMES, draw_area, pitch_of
from earsight.data.toys.sound import toy_sound
from earsight.encoders.base import Encoders
from earsight.encoders.frontend import Spectrogram
from earsight.evaluation import center_prior
from earsight.methods.base import Method
from earsight.methods.slavc import Config, Model
from earsight.model_evaluation import evaluate
from earsight.protocols import get
from earsight.types import Batch, Maps, Step

QUICK = Inputs(image_size=64, resize=64, rate=4000, seconds=0.25, window=64, hop=32)


@lru_cache
def split(name: str) -> Toybox:
    return Toybox(name)


class Saliency(Method):
    """Points at what stands out: colours far from their surroundings, at two scales, and strong edges."""

    def __init__(self) -> None:
        super().__init__(QUICK)

    def loss(self, batch: Batch, counts: list[int]) -> Step:
        raise NotImplementedError

    def localize(self, frames: Tensor, waveforms: Tensor) -> Maps:
        x = frames.float() / 255
        mean = x.mean((2, 3), keepdim=True)
        contrast = (x - mean).norm(dim=1) + sum((x - blur(x, k)).norm(dim=1) for k in (9, 25))
        out = blur(contrast[:, None], 15)[:, 0]
        return Maps(out, out)


def blur(x: Tensor, side: int) -> Tensor:
    return avg_pool2d(x, side, 1, side // 2, count_include_pad=False)


def test_pointing_at_the_centre_fails() -> None:
    result = center_prior(split("test"), get("exact"))
    assert result.ceiling > 0.55
    assert result.metrics["loc_acc"] < result.ceiling - 0.25


@pytest.mark.slow
def test_pointing_at_what_stands_out_fails() -> None:
    clips = Limited(split("test"), 192)
    result = evaluate(Saliency(), clips, get("exact"))
    assert result.metrics["loc_acc"] < result.ceiling - 0.2


@pytest.mark.slow
def test_an_untrained_model_fails() -> None:
    clips = Limited(split("extended"), 256)
    scores = []
    for seed in range(3):
        torch.manual_seed(seed)
        model = Model(Config(encoders=Encoders("small", "small", width=8), dim=32), QUICK)
        result = evaluate(model, clips, get("exact"))
        scores.append(result.metrics["loc_acc"])
        assert result.metrics["auroc"] < 0.7
        assert result.metrics["ap"] < 0.4
    assert np.mean(scores) < result.ceiling - 0.25


def heard(seed: int, each: int) -> tuple[Tensor, Tensor]:
    """What is loud when and how fast it changes, for `each` toys of every class: features (N, F) and classes (N,)."""
    random = np.random.default_rng(seed)
    inputs = Inputs(image_size=64, resize=64, rate=11025, seconds=2.0, window=256, hop=160)
    waves = [
        toy_sound(name, pitch_of(draw_area(random), random), (seed, k, i), inputs.rate, inputs.seconds)
        for k, name in enumerate(NAMES)
        for i in range(each)
    ]
    x = Spectrogram(inputs)(torch.from_numpy(np.stack(waves)))[:, 0]
    levels = x.quantile(torch.tensor([0.05, 0.5, 0.95]), 2).permute(1, 0, 2).flatten(1)
    rhythm = torch.fft.rfft(x - x.mean(2, keepdim=True)).abs().mean(1).add(1e-3).log()
    harmonics = torch.fft.rfft(x.mean(2)).abs().log()
    return torch.cat([levels, rhythm, harmonics], 1), torch.arange(len(NAMES)).repeat_interleave(each)


@pytest.mark.slow
def test_classes_can_be_told_by_ear() -> None:
    """The nearest class mean is right more often than 4 times in 5, so a right method can win."""
    features, labels = heard(1, 40)
    mean, std = features.mean(0), features.std(0) + 1e-6
    centres = torch.stack([((features - mean) / std)[labels == k].mean(0) for k in range(len(NAMES))])
    others, answers = heard(2, 20)
    guess = torch.cdist((others - mean) / std, centres).argmin(1)
    assert (guess == answers).float().mean() > 0.8
