"""Methods taken apart: what is seen and what is heard are found without asking the method."""

from __future__ import annotations

import pytest
import small
import torch
from torch import Tensor, fx

from earsight.errors import UsageError
from earsight.export.parts import Answers, take_apart
from earsight.methods import ezvsl
from earsight.types import Maps

FRAMES = torch.randint(0, 256, (3, 3, 32, 32), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
SOUNDS = 0.2 * torch.randn(4, small.INPUTS.samples, generator=torch.Generator().manual_seed(1))


def convolutions(part: fx.GraphModule) -> int:
    return sum("conv" in str(node.target) for node in part.graph.nodes)


@pytest.mark.parametrize("method", ["ezvsl", "slavc", "attention10k"])
def test_any_pairs_are_answered_as_the_method_answers_them(method: str) -> None:
    model, _ = small.tiny(method)
    apart = take_apart(model, FRAMES, SOUNDS[:3])
    picture, sound = torch.tensor([0, 2, 2, 1, 0]), torch.tensor([3, 1, 0, 3, 3])
    with torch.no_grad():
        wanted = Answers(model)(FRAMES[picture], SOUNDS[sound])
        seen = apart.see(FRAMES)
        for new in (3, 1, 0):  # the others are known
            found = apart(FRAMES[:new], SOUNDS, picture, sound, [x[new:] for x in seen])
            for got, want in zip(found, [*wanted, *(x[:new] for x in seen)], strict=True):
                torch.testing.assert_close(got, want, rtol=0, atol=1e-5)


def test_encoders_are_no_part_of_the_comparison() -> None:
    apart = take_apart(small.tiny()[0], FRAMES, SOUNDS[:3])
    assert convolutions(apart.see) >= 6
    assert convolutions(apart.hear) >= 5
    assert convolutions(apart.compare) == 0


def test_a_method_that_is_no_graph_is_refused() -> None:
    class Asks(ezvsl.Model):
        def localize(self, frames: Tensor, waveforms: Tensor) -> Maps:
            found = super().localize(frames, waveforms)
            return found.each(lambda x: x * 2) if float(waveforms.max()) > 0.5 else found

    _, config = small.tiny()
    with pytest.raises(UsageError, match=r"Expected a method whose localize can be written as one ONNX graph, but got"):
        take_apart(Asks(config, small.INPUTS).eval(), FRAMES, SOUNDS[:3])
