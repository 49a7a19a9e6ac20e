"""Attention10k against values computed by hand, and its traps."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import tiny
from earsight.config import Supervision
from earsight.encoders.base import Encoders
from earsight.errors import UsageError
from earsight.losses import paired, partners
from earsight.methods.attention10k import Config, Model, attend, attention_loss, distance_ratio, official, paper
from earsight.training.step import Supervised
from earsight.types import Batch, Maps, Step
from tiny import INPUTS, take_step
from tiny.noise import make_batch

SMALL = Config(encoders=tiny.SMALL)


def make_model(**changes: Any) -> Model:
    torch.manual_seed(0)
    return Model(replace(SMALL, **changes), INPUTS)


def features(model: Model, batch: Batch) -> tuple[Tensor, Tensor]:
    return model.embed_images(batch.frames)["places"], model.embed_sounds(batch.waveforms)["sound"]


def test_the_loss_equals_the_hand_computed_values() -> None:
    near, far = torch.tensor([1.0, 2.0]), torch.tensor([1 + math.log(3), 2.0])
    assert distance_ratio(near[:1], far[:1]).item() == pytest.approx(0.0625)
    assert distance_ratio(near[1:], far[1:]).item() == pytest.approx(0.25)
    assert distance_ratio(near, far).item() == pytest.approx(0.15625)


def test_the_loss_is_the_published_mean_over_two_squares() -> None:
    near, far = torch.rand(6), torch.rand(6)
    pair = torch.softmax(torch.stack((near, far), 1), 1)
    slow = (pair - torch.tensor([0.0, 1.0])).square().mean()
    torch.testing.assert_close(distance_ratio(near, far), slow)


def test_unit_vectors_could_not_bring_the_loss_under_its_floor() -> None:
    """Two unit vectors are at most 2 apart, which is why nothing is normalised before the distance."""
    assert distance_ratio(torch.tensor([0.0]), torch.tensor([2.0])).item() == pytest.approx(0.0142, abs=1e-4)


def test_attention_and_attended_picture_of_two_places_equal_the_hand_computed_values() -> None:
    image = torch.eye(2).view(1, 2, 1, 2)  # places (1, 0) and (0, 1)
    for query, wanted in (([1.0, 0.0], [0.73106, 0.26894]), ([-1.0, 0.0], [0.5, 0.5])):
        alpha = attend(paired(image, torch.tensor([query])))
        torch.testing.assert_close(alpha.flatten(), torch.tensor(wanted), atol=1e-5, rtol=0)
        seen = torch.einsum("bchw,bhw->bc", image, alpha)
        torch.testing.assert_close(seen.flatten(), torch.tensor(wanted), atol=1e-5, rtol=0)


def test_the_supervised_term_equals_the_hand_computed_values(monkeypatch: pytest.MonkeyPatch) -> None:
    cosine = torch.tensor([[[1.0, 0.0]], [[1.0, 0.0]]])
    truth = torch.tensor([[[1.0, 0.0], [1.0, 0.0]], [[0.0, 0.0], [0.0, 0.0]]])
    assert attention_loss(attend(cosine)[:1], truth[:1]).item() == pytest.approx(0.31326, abs=1e-5)
    # Half of the weight is as good as all of it: ground truth is made to add up to 1.
    assert attention_loss(attend(cosine)[:1], truth[:1] / 2).item() == pytest.approx(0.31326, abs=1e-5)
    # One annotated clip in a batch of two, whose mean runs over both, as published.
    batch = Batch(torch.zeros(2, 3, 2, 2), torch.zeros(2, 9), torch.arange(2), (), truth,
                  torch.tensor([True, False]))  # fmt: skip
    model = make_model()
    told = Step(torch.tensor(1.0), {}, Maps(attend(cosine), cosine, (-1.0, 1.0)))
    monkeypatch.setattr(model, "loss", lambda batch, counts: told)
    for over, wanted in (("batch", 0.15663), ("annotated", 0.31326)):
        step = Supervised(model, Supervision(1.0, "own", over))(batch)  # type: ignore[arg-type]
        assert step.loss.item() == pytest.approx(1 + wanted, abs=1e-5)


def test_without_the_relu_negative_cosines_count() -> None:
    alpha = attend(torch.tensor([[[-1.0, 0.0]]]), relu=False)
    torch.testing.assert_close(alpha.flatten(), torch.tensor([0.26894, 0.73106]), atol=1e-5, rtol=0)


@pytest.mark.parametrize(("places", "largest"), [(49, 0.0536), (196, 0.0137), (400, 0.0068)])
def test_attention_is_nearly_flat_by_construction(places: int, largest: float) -> None:
    cosine = torch.zeros(1, 1, places)
    cosine[0, 0, 0] = 1
    alpha = attend(cosine)
    assert alpha.max().item() == pytest.approx(largest, abs=5e-5)
    assert (alpha.max() / alpha.min()).item() == pytest.approx(math.e)


@pytest.mark.parametrize("shift", [1, 2, 3, 4])
def test_every_clip_meets_another_and_every_sound_is_met_once(shift: int) -> None:
    index = torch.tensor([7, 3, 99, 12, 5])
    partner = partners(index, shift)
    assert (partner != torch.arange(5)).all()
    assert partner.sort().values.tolist() == [0, 1, 2, 3, 4]


def test_who_meets_whom_does_not_depend_on_the_order_of_the_batch() -> None:
    index, order = torch.tensor([7, 3, 99, 12, 5]), torch.tensor([4, 0, 3, 1, 2])
    met = dict(zip(index.tolist(), index[partners(index, 2)].tolist(), strict=True))
    mixed = index[order]
    assert dict(zip(mixed.tolist(), mixed[partners(mixed, 2)].tolist(), strict=True)) == met


def test_shifts_are_drawn_anew_each_step() -> None:
    model, batch = make_model(), make_batch(5)
    assert len({take_step(model, batch).logs["far"].item() for _ in range(12)}) > 1


@pytest.mark.parametrize("entries", ["mean", "sum"])
def test_the_training_step_equals_a_slow_loop_over_clips(entries: str) -> None:
    model, batch = make_model(entries=entries), make_batch(5)
    torch.manual_seed(5)
    step = take_step(model, batch)
    torch.manual_seed(5)
    shift = int(torch.randint(1, 5, ()))
    image, sound = features(model, batch)
    w1, w2, u1, u2 = (m for part in (model.query, model.embed) for m in part if isinstance(m, nn.Linear))
    total = 0.0
    for i in range(5):
        query = w2(w1(sound[i].relu()).relu())
        places = image[i].flatten(1).T  # (hw, C)
        cosine = nn.functional.cosine_similarity(places, query[None], dim=1)
        alpha = torch.softmax(cosine.relu(), 0)
        picture = u2(u1((alpha[:, None] * places).sum(0).relu()).relu())
        # The other sound enters the second distance and nothing else.
        near, far = ((picture - other + 1e-6).norm() for other in (sound[i], sound[(i - shift) % 5]))
        total += torch.sigmoid(near - far).item() ** 2 * (2 if entries == "sum" else 1) / 5
    assert step.loss.item() == pytest.approx(total, rel=1e-4)


def test_under_half_precision_pictures_are_attended_and_embedded_in_float32() -> None:
    model, batch = make_model().eval(), make_batch(4)
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
        image, _ = features(model, batch)
        found = model.attended(model.embed_images(batch.frames), model.embed_sounds(batch.waveforms))
    assert image.dtype == torch.bfloat16
    with torch.no_grad():
        wanted = model.embed(torch.einsum("bchw,bhw->bc", image.float(), found.attention))
    assert torch.equal(found.picture, wanted)


def test_a_clip_alone_has_no_negative_and_teaches_nothing() -> None:
    model = make_model().eval()
    step = take_step(model, make_batch(1))
    assert step.loss.item() == pytest.approx(0.25)
    step.loss.backward()
    assert all(p.grad is None or p.grad.abs().max() == 0 for p in model.parameters())


def test_the_native_map_is_attention_and_the_dense_one_has_no_plateau() -> None:
    model, batch = make_model().eval(), make_batch(5)
    with torch.no_grad():
        maps = model.localize(batch.frames, batch.waveforms)
    torch.testing.assert_close(maps.native.sum((1, 2)), torch.ones(5))
    torch.testing.assert_close(maps.native, attend(maps.dense))
    assert all(len(one.flatten().unique()) == one.numel() for one in maps.dense)


def test_confidence_is_how_near_picture_and_sound_lie() -> None:
    model, batch = make_model().eval(), make_batch(5)
    with torch.no_grad():
        maps = model.localize(batch.frames, batch.waveforms)
        found = model.attended(model.embed_images(batch.frames), model.embed_sounds(batch.waveforms))
    assert maps.confidence is not None
    torch.testing.assert_close(maps.confidence, -(found.picture - found.sound).norm(dim=1), atol=1e-4, rtol=1e-4)
    assert maps.confidence.std() > 0


def test_presets_differ_exactly_where_the_sources_do() -> None:
    code, text = official(), paper()
    assert (code.config.entries, text.config.entries) == ("mean", "sum")
    assert replace(text.config, entries="mean") == code.config == Config()
    assert (code.inputs, code.optim) == (text.inputs, text.optim)
    assert (code.inputs.image_size, code.inputs.resize, code.inputs.flip) == (320, 320, False)
    assert (code.optim.optimizer, code.optim.lr, code.optim.weight_decay) == ("adam", 1e-4, 0.0)
    assert (code.optim.batch_size, code.optim.epochs) == (30, 10)
    assert code.config.relu


def test_maps_have_20_places_at_the_published_size_and_14_at_224_pixels() -> None:
    torch.manual_seed(0)
    model = Model(replace(SMALL, encoders=Encoders(layer4_stride=1, weights="random")), INPUTS).eval()
    for size, places in ((320, 20), (224, 14)):
        with torch.no_grad():
            maps = model.localize(torch.zeros(1, 3, size, size, dtype=torch.uint8), torch.rand(1, INPUTS.samples))
        assert maps.dense.shape == maps.native.shape == (1, places, places)


def test_bad_settings_are_refused_with_what_was_expected() -> None:
    with pytest.raises(UsageError, match="Expected entries mean or sum, but got 'max'"):
        replace(SMALL, entries="max")  # type: ignore[arg-type]
