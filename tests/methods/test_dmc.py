"""DMC against values computed by hand and slow loops, in both its forms, and its traps."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch.nn.functional import cosine_similarity

from earsight.config import Inputs
from earsight.encoders.base import Encoders
from earsight.errors import UsageError
from earsight.losses import partners
from earsight.methods.dmc import (
    Config,
    Model,
    Original,
    Simplified,
    agreement,
    contrast,
    distance,
    hinge,
    log_odds,
    official,
    paper,
    reach,
    route,
    soft_kmeans,
    squash,
)
from tiny import take_step
from tiny.dmc_small import FORMS, SMALL, make_batch, make_model, vectors


def test_the_cluster_nearest_to_the_sound_is_the_map() -> None:
    seen = soft_kmeans(torch.tensor([[[0.0], [0.0], [4.0], [4.0]]]), 2)
    heard = soft_kmeans(torch.tensor([[[2.0], [4.0]]]), 1)
    assert seen.centres.flatten().tolist() == [0, 4]
    assert heard.centres.flatten().tolist() == [3]
    away = distance(seen.centres, heard.centres)
    assert away.flatten().tolist() == [3, 1]
    assert away.argmin(1).item() == 1
    assert log_odds(seen.logits, torch.tensor([[False, True]])).sigmoid().flatten().tolist() == [0, 0, 1, 1]
    assert reach(seen.centres, heard.centres).item() == 1


def test_the_contrastive_loss_equals_the_hand_computed_values() -> None:
    def of(near: float, far: float) -> list[float]:
        both: list[float] = contrast(torch.tensor([near**2]), torch.tensor([far**2]), 5.0)[0].tolist()
        return both

    assert of(1, 1) == pytest.approx([0.5, 8])
    assert sum(of(1, 1)) / 2 == pytest.approx(4.25)
    assert of(1, 6)[1] == 0
    two = reach(torch.zeros(1, 1, 1), torch.tensor([[[3.0], [4.0]]]))
    assert contrast(two, two, 5.0)[0].tolist() == pytest.approx([12.5, 0])  # the margin meets the root of the sum, 5


def test_each_centre_of_a_sound_takes_the_nearest_of_the_picture() -> None:
    seen, heard = torch.tensor([[[0.0], [10.0], [50.0]]]), torch.tensor([[[1.0], [12.0]]])
    assert reach(seen, heard).item() == 1 + 4


def test_the_original_hinge_equals_the_hand_computed_value() -> None:
    assert hinge(torch.tensor([1.5]), torch.tensor([1.0]), 2).item() == 1.5
    assert hinge(torch.tensor([2.0]), torch.tensor([-2.0]), 2).item() == 0


def test_agreement_adds_the_cosine_of_every_space() -> None:
    """The published layer compares the first half of the spaces with the second."""
    seen = torch.tensor([[[1.0, 0.0], [0.0, 3.0]]])
    heard = torch.tensor([[[2.0, 0.0], [1.0, 1.0]]])
    assert agreement(seen, heard).item() == pytest.approx(1 + 0.5**0.5)
    assert agreement(seen, seen).item() == pytest.approx(2)


@pytest.mark.parametrize("changes", FORMS[:3])
def test_the_simplified_step_equals_a_slow_loop_with_another_picture(changes: dict[str, Any]) -> None:
    model, batch = make_model(**changes), make_batch()
    torch.manual_seed(5)
    step = take_step(model, batch)
    torch.manual_seed(5)
    shift = int(torch.randint(1, 5, ()))
    places, times = vectors(model, batch)
    assert isinstance(model.clustering, Simplified)
    see, hear = model.clustering.image, model.clustering.audio
    c = model.config
    seen = soft_kmeans(see(places), c.visual_clusters, start=c.start).centres
    heard = soft_kmeans(hear(times), c.audio_clusters, start=c.start).centres
    total = 0.0
    for i in range(5):
        for picture, own in ((seen[i], True), (seen[(i - shift) % 5], False)):
            squared = sum(min((k - m).norm().item() for k in picture) ** 2 for m in heard[i])
            total += 0.5 * (squared if own else max(0.0, 5 - (squared + 1e-9) ** 0.5) ** 2) / 10
    assert step.loss.item() == pytest.approx(total, rel=1e-4)


def test_the_original_step_equals_a_slow_loop_with_another_sound() -> None:
    model, batch = make_model(form="original"), make_batch()
    torch.manual_seed(5)
    step = take_step(model, batch)
    torch.manual_seed(5)
    shift = int(torch.randint(1, 5, ()))
    assert isinstance(model.clustering, Original)
    weight = model.clustering.project.weight.view(4, 8, -1)  # a matrix for each of the four spaces
    seen, heard = (
        route(torch.stack([squash(x) @ w.T for w in weight], 1)).centres for x in vectors(model, batch)
    )  # fmt: skip
    total = 0.0
    for i in range(5):
        right, wrong = (
            sum(cosine_similarity(seen[i, k], heard[other, k], dim=0).item() for k in range(4))
            for other in (i, (i - shift) % 5)
        )
        total += max(0.0, 4 + wrong - right) / 5
    assert step.loss.item() == pytest.approx(total, rel=1e-4)


def test_the_other_clip_brings_its_picture_in_one_form_and_its_sound_in_the_other() -> None:
    random = torch.Generator().manual_seed(0)
    seen, heard = torch.randn(3, 4, 8, generator=random), torch.randn(3, 4, 8, generator=random)
    partner = partners(torch.arange(3), 1)
    _, simplified = make_model().clustering.loss(seen, heard, partner)
    _, original = make_model(form="original").clustering.loss(seen, heard, partner)
    torch.testing.assert_close(simplified["far"], reach(seen[partner], heard).sqrt().mean())
    torch.testing.assert_close(original["wrong"], agreement(seen, heard[partner]).mean())
    assert (reach(seen, heard[partner]) - reach(seen[partner], heard)).abs().max() > 0.1


def test_other_clips_are_drawn_anew_each_step() -> None:
    model, batch = make_model(), make_batch()
    assert len({take_step(model, batch).logs["far"].item() for _ in range(12)}) > 1


@pytest.mark.parametrize("changes", FORMS)
def test_a_clip_alone_has_no_negative_and_teaches_nothing(changes: dict[str, Any]) -> None:
    model = make_model(**changes).eval()
    step = take_step(model, make_batch(1))
    step.loss.backward()
    for p in model.parameters():
        assert p.grad is not None
        assert p.grad.abs().max() == 0


@pytest.mark.parametrize("changes", FORMS)
def test_every_parameter_gets_a_gradient_in_both_forms(changes: dict[str, Any]) -> None:
    """The published module also declares layers that nothing uses."""
    model = make_model(**changes)
    take_step(model, make_batch()).loss.backward()
    for name, p in model.named_parameters():
        assert p.grad is not None, name
        assert torch.isfinite(p.grad).all(), name
        assert p.grad.abs().max() > 0, name


def test_the_log_holds_the_length_of_what_is_clustered() -> None:
    model, batch = make_model(), make_batch()
    places, times = vectors(model, batch)
    assert isinstance(model.clustering, Simplified)
    see, hear = model.clustering.image, model.clustering.audio
    logs = take_step(model, batch).logs
    assert logs["picture_norm"].item() == pytest.approx(see(places).norm(dim=2).mean().item(), rel=1e-4)
    assert logs["sound_norm"].item() == pytest.approx(hear(times).norm(dim=2).mean().item(), rel=1e-4)


@pytest.mark.parametrize(
    ("setting", "value", "form"),
    [
        ("rounds", 1, "simplified"),
        ("sharpness", 1.0, "simplified"),
        ("margin", 9.0, "simplified"),
        ("start", "farthest", "simplified"),
        ("visual_clusters", 3, "simplified"),
        ("spaces", 5, "original"),
        ("dim", 4, "original"),
        ("routings", 2, "original"),
    ],
)
def test_every_setting_changes_the_loss_of_its_form(setting: str, value: Any, form: str) -> None:
    losses = []
    for changes in ({}, {setting: value}):
        model = make_model(form=form, **changes)
        torch.manual_seed(1)
        losses.append(take_step(model, make_batch()).loss.item())
    assert abs(losses[0] - losses[1]) > 1e-5


def test_each_form_has_only_the_layers_it_uses() -> None:
    names = {name for name, _ in make_model().clustering.named_parameters()}
    assert names == {"image.weight", "image.bias", "audio.weight", "audio.bias"}
    shared = dict(make_model(form="original").clustering.named_parameters())
    assert {name: tuple(p.shape) for name, p in shared.items()} == {"project.weight": (4 * 8, 16)}


def test_presets_hold_what_both_published_codes_say() -> None:
    simple, first = official(), paper()
    assert simple.config == Config(encoders=Encoders(layer4_stride=1, weights="random"))
    c = simple.config
    assert (c.visual_clusters, c.audio_clusters, c.rounds, c.sharpness, c.margin) == (2, 1, 4, 30, 5)
    assert (simple.inputs.image_size, simple.inputs.resize, simple.inputs.flip) == (224, 256, True)
    assert (simple.inputs.rate, simple.inputs.seconds, simple.inputs.window, simple.inputs.hop) == (16000, 1, 160, 80)
    assert (simple.optim.optimizer, simple.optim.lr, simple.optim.weight_decay) == ("adam", 1e-4, 1e-4)
    assert (simple.optim.batch_size, simple.optim.epochs, simple.optim.schedule) == (32, 100, "constant")
    assert first.config.form == "original"
    assert (first.config.spaces, first.config.dim, first.config.routings) == (10, 16, 3)
    assert (first.inputs.image_size, first.inputs.rate, first.inputs.seconds) == (256, 16000, 5)
    assert (first.optim.lr, first.optim.weight_decay) == (1e-4, 0)


@pytest.mark.slow
def test_published_sizes_give_14_places_or_8_and_306_vectors_of_sound() -> None:
    torch.manual_seed(0)
    model = Model(Config(encoders=Encoders(layer4_stride=1, weights="random")), Inputs()).eval()
    with torch.no_grad():
        maps = model.localize(torch.zeros(1, 3, 224, 224, dtype=torch.uint8), torch.rand(1, Inputs().samples))
        assert model.audio(torch.zeros(1, 1, 257, 276)).shape == (1, 512, 17, 18)
    assert maps.dense.shape == maps.native.shape == (1, 14, 14)
    first = Model(paper().config, paper().inputs).eval()
    with torch.no_grad():
        assert first.image(torch.zeros(1, 3, 256, 256)).shape == (1, 512, 8, 8)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"form": "cvpr"}, "Expected form simplified or original, but got 'cvpr'"),
        ({"start": "random"}, "Expected start raster or farthest, but got 'random'"),
        ({"audio_clusters": 0}, "Expected audio_clusters of at least 1, but got 0"),
        ({"audio_clusters": 2}, r"Expected more visual_clusters than audio_clusters \(2\), but got 2. One is for the"),
        ({"rounds": 0}, "Expected rounds of at least 1, but got 0"),
        ({"sharpness": 0.0}, "Expected a positive sharpness, but got 0.0"),
        ({"margin": -1.0}, "Expected a positive margin, but got -1.0"),
        ({"spaces": 1}, "Expected spaces of at least 2, but got 1. With one there is nothing to tell apart"),
        ({"dim": 0}, "Expected dim of at least 1, but got 0"),
        ({"routings": 1}, "Expected routings of at least 2, but got 1. The first assigns everything equally"),
    ],
)
def test_bad_settings_are_refused_with_what_was_expected(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        replace(SMALL, **changes)
