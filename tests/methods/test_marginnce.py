"""MarginNCE against values computed by hand, and against EZ-VSL, which it is without its margin."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch

from earsight.config import Inputs, from_json, to_json
from earsight.encoders.base import Encoders
from earsight.errors import UsageError
from earsight.losses import match
from earsight.methods import ezvsl
from earsight.methods.marginnce import Config, Model, paper, with_margin

INPUTS = Inputs(image_size=32, resize=36, rate=8000, seconds=1.0, window=128, hop=64)
SMALL = Config(encoders=Encoders("small", "small", weights="random", width=4), dim=2, temperature=1.0)
COSINES = torch.tensor([[0.5, 0.1], [0.1, 0.5]])


def make_model(**changes: object) -> Model:
    torch.manual_seed(0)
    return Model(replace(SMALL, **changes), INPUTS)  # type: ignore[arg-type]


@pytest.mark.parametrize(("margin", "wanted"), [(-0.2, 0.437488), (0.0, 0.513015)])
def test_each_direction_equals_the_hand_computed_value(margin: float, wanted: float) -> None:
    pairs = with_margin(COSINES, margin)
    assert match(pairs, "audios").item() == pytest.approx(wanted, abs=1e-6)
    assert match(pairs, "images").item() == pytest.approx(wanted, abs=1e-6)
    assert wanted == pytest.approx(math.log(1 + math.exp(-(0.4 - margin))), abs=1e-6)


def test_the_model_takes_the_margin_off_the_cosine_before_the_temperature() -> None:
    """Features with cosines .5 and .1: sounds of one direction each, pictures of one place that has both cosines."""
    rest = math.sqrt(1 - 0.5**2 - 0.1**2)
    pictures = torch.tensor([[0.5, 0.1, rest], [0.1, 0.5, rest]]).view(2, 3, 1, 1)
    sounds = torch.eye(3)[:2]
    for temperature in (1.0, 0.07):
        step = make_model(temperature=temperature).step(pictures, sounds)
        each = math.log(1 + math.exp(-0.6 / temperature))
        assert float(step.logs["loss_image"]) == pytest.approx(each, rel=1e-4)
        assert step.loss.item() == pytest.approx(2 * each, rel=1e-4)


def test_only_true_pairs_get_the_margin() -> None:
    changed = with_margin(torch.zeros(3, 3), -0.2)
    torch.testing.assert_close(changed, 0.2 * torch.eye(3))


def test_without_a_margin_it_is_ezvsl() -> None:
    torch.manual_seed(1)
    image, audio = torch.randn(4, 2, 3, 3), torch.randn(4, 2)
    base = ezvsl.Model(ezvsl.Config(SMALL.encoders, dim=2, temperature=1.0), INPUTS)
    assert torch.equal(make_model(margin=0.0).step(image, audio).loss, base.step(image, audio).loss)
    assert make_model(margin=-0.2).step(image, audio).loss < base.step(image, audio).loss
    assert make_model().state_dict().keys() == base.state_dict().keys()


def test_a_lenient_margin_weakens_the_pull_of_a_pair() -> None:
    gradients = []
    for margin in (0.0, -0.2):
        cosines = COSINES.clone().requires_grad_()
        match(with_margin(cosines, margin), "audios").backward()  # type: ignore[no-untyped-call]
        assert cosines.grad is not None
        gradients.append(cosines.grad.abs().sum())
    assert gradients[1] < gradients[0]


def test_the_preset_has_the_stated_values() -> None:
    preset = paper()
    assert (preset.config.margin, preset.config.temperature, preset.config.dim) == (-0.2, 0.07, 512)
    assert from_json(Config, to_json(preset.config)) == preset.config


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"margin": 3.0}, "Expected margin between -2 and 2, the largest difference of two cosines, but got 3.0"),
        ({"temperature": 0.0}, "Expected a positive temperature, but got 0.0"),
    ],
)
def test_bad_settings_are_refused_with_what_was_expected(changes: dict[str, object], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        replace(SMALL, **changes)  # type: ignore[arg-type]
