"""LVS against values computed by hand and slow loops, and its settings against its two sources."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import tiny
from earsight.encoders.base import Encoders
from earsight.errors import UsageError
from earsight.losses import all_pairs
from earsight.methods.lvs import (
    Config,
    Model,
    mean_above,
    mean_below,
    official,
    paper,
    paper_loss,
    published_loss,
)
from earsight.types import Batch
from tiny import INPUTS, take_step
from tiny.noise import make_batch

SMALL = Config(encoders=tiny.SMALL)


def make_model(**changes: Any) -> Model:
    torch.manual_seed(0)
    return Model(replace(SMALL, **changes), INPUTS)


def features(model: Model, batch: Batch) -> tuple[Tensor, Tensor]:
    return model.embed_images(batch.frames)["places"], model.embed_sounds(batch.waveforms)["sound"]


def sigmoid(x: float) -> float:
    return 1 / (1 + math.exp(-x))


def slow_terms(cosines: Tensor) -> tuple[list[list[float]], list[float]]:
    """Masked means of all pairs and of each picture's background, place by place, as the published code has them."""

    def masked(values: list[float], mask: list[float]) -> float:
        return sum(m * v for m, v in zip(mask, values, strict=True)) / sum(mask)

    clips = range(len(cosines))
    values = cosines.flatten(2).tolist()
    pairs = [[masked(values[n][m], [sigmoid((v - 0.65) / 0.03) for v in values[n][m]]) for m in clips] for n in clips]
    behind = [masked(values[n][n], [1 - sigmoid((v - 0.4) / 0.03) for v in values[n][n]]) for n in clips]
    return pairs, behind


def test_the_trimap_of_two_places_equals_the_hand_computed_values() -> None:
    own = torch.tensor([0.65, 0.40])
    above, below = torch.sigmoid((own - 0.65) / 0.03), 1 - torch.sigmoid((own - 0.40) / 0.03)
    torch.testing.assert_close(above, torch.tensor([0.5, 0.000240]), atol=1e-6, rtol=0)
    torch.testing.assert_close(below, torch.tensor([0.000240, 0.5]), atol=1e-6, rtol=0)
    assert mean_above(own, 0.65, 0.03).item() == pytest.approx(0.649880, abs=1e-6)
    assert mean_below(own, 0.40, 0.03).item() == pytest.approx(0.400120, abs=1e-6)
    assert mean_above(own, 0.65, 0.03).item() == pytest.approx(float((above * own).sum() / above.sum()), abs=1e-6)
    assert mean_below(own, 0.40, 0.03).item() == pytest.approx(float((below * own).sum() / below.sum()), abs=1e-6)


def test_means_stay_finite_where_the_plain_mask_adds_up_to_nothing() -> None:
    """No place passes, or every place does: the quotient of sums is 0/0 in float32."""
    low, high = torch.full((3,), -1.0, requires_grad=True), torch.full((3,), 1.0, requires_grad=True)
    assert torch.sigmoid((low - 0.65) / 0.01).sum() == 0
    assert (1 - torch.sigmoid((high - 0.4) / 0.03)).sum() == 0
    assert mean_above(low, 0.65, 0.01).item() == pytest.approx(-1)
    assert mean_below(high, 0.4, 0.03).item() == pytest.approx(1)
    (mean_above(low, 0.65, 0.01) + mean_below(high, 0.4, 0.03)).backward()  # type: ignore[no-untyped-call]
    assert low.grad is not None
    assert high.grad is not None
    assert torch.isfinite(low.grad).all()
    assert torch.isfinite(high.grad).all()


@pytest.mark.parametrize("diagonal", [False, True])
def test_the_published_loss_equals_a_slow_loop_over_candidates(diagonal: bool) -> None:
    torch.manual_seed(1)
    cosines = torch.rand(3, 3, 2, 2, dtype=torch.float64)
    pairs, behind = slow_terms(cosines)
    total = 0.0
    for n in range(3):
        rest = [pairs[n][m] * (-99 if m == n else 1) for m in range(3) if diagonal or m != n]
        candidates = [math.exp(score / 0.07) for score in (pairs[n][n], *rest, behind[n])]
        assert len(candidates) == (5 if diagonal else 4)
        total -= math.log(candidates[0] / sum(candidates))
    fast = mean_above(cosines.flatten(2), 0.65, 0.03)
    back = mean_below(cosines.flatten(2).diagonal().T, 0.4, 0.03)
    torch.testing.assert_close(fast, torch.tensor(pairs, dtype=torch.float64))
    torch.testing.assert_close(back, torch.tensor(behind, dtype=torch.float64))
    assert published_loss(fast, back, 0.07, diagonal).item() == pytest.approx(total / 3, rel=1e-6)


def test_the_paper_loss_equals_a_slow_loop_over_pairs() -> None:
    torch.manual_seed(2)
    cosines = torch.rand(3, 3, 2, 2, dtype=torch.float64)
    pairs, behind = slow_terms(cosines)
    total = 0.0
    for n in range(3):
        negative = behind[n] + sum(float(cosines[n, m].mean()) for m in range(3) if m != n)
        total -= math.log(math.exp(pairs[n][n]) / (math.exp(pairs[n][n]) + math.exp(negative)))
    fast = paper_loss(torch.tensor(pairs), torch.tensor(behind), cosines.flatten(2).mean(2))
    assert fast.item() == pytest.approx(total / 3, rel=1e-6)


