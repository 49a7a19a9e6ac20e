"""The spectrogram as one convolution: the same numbers as the usual one."""

from __future__ import annotations

import pytest
import torch

from earsight.config import Inputs
from earsight.export.check import sounds
from earsight.export.front import ExportFront
from earsight.models.frontend import FrontEnd

TINY = Inputs(image_size=32, resize=32, rate=8000, seconds=0.5, window=64, hop=48)


@pytest.mark.parametrize("inputs", [TINY, Inputs(), Inputs(rate=16000, seconds=1.0, window=160, hop=80)])
def test_it_hears_what_the_usual_front_end_hears(inputs: Inputs) -> None:
    heard = torch.from_numpy(sounds(inputs))
    usual, other = FrontEnd(inputs).sound(heard), ExportFront(inputs).sound(heard)
    assert other.shape == usual.shape == (6, 1, inputs.bins, inputs.frames)
    torch.testing.assert_close(other, usual, rtol=0, atol=1e-4)


def test_it_sees_what_the_usual_front_end_sees() -> None:
    frames = torch.randint(0, 256, (2, 3, 32, 32), dtype=torch.uint8)
    assert torch.equal(ExportFront(TINY).image(frames), FrontEnd(TINY).image(frames))
