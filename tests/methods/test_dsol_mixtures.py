"""DSOL's maps, and its stage two: scores of clusters, the frozen teacher, scenes of a batch, and weights files."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from earsight.checkpoint import load_weights, save_weights
from earsight.config import Optim
from earsight.encoders.base import global_max_pool
from earsight.methods.dsol import Cosines, Model, Products
from earsight.training.step import make_optimizer
from earsight.types import Batch
from tiny import take_step
from tiny.dsol_steps import make_model, model_in
from tiny.lent import Lent
from tiny.parity import whole_batch


def test_the_map_is_a_sigmoid_of_five_times_the_cosine_at_the_start() -> None:
    model = make_model()
    places = torch.tensor([[1.0, 0.0], [0.0, 3.0], [-2.0, 0.0], [0.5, 0.75**0.5]]).T.reshape(1, 2, 1, 4)
    with torch.no_grad():
        found = torch.sigmoid(model.variant.logits(places, torch.tensor([[4.0, 0.0]])))
    torch.testing.assert_close(found.flatten(), torch.tensor([0.99331, 0.5, 0.00669, 0.92414]), atol=1e-5, rtol=0)


@pytest.mark.parametrize("variant", ["music", "audioset"])
def test_confidence_is_the_best_place_and_maps_have_their_bounds(variant: Any) -> None:
    model, batch = make_model(variant=variant).eval(), whole_batch()
    with torch.no_grad():
        maps = model.localize(batch.frames, batch.waveforms)
    assert maps.confidence is not None
    assert torch.equal(maps.confidence, maps.native.amax((1, 2)))
    assert maps.native_bounds == (0.0, 1.0)
    assert maps.bounds == ((-1.0, 1.0) if variant == "music" else None)
    if variant == "audioset":
        torch.testing.assert_close(torch.sigmoid(maps.dense), maps.native)
    else:
        torch.testing.assert_close(torch.sigmoid(5 * maps.dense), maps.native)


def test_the_audioset_variant_compares_without_lengths_taken_out_and_with_a_bias() -> None:
    model = make_model(variant="audioset")
    assert isinstance(model.variant, Products)
    scale, bias = model.variant.scale, model.variant.bias
    places, sounds = torch.full((1, 2, 1, 1), 2.0), torch.full((1, 2), 3.0)
    with torch.no_grad():
        torch.testing.assert_close(model.variant.logits(places, sounds)[0, 0, 0], 12 * scale + bias)
        assert abs(float(scale)) <= 1
        assert abs(float(bias)) <= 1


@pytest.mark.parametrize("kind", ["match", "classify", "mix"])
def test_every_kind_of_step_gives_maps_with_gradient_when_there_is_ground_truth(kind: str) -> None:
    model, batch = model_in(kind), whole_batch()
    assert take_step(model, batch).maps is None
    step = take_step(model, replace(batch, truth=torch.zeros(8, 32, 32), supervised=torch.ones(8, dtype=torch.bool)))
    assert step.maps is not None
    assert step.maps.dense.shape[0] == 8
    step.maps.dense.sum().backward()
    assert model.image_project[0].weight.grad is not None


def test_scores_of_clusters_equal_the_hand_computed_values() -> None:
    model = model_in("mix", clusters=2)
    model.dictionary = torch.tensor([[2.0, 0.0], [0.0, 2.0]])
    features, found = torch.eye(2).reshape(1, 2, 1, 2), torch.tensor([[[0.9, 0.1]]])
    with torch.no_grad():
        scores = model.scores(features, found)
        torch.testing.assert_close(scores.mean((2, 3)), torch.tensor([[0.9, 0.1]]))
        model.slope.fill_(0.5)
        model.offset.fill_(1.0)
        torch.testing.assert_close(model.scores(features, found)[0, :, 0, 0], torch.tensor([1.8, 0.9]))
    other = model_in("mix", clusters=2, variant="audioset")
    other.dictionary = model.dictionary
    with torch.no_grad():
        expected = torch.sigmoid(torch.tensor([2.0, 0.0]))
        torch.testing.assert_close(other.scores(features, found)[0, :, 0, 0], expected)


def test_the_teacher_is_the_student_as_stage_two_begins_and_then_stays() -> None:
    model, batch = make_model(mixtures=1, clusters=4), whole_batch()
    one, two = model.stages(1)
    model.start_stage(one)
    model.on_epoch(Lent(batch, stage=one))
    with torch.no_grad():
        for p in model.audio.parameters():
            p.add_(0.01)
    model.start_stage(two)
    model.on_epoch(Lent(batch, stage=two))
    sound = model.audio.preprocess(batch.waveforms)
    model.train()
    assert not any(part.training for part in model.teacher.modules()), "as it answers, not as it learns"
    assert model.audio.training
    with torch.no_grad():
        wanted = model.heads.audio(global_max_pool(model.audio.eval()(sound)))
        encoder, head = model.teacher
        assert torch.equal(head(global_max_pool(encoder(sound))), wanted)
    before = {key: value.clone() for key, value in model.teacher.state_dict().items()}
    optimizer = make_optimizer(model.groups(), Optim(), 1e-2)
    model.train()
    take_step(model, batch).loss.backward()
    optimizer.step()
    assert all(torch.equal(value, before[key]) for key, value in model.teacher.state_dict().items())
    assert not any(p.requires_grad for p in model.teacher.parameters())


def test_beginning_stage_two_again_leaves_its_teacher_alone() -> None:
    """A resumed run begins every stage again, with a student that has learned since."""
    model = model_in("mix")
    before = {key: value.clone() for key, value in model.teacher.state_dict().items()}
    with torch.no_grad():
        for p in model.audio.parameters():
            p.add_(1)
    model.start_stage(model.stages(2)[1])
    assert all(torch.equal(value, before[key]) for key, value in model.teacher.state_dict().items())


def test_the_loss_of_stage_two_is_naming_plus_half_of_localizing() -> None:
    model, batch = model_in("mix"), whole_batch()
    torch.manual_seed(0)
    step = take_step(model, batch)
    torch.testing.assert_close(step.loss, step.logs["loss_names"] + 0.5 * step.logs["loss_match"])
    later = model_in("mix", match_after=1, match_weight=1.0)
    torch.manual_seed(0)
    step = take_step(later, batch)
    assert torch.equal(step.loss, step.logs["loss_names"])
    later.on_epoch(Lent(batch, stage=later.stages(2)[1], epoch=0))
    torch.manual_seed(0)
    step = take_step(later, batch)
    torch.testing.assert_close(step.loss, step.logs["loss_names"] + step.logs["loss_match"])


def test_only_the_music_variant_looks_at_the_quarters_of_the_other_scene(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []
    for variant in (Cosines, Products):
        for name in ("naming_loss", "match_loss"):
            real = getattr(variant, name)
            watched = staticmethod(lambda *x, f=real: (seen.append(f.__name__), f(*x))[1])
            monkeypatch.setattr(variant, name, watched)
    take_step(model_in("mix"), whole_batch())
    assert seen == ["naming_loss", "silent_loss"]
    seen.clear()
    take_step(model_in("mix", variant="audioset"), whole_batch())
    assert seen == ["tagging_loss", "match_loss"]


@pytest.mark.parametrize("kind", ["match", "classify", "mix"])
def test_the_order_of_the_batch_does_not_change_the_loss(kind: str) -> None:
    batch, order = whole_batch(), torch.tensor([3, 1, 7, 0, 4, 2, 6, 5])
    rows = tuple(batch.rows[i] for i in order.tolist())
    mixed = Batch(batch.frames[order], batch.waveforms[order], batch.index[order], rows)
    losses = []
    for one in (batch, mixed):
        model = model_in(kind)
        torch.manual_seed(5)
        losses.append(take_step(model, one).loss)
    torch.testing.assert_close(losses[0], losses[1], rtol=1e-4, atol=1e-5)


def test_the_batch_itself_is_left_as_it_is() -> None:
    batch = whole_batch()
    before = batch.frames.clone(), batch.waveforms.clone()
    take_step(model_in("mix"), batch)
    assert torch.equal(batch.frames, before[0])
    assert torch.equal(batch.waveforms, before[1])


def test_weights_of_both_stages_load_and_answer_the_same(tmp_path: Path) -> None:
    model, batch = model_in("mix").eval(), whole_batch()
    save_weights(tmp_path / "w.safetensors", model, "dsol", model.config, {"protocol": "exact"})
    again = load_weights(tmp_path / "w.safetensors").model
    assert isinstance(again, Model)
    assert torch.equal(again.dictionary, model.dictionary)
    assert not any(key.startswith("labels") for key in model.state_dict()), "labels belong to a training list"
    with torch.no_grad():
        one, two = (m.localize(batch.frames, batch.waveforms) for m in (model, again))
    assert torch.equal(one.dense, two.dense)
