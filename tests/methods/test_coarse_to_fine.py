"""CoarsetoFine against values computed by hand, and its traps."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn.functional import normalize

from earsight.category_places import combined, fine_loss, pair_loss, shares
from earsight.config import Inputs
from earsight.encoders.base import Encoders
from earsight.methods.coarse_to_fine import Config, Model
from tiny import take_step
from tiny.coarse import COARSE, FINE, make_batch, make_model

ALL = torch.ones(1, 2, dtype=torch.bool)


def zero_heads(model: Model) -> None:
    for head in (model.image_classes, model.audio_classes, model.pair_in, model.pair_out):
        for p in head.parameters():
            nn.init.zeros_(p)


# Hand-computed values of the first stage (C1).


def test_pairs_about_which_nothing_is_known_cost_ln_2() -> None:
    assert pair_loss(torch.zeros(4, 4, 2)).item() == pytest.approx(math.log(2))


def test_own_and_other_pairs_count_half_each() -> None:
    logits = torch.tensor([math.log(4), 0.0]).repeat(3, 3, 1)
    logits[range(3), range(3)] = torch.tensor([0.0, math.log(3)])
    assert pair_loss(logits).item() == pytest.approx(0.25541, abs=1e-5)


def test_heads_of_zero_and_targets_of_one_half_cost_3_ln_2() -> None:
    model = make_model(COARSE)
    zero_heads(model)
    half = torch.full((6, 3), 0.5)
    model.load_training_state({"sound_labels": half, "picture_labels": half})
    assert take_step(model, make_batch()).loss.item() == pytest.approx(2.07944, abs=1e-5)


def test_a_clip_alone_has_no_other_pairs() -> None:
    assert pair_loss(torch.zeros(1, 1, 2)).item() == pytest.approx(0.5 * math.log(2))
    for stage in (COARSE, FINE):
        model = make_model(stage).eval()
        loss = take_step(model, make_batch(1)).loss
        loss.backward()
        assert torch.isfinite(loss)
        assert all(torch.isfinite(p.grad).all() for p in model.parameters() if p.grad is not None)


# Hand-computed values of the second stage (C2).


@pytest.mark.parametrize(
    ("pictures", "heard", "wanted"),
    [
        ([[1.0, 0.0], [0.0, 1.0]], [True, True], (0.0, 0.0)),
        ([[1.0, 0.0], [1.0, 0.0]], [True, True], (1.0, 0.98)),
        ([[1.0, 0.0], [1.0, 0.0]], [True, False], (0.0, 1.96)),
    ],
)
def test_one_clip_of_two_categories_equals_the_hand_computed_values(
    pictures: list[list[float]], heard: list[bool], wanted: tuple[float, float]
) -> None:
    found = fine_loss(torch.eye(2)[None], torch.tensor([pictures]), torch.tensor([heard]), ALL, 1.4)
    assert (found.near.item(), found.apart.item()) == pytest.approx(wanted, abs=5e-4)  # the root of 0 is that of 1e-8
    assert found.pairs.item() == sum(heard)


def test_only_active_rows_are_compared_and_the_loss_is_that_of_all_of_them_masked() -> None:
    torch.manual_seed(1)
    sounds, pictures = (normalize(torch.randn(5, 4, 3), dim=2) for _ in range(2))
    heard, seen = torch.rand(5, 4) > 0.5, torch.rand(5, 4) > 0.4
    near = apart = nears = aparts = 0.0
    for p in range(20):
        for q in range(20):
            active = float(heard.flatten()[p] and seen.flatten()[q])
            square = 2 - 2 * float(sounds.flatten(0, 1)[p] @ pictures.flatten(0, 1)[q])
            if p == q:
                near, nears = near + active * square, nears + active
            else:
                apart, aparts = apart + active * max(1.4 - math.sqrt(square), 0) ** 2, aparts + active
    found = fine_loss(sounds, pictures, heard, seen, 1.4)
    assert (found.near.item(), found.apart.item()) == pytest.approx((near / nears, apart / aparts), rel=1e-4)


def test_as_many_categories_as_vggsound_has_classes_fit_when_few_are_active() -> None:
    vectors = normalize(torch.randn(128, 309, 4), dim=2)
    active = torch.zeros(128, 309, dtype=torch.bool)
    active[:, :2] = True
    found = fine_loss(vectors, vectors, active, active, 1.4)  # all rows together would be 1.6e9 distances
    assert found.pairs.item() == 256
    assert found.near.item() == pytest.approx(0, abs=1e-5)


# Hand-computed maps (C3).


CELLS = torch.tensor([[1.0, 0.0], [0.0, 1.0], [0.5**0.5, 0.5**0.5], [-1.0, 0.0]])


@pytest.mark.parametrize(
    ("double", "wanted"), [(False, [1.0, 0.0, 0.70711, 0.0]), (True, [0.81351, 0.60071, 1.0, 0.0])]
)
def test_the_map_of_four_places_equals_the_hand_computed_values(double: bool, wanted: list[float]) -> None:
    probability = torch.tensor([[0.9, 0.1]])
    cosines = CELLS.T.reshape(1, 2, 2, 2)
    native, _ = combined(cosines, probability.sigmoid() if double else probability, 0.3)
    torch.testing.assert_close(native.flatten(), torch.tensor(wanted), atol=1e-5, rtol=0)


def test_with_two_sigmoids_every_category_is_active_and_weighs_nearly_the_same() -> None:
    probability = torch.tensor([0.0, 1.0]).sigmoid()
    assert (probability > 0.3).all()
    assert probability.tolist() == pytest.approx([0.5, 0.73106], abs=1e-5)


def test_double_sigmoid_changes_the_map_and_not_the_training() -> None:
    one, two, batch = make_model(), make_model(double_sigmoid=True), make_batch()
    for model in (one, two):
        with torch.no_grad():
            model.audio_classes.weight.mul_(20)  # else both sigmoids lie near their middle
    assert take_step(one, batch).loss.item() == take_step(two, batch).loss.item()
    with torch.no_grad():
        maps = [model.eval().localize(batch.frames, batch.waveforms) for model in (one, two)]
    assert not torch.allclose(maps[0].dense, maps[1].dense, atol=1e-3)
    assert torch.equal(maps[0].confidence, maps[1].confidence)  # type: ignore[arg-type]


def test_the_likeliest_category_is_active_even_below_the_level() -> None:
    cosines = CELLS.T.reshape(1, 2, 2, 2)
    _, dense = combined(cosines, torch.tensor([[0.1, 0.2]]), 0.3)
    torch.testing.assert_close(dense.flatten(), CELLS[:, 1])
    _, impossible = combined(cosines, torch.zeros(1, 2), 0.3)  # sigmoids underflow to 0
    assert torch.isfinite(impossible).all()


# Traps.


def test_the_native_map_has_a_plateau_and_the_dense_one_none_in_the_same_order() -> None:
    torch.manual_seed(0)
    cosines = 2 * torch.rand(4, 3, 7, 7) - 1.5
    native, dense = (x.flatten(1) for x in combined(cosines, torch.tensor([[0.9, 0.8, 0.1]]).expand(4, 3), 0.3))
    for i in range(4):
        assert (native[i] == 0).sum() > 10
        assert len(dense[i].unique()) == 49
        shown = native[i] > 0
        assert dense[i][shown].min() > dense[i][~shown].max()
        assert torch.equal(native[i][shown].argsort(), dense[i][shown].argsort())


def test_where_no_category_is_anywhere_the_native_map_is_zero_and_the_dense_one_still_tells() -> None:
    native, dense = combined(-torch.rand(2, 3, 4, 4) - 0.01, torch.rand(2, 3), 0.3)
    assert (native == 0).all()
    assert all(len(one.unique()) == 16 for one in dense.flatten(1))


def test_the_maximum_of_the_native_map_is_no_confidence_and_the_pair_classifier_is() -> None:
    model, batch = make_model().eval(), make_batch()
    with torch.no_grad():
        maps = model.localize(batch.frames, batch.waveforms)
        picture, sound = model.encode_images(batch.frames), model.encode_sounds(batch.waveforms)
        logits = model.pair_logits(model.pooled(picture), model.pooled(sound))
    assert maps.confidence is not None
    torch.testing.assert_close(maps.native.amax((1, 2)), torch.ones(6))
    torch.testing.assert_close(maps.confidence, logits.softmax(2)[..., 1].diagonal())
    assert maps.confidence.std() > 0


def test_all_pairs_are_classified_as_each_alone_would_be() -> None:
    model = make_model()
    pictures, sounds = torch.rand(3, 16), torch.rand(4, 16)
    logits = model.pair_logits(pictures, sounds)
    for n in range(3):
        for m in range(4):
            alone = model.pair_out(model.pair_in(torch.cat((pictures[n], sounds[m]))).relu())
            torch.testing.assert_close(logits[n, m], alone)


@pytest.mark.parametrize("heard", [[True, True], [True, False], [False, False]])
def test_equal_vectors_have_finite_gradients_also_where_they_are_masked(heard: list[bool]) -> None:
    """The root of the distance is infinitely steep at 0, and 0 times infinity is NaN."""
    sounds = torch.tensor([[[0.6, 0.8], [0.6, 0.8]]], requires_grad=True)
    pictures = (sounds.detach() * (1 + 1e-6)).requires_grad_()  # by rounding, nearer than 0
    found = fine_loss(sounds, pictures, torch.tensor([heard]), ALL, 1.4)
    (found.near + found.apart).backward()
    assert torch.isfinite(found.apart)
    for x in (sounds, pictures):
        assert x.grad is not None
        assert torch.isfinite(x.grad).all()


def test_without_an_active_category_the_second_stage_adds_nothing_and_says_so() -> None:
    model, batch = make_model(active=0.999), make_batch()
    step = take_step(model, batch)
    assert step.logs["active"].item() == step.logs["loss_near"].item() == step.logs["loss_apart"].item() == 0
    step.loss.backward()
    for p in model.project_sound.parameters():
        assert p.grad is not None
        assert p.grad.abs().max() == 0
    assert take_step(make_model(), batch).logs["active"].item() > 0


def test_a_category_that_no_place_speaks_for_is_the_plain_mean() -> None:
    features = torch.rand(2, 4, 3, 3)
    found = shares(features, -torch.ones(2, 4))
    torch.testing.assert_close(found, features.mean((2, 3))[:, None].expand(2, 2, 4))


def test_shares_are_means_weighted_by_class_activations_that_get_no_gradient() -> None:
    torch.manual_seed(0)
    features, heads = torch.rand(2, 4, 3, 5, requires_grad=True), torch.randn(3, 4, requires_grad=True)
    found = shares(features, heads)
    for b in range(2):
        for k in range(3):
            activation = (heads[k, :, None, None] * features[b]).sum(0).relu()
            slow = (features[b] * activation).sum((1, 2)) / activation.sum()
            torch.testing.assert_close(found[b, k], slow)
    found.sum().backward()
    assert features.grad is not None
    assert heads.grad is None


def test_the_published_codes_extra_division_cancels() -> None:
    """A mean divided by a sum is smaller by the number of places; the projection has no bias, and lengths become 1."""
    model = make_model()
    x = torch.rand(5, 16)
    torch.testing.assert_close(normalize(model.project_sound(x)), normalize(model.project_sound(x / 196)))


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"labels": "clusters", "categories": 3}, "3 categories from clusters of sounds"),
        ({"labels": "classes", "categories": 8}, "8 categories from classes"),
        ({"labels": "file", "sound_labels": "a/tags.csv", "picture_labels": "b/seen.npz"},
         "7 categories from tags.csv and seen.npz"),
    ],
)  # fmt: skip
def test_every_result_says_where_categories_come_from(changes: dict[str, Any], said: str) -> None:
    config = Config(encoders=Encoders("small", "small", weights="random", width=4), **changes)
    assert Model(config, Inputs()).note == said