def test_the_published_diagonal_explodes_where_a_pairs_own_score_is_negative() -> None:
    """A score of -0.1 becomes a logit of +141 among the negatives; leaving the pair out cannot."""
    pairs, behind = torch.tensor([[-0.1]]), torch.tensor([0.0])
    logit = float(pairs * -99 / 0.07)
    assert logit == pytest.approx(141, abs=0.5)
    assert published_loss(pairs, behind, 0.07, diagonal=True).item() == pytest.approx((9.9 + 0.1) / 0.07, abs=1e-2)
    left_out = published_loss(pairs, behind, 0.07, diagonal=False).item()
    assert left_out == pytest.approx(math.log(1 + math.exp(0.1 / 0.07)), abs=1e-5)


def test_both_diagonals_agree_where_scores_are_clearly_positive() -> None:
    torch.manual_seed(3)
    pairs, behind = 0.2 + 0.8 * torch.rand(4, 4), torch.rand(4)
    torch.testing.assert_close(published_loss(pairs, behind, 0.07, True), published_loss(pairs, behind, 0.07, False))


def test_cosines_are_never_negative_because_both_encoders_end_in_a_relu() -> None:
    for encoders in (SMALL.encoders, Encoders(layer4_stride=1, weights="random")):
        model = make_model(encoders=encoders)
        batch = make_batch(2)
        with torch.no_grad():
            image, audio = features(model, batch)
        assert image.min() >= 0
        assert audio.min() >= 0


@pytest.mark.parametrize("changes", [{}, {"published_diagonal": True}, {"form": "paper"}, {"background": False}])
def test_the_training_step_is_the_loss_of_the_features(changes: dict[str, Any]) -> None:
    model, batch = make_model(**changes), make_batch()
    image, audio = features(model, batch)
    cosines = all_pairs(image, audio)
    pairs, behind = (torch.tensor(x) for x in slow_terms(cosines.detach().double()))
    back = None if changes.get("background") is False else behind
    if changes.get("form") == "paper":
        wanted = paper_loss(pairs, back, cosines.flatten(2).mean(2))
    else:
        wanted = published_loss(pairs, back, 0.07, bool(changes.get("published_diagonal")))
    step = take_step(model, batch)
    assert step.loss.item() == pytest.approx(wanted.item(), rel=1e-4)
    assert ("background" in step.logs) == (back is not None)
    step.loss.backward()
    assert all(p.grad is not None and torch.isfinite(p.grad).all() for p in model.parameters())


def test_maps_have_14_places_at_224_pixels_and_no_projections() -> None:
    torch.manual_seed(0)
    model = Model(replace(official().config), replace(INPUTS, image_size=224, resize=224)).eval()
    with torch.no_grad():
        maps = model.localize(torch.zeros(1, 3, 224, 224, dtype=torch.uint8), torch.rand(1, INPUTS.samples))
    assert maps.dense.shape == (1, 14, 14)
    assert {name.split(".")[0] for name, _ in model.named_parameters()} == {"image", "audio"}


def test_random_weights_start_as_published_in_the_picture_encoder_too() -> None:
    model = make_model(encoders=Encoders(weights="random"))
    norms = [m for m in model.image.modules() if isinstance(m, nn.BatchNorm2d)]
    assert len(norms) == 20
    assert all(0 < norm.weight.std() < 0.05 for norm in norms)


def test_presets_differ_exactly_where_the_sources_do() -> None:
    code, text = official(), paper()
    assert (code.config.form, text.config.form) == ("code", "paper")
    assert (code.config.published_diagonal, text.config.published_diagonal) == (True, False)
    assert (code.config.encoders.weights, text.config.encoders.weights) == ("random", "imagenet")
    assert (code.inputs.frames, text.inputs.frames) == (671, 299)
    assert (code.optim, code.optim.batch_size) == (text.optim, 256)
    same = replace(text.config, form="code", published_diagonal=True, encoders=code.config.encoders)
    assert same == code.config
    for preset in (code, text):
        values = preset.config.positive, preset.config.negative, preset.config.softness
        assert values == (0.65, 0.4, 0.03)
        assert preset.config.encoders.layer4_stride == 1


def test_the_defaults_are_the_published_objective_without_its_accidents() -> None:
    accidents = replace(Config(), published_diagonal=True, encoders=replace(Config().encoders, weights="random"))
    assert accidents == official().config


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"temperature": 0.0}, "Expected a positive temperature, but got 0.0"),
        ({"softness": -1.0}, "Expected a positive softness, but got -1.0"),
        ({"negative": 0.7}, "Expected -1 <= negative <= positive <= 1, but got negative 0.7 and positive 0.65"),
        ({"form": "paper", "published_diagonal": True}, "Expected published_diagonal with form 'code' only, but got"),
        ({"form": "other"}, "Expected form code or paper, but got 'other'"),
    ],
)
def test_bad_settings_are_refused_with_what_was_expected(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        replace(SMALL, **changes)
