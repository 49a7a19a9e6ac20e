"""The spectrogram as one convolution: the same numbers as the usual one."""

from __future__ import annotations

import pytest
import torch

import tiny
from earsight.config import Inputs
from earsight.encoders.frontend import Spectrogram
from earsight.export.check import sounds
from earsight.export.front import ExportSpectrogram, replace_spectrograms
from earsight.methods import slavc

TINY = Inputs(image_size=32, resize=32, rate=8000, seconds=0.5, window=64, hop=48)


@pytest.mark.parametrize("inputs", [TINY, Inputs(), Inputs(rate=16000, seconds=1.0, window=160, hop=80)])
def test_it_gives_what_the_usual_spectrogram_gives(inputs: Inputs) -> None:
    heard = torch.from_numpy(sounds(inputs))
    usual, other = Spectrogram(inputs)(heard), ExportSpectrogram(inputs)(heard)
    assert other.shape == usual.shape == (6, 1, inputs.bins, inputs.frames)
    torch.testing.assert_close(other, usual, rtol=0, atol=1e-4)


def test_every_spectrogram_of_a_model_is_replaced_and_nothing_else() -> None:
    model = slavc.Model(tiny.config(), TINY)
    pictures = model.online.image.preprocess
    replace_spectrograms(model)
    assert isinstance(model.online.audio.preprocess, ExportSpectrogram)
    assert isinstance(model.target.audio.preprocess, ExportSpectrogram)
    assert model.online.image.preprocess is pictures
