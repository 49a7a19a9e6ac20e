"""EZ-VSL against values computed by hand, and its settings against what the paper and the published code say."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import nn

import tiny
from earsight.config import Inputs
from earsight.encoders.base import no_start_weights
from earsight.errors import UsageError
from earsight.methods import slavc
from earsight.methods.ezvsl import Config, Model, both_ways, official, paper
from tiny import INPUTS, take_step
from tiny.noise import make_batch

SMALL = Config(encoders=tiny.SMALL, dim=8)


def make_model(**changes: object) -> Model:
    torch.manual_seed(0)
    return Model(replace(SMALL, **changes), INPUTS)  # type: ignore[arg-type]


def test_loss_equals_the_hand_computed_value() -> None:
    step = both_ways(torch.tensor([[1.0, 0.5], [0.2, 1.0]]))
    assert step.loss.item() == pytest.approx(0.845178, abs=1e-6)
    assert float(step.logs["loss_image"] + step.logs["loss_audio"]) == pytest.approx(0.845178, abs=1e-6)


def test_the_best_place_speaks_for_its_picture() -> None:
    """Features whose largest cosines are [[1, .5], [.2, 1]]; all other places have smaller ones."""
    model = make_model(temperature=1.0, dim=3)
    sounds = torch.eye(3)[:2]
    high = torch.tensor([[1.0, 0.0, 0.0], [0.2, 0.5, 0.0]])  # first picture's two places: cosines (1, 0) and (.2, .5)
    high[1, 2] = (1 - high[1].square().sum()).sqrt()
    low = torch.tensor([[0.0, 1.0, 0.0], [0.2, 0.0, 0.0]])
    low[1, 2] = (1 - low[1].square().sum()).sqrt()
    pictures = torch.stack([high.T, low.T]).view(2, 3, 1, 2)
    assert model.step(7 * pictures, 0.3 * sounds).loss.item() == pytest.approx(0.845178, abs=1e-6)


def test_loss_equals_a_slow_loop_over_pairs() -> None:
    model = make_model(temperature=0.5)
    torch.manual_seed(1)
    image, audio = torch.randn(3, 8, 2, 2), torch.randn(3, 8)
    scores = torch.zeros(3, 3)
    for n in range(3):
        for m in range(3):
            places = [nn.functional.cosine_similarity(image[n, :, y, x], audio[m], 0) for y in (0, 1) for x in (0, 1)]
            scores[n, m] = max(places) / 0.5
    p = scores.exp()
    slow = sum(-(p[i, i] / p[i].sum()).log() - (p[i, i] / p[:, i].sum()).log() for i in range(3)) / 3
    torch.testing.assert_close(model.step(image, audio).loss, slow)


def test_only_the_best_place_of_a_pair_gets_a_gradient() -> None:
    model = make_model()
    torch.manual_seed(1)
    image, audio = torch.randn(2, 8, 3, 3, requires_grad=True), torch.randn(2, 8)
    model.step(image, audio).loss.backward()  # type: ignore[no-untyped-call]
    assert image.grad is not None
    assert ((image.grad.abs().sum(1) > 0).flatten(1).sum(1) <= 2).all()  # one place for each of two sounds


def test_map_is_the_cosine_of_places_with_the_sound() -> None:
    model, batch = make_model().eval(), make_batch()
    with torch.no_grad():
        maps = model.localize(batch.frames, batch.waveforms)
        image, audio = model.embed_images(batch.frames)["places"], model.embed_sounds(batch.waveforms)["sound"]
    slow = nn.functional.cosine_similarity(image, audio[:, :, None, None], dim=1)
    torch.testing.assert_close(maps.dense, slow)
    assert maps.bounds == (-1.0, 1.0)


def test_it_is_slavc_without_decomposition_dropout_and_copies() -> None:
    model, batch = make_model(), make_batch()
    twin = slavc.Model(
        slavc.Config(
            encoders=SMALL.encoders, dim=8, visual_dropout=0.0, targets=False, decompose=False, pooling="max",
            audio_term="images", infer="loc",
        ),
        INPUTS,
    )  # fmt: skip
    renamed = {"image_proj": "image_heads.loc", "audio_proj": "audio_heads.loc"}
    state = {}
    for key, value in model.state_dict().items():
        part, rest = key.split(".", 1)
        state[f"online.{renamed.get(part, part)}.{rest}"] = value
    twin.load_state_dict(state)
    torch.testing.assert_close(take_step(model, batch).loss, take_step(twin, batch).loss)


def test_the_network_has_the_published_size() -> None:
    with no_start_weights():
        model = Model(Config(), Inputs())
    assert sum(p.numel() for p in model.parameters()) == 22_872_064
    assert len(model.state_dict()) == 244
    assert model.image_proj.weight.shape == (512, 512, 1, 1)
    assert model.audio_proj.weight.std().item() == pytest.approx(0.01, rel=0.02)
    assert model.audio_proj.bias.abs().max() > 0  # biases keep the framework's start
    with torch.no_grad():
        maps = model.eval().localize(torch.zeros(1, 3, 224, 224, dtype=torch.uint8), torch.zeros(1, 66150))
    assert maps.dense.shape == (1, 7, 7)


def test_presets_are_what_the_sources_say() -> None:
    code, text = official(), paper()
    assert code.config == text.config == Config(dim=512, temperature=0.03)
    assert (code.inputs.resize, text.inputs.resize) == (246, 256)
    assert replace(text.inputs, resize=246) == code.inputs
    assert code.optim == text.optim
    o = code.optim
    assert (o.optimizer, o.lr, o.weight_decay, o.schedule) == ("adam", 1e-4, 0.0, "constant")
    assert (o.batch_size, o.epochs) == (128, 20)
    assert (code.protocol, text.protocol) == ("official", "paper")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"temperature": 0.0}, "Expected a positive temperature, but got 0.0"),
        ({"dim": 0}, "Expected dim of at least 1, but got 0"),
    ],
)
def test_bad_settings_are_refused_with_what_was_expected(changes: dict[str, object], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        replace(SMALL, **changes)  # type: ignore[arg-type]
