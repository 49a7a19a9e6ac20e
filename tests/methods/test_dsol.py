"""DSOL: passes in turn, clustering, fresh heads, settings, and the traps of the published code."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import tiny
from earsight import clustering, sounding_objects
from earsight.config import Optim
from earsight.encoders.base import global_max_pool
from earsight.errors import UsageError
from earsight.methods import dsol
from earsight.methods.base import Stage
from earsight.methods.dsol import Config, Model
from earsight.training.step import make_optimizer, reset_optimizer_state
from earsight.types import Batch
from tiny import take_step
from tiny.dsol_steps import SETTINGS, make_model, model_in
from tiny.lent import Lent
from tiny.parity import whole_batch


class Watched(Lent):
    """A context whose optimizer is real, or nobody's, and that counts how often the whole set is looked at."""

    def __init__(self, batch: Batch, optimizer: torch.optim.Optimizer | None = None) -> None:
        super().__init__(batch)
        self.optimizer, self.looks = optimizer, 0

    def forget(self, parameters: Any) -> None:
        if self.optimizer is not None:
            reset_optimizer_state(self.optimizer, parameters)

    def extract(self, fn: Any) -> Tensor:
        self.looks += 1
        return super().extract(fn)


def end_pass(model: Model, context: Lent) -> None:
    """What follows one more pass over all clips."""
    context.epoch = model.passed
    model.on_epoch(context)


# The order of passes.


def kinds(model: Model, epochs: int) -> str:
    return "".join("C" if model.classifies(passed) else "L" for passed in range(model.stages(epochs)[0].epochs))


@pytest.mark.parametrize(
    ("changes", "epochs", "wanted"),
    [
        ({"passes": 3}, 3, "LCCCLCCCL"),
        ({"passes": 1}, 2, "LCL"),
        ({"passes": 3}, 1, "L"),
        ({"passes": 0}, 4, "LLLL"),
        ({"passes": 2, "first_clustering": 2}, 4, "LLCCLCCL"),
        ({"passes": 2, "first_clustering": 9}, 4, "LLLL"),
        ({"passes": 2, "mixtures": 1}, 2, "LCCLCC"),
        ({"passes": 1, "mixtures": 1, "first_clustering": 2}, 2, "LLC"),
    ],
)
def test_passes_alternate_and_stage_one_ends_as_its_use_demands(
    changes: dict[str, Any], epochs: int, wanted: str
) -> None:
    """Localization is judged after a localization pass; stage two starts from classifiers."""
    assert kinds(make_model(**changes), epochs) == wanted


def test_the_published_run_localizes_twice_and_then_clusters_after_every_localization_pass() -> None:
    published = dsol.two_stages().config
    model = make_model(passes=published.passes, first_clustering=published.first_clustering, mixtures=1)
    assert kinds(model, 4) == "LLCCCLCCCLCCC"


def test_stage_two_is_there_when_it_is_asked_for() -> None:
    assert [stage.name for stage in make_model().stages(3)] == ["alternating"]
    assert make_model(mixtures=4).stages(3)[1] == Stage("mixtures", 4, has_unused_parameters=True)
    with pytest.raises(UsageError, match=r"Expected at least 3 epochs before mixtures, but got 2\. Train longer"):
        make_model(mixtures=1, first_clustering=3).stages(2)


def test_all_is_clustered_once_after_each_localization_pass() -> None:
    model, context = make_model(), Watched(whole_batch())
    looks = []
    for _ in range(6):  # L C C L C C L
        end_pass(model, context)
        looks.append(context.looks)
    assert looks == [1, 1, 1, 2, 2, 2]


# Clustering.


def test_the_dictionary_is_the_mean_of_unnormalised_objects_of_normalised_clusters() -> None:
    model, batch = make_model().eval(), whole_batch()
    torch.manual_seed(3)
    seed = int(torch.randint(2**31, ()))
    torch.manual_seed(3)
    model.cluster(Lent(batch))
    with torch.no_grad():
        objects = model.objects(batch)
    wanted, _ = clustering.kmeans(nn.functional.normalize(objects), 3, seed)
    assert torch.equal(model.labels, wanted)
    for k in range(3):
        torch.testing.assert_close(model.dictionary[k], objects[wanted == k].mean(0))
    assert model.dictionary.shape == (3, 16)


def test_objects_are_what_is_seen_where_the_map_of_the_own_sound_is_above_the_level() -> None:
    model, batch = make_model(object_level=0.41).eval(), whole_batch()
    with torch.no_grad():
        found = model.localize(batch.frames, batch.waveforms).native
        features = model.image(model.image.preprocess(batch.frames))
        wanted = (features * (found > 0.41)[:, None]).sum((2, 3)) / found[0].numel()  # 2x2 places have no inner ones
        torch.testing.assert_close(model.objects(batch), wanted)
    assert 0 < (found > 0.41).float().mean() < 1


def test_clips_that_cannot_be_read_have_no_label_and_no_part_in_the_loss() -> None:
    class Torn(Lent):
        def extract(self, fn: Any) -> Tensor:
            found = super().extract(fn)
            found[[1, 4]] = float("nan")
            return found

    model, batch = make_model(), whole_batch()
    end_pass(model, Torn(batch))
    assert (model.labels == -1).nonzero().flatten().tolist() == [1, 4]
    assert torch.isfinite(model.dictionary).all()
    model.train()
    step = take_step(model, batch)
    assert torch.isfinite(step.loss)
    features = model.encode_images(batch.frames)
    heard = global_max_pool(model.encode_sounds(batch.waveforms))
    good = model.labels >= 0
    wanted = nn.functional.cross_entropy(model.heads.image(features.mean((2, 3)))[good], model.labels[good])
    wanted = wanted + nn.functional.cross_entropy(model.heads.audio(heard)[good], model.labels[good])
    torch.testing.assert_close(step.loss, wanted)
    model.labels = torch.full((8,), -1)
    assert take_step(model, batch).loss.item() == 0


def test_fewer_clips_than_clusters_are_each_their_own() -> None:
    model = make_model(clusters=20)
    end_pass(model, Lent(whole_batch()))
    assert sorted(model.labels.tolist()) == list(range(8))
    assert sounding_objects.clustering_logs(model.clustering)["clusters"] == 8
    assert model.dictionary[8:].abs().max() == 0
    assert torch.isfinite(take_step(model, whole_batch()).loss)


def test_the_agreement_with_the_labels_before_and_with_classes_is_logged_while_classifying() -> None:
    model, batch = make_model(passes=1), whole_batch()
    context = Lent(batch)
    end_pass(model, context)
    first = model.labels.clone()
    assert "nmi_before" not in take_step(model, batch).logs
    assert "nmi_classes" in take_step(model, batch).logs
    end_pass(model, context)
    assert "nmi_before" not in take_step(model, batch).logs, "a localization pass"
    end_pass(model, context)
    logs = take_step(model, batch).logs
    assert logs["nmi_before"].item() == pytest.approx(clustering.nmi(model.labels, first))
    assert logs["clusters"] == 3


# Heads and what learns in which pass.


def trained_by(model: Model, batch: Batch) -> set[str]:
    model.zero_grad()
    take_step(model, batch).loss.backward()
    return {key.split(".")[0] for key, p in model.named_parameters() if p.grad is not None}


def test_each_kind_of_pass_trains_its_own_parts() -> None:
    batch = whole_batch()
    assert trained_by(model_in("match"), batch) == {"image", "audio", "image_project", "audio_project", "variant"}
    assert trained_by(model_in("classify"), batch) == {"image", "audio", "heads"}
    everything = {"image", "audio", "image_project", "audio_project", "variant", "slope", "offset"}
    assert trained_by(model_in("mix"), batch) == everything
    assert trained_by(model_in("mix", variant="audioset", match_after=1), batch) == {"image", "slope", "offset"}


def test_heads_have_a_group_of_their_own() -> None:
    model = make_model(mixtures=1)
    main, heads = model.groups()
    assert (heads.lr, heads.weight_decay) == (1e-3, 1e-4)
    assert (main.lr, main.weight_decay) == (None, None)
    assert {id(p) for p in heads.parameters} == {id(p) for p in model.heads.parameters()}
    everything = [p for p in model.parameters() if p.requires_grad]
    assert len(main.parameters) + len(heads.parameters) == len(everything)
    model.start_stage(model.stages(1)[1])
    (alone,) = model.groups()
    assert {id(p) for p in model.teacher.parameters()}.isdisjoint({id(p) for p in alone.parameters})
    assert any(p is model.slope for p in alone.parameters)


def test_fresh_heads_are_trained_by_the_same_optimizer_as_if_it_were_new() -> None:
    """Were they new parameters, an optimizer that holds the old ones would silently leave them alone."""
    model, batch = make_model(), whole_batch()
    optimizer = make_optimizer(model.groups(), Optim(), 1e-4)
    context = Watched(batch, optimizer)
    end_pass(model, context)
    held = [p for group in optimizer.param_groups for p in group["params"]]
    for _ in range(2):  # a few classification steps, then localization and a second clustering
        optimizer.zero_grad()
        take_step(model, batch).loss.backward()
        optimizer.step()
    learned = model.heads.image.weight.detach().clone()
    assert model.heads.image.weight in optimizer.state
    for _ in range(3):
        end_pass(model, context)
    assert any(p is model.heads.image.weight for p in held)
    assert model.heads.image.weight not in optimizer.state
    assert model.image.layers[0][0].weight in optimizer.state, "the encoders' averages go on"
    fresh = model.heads.image.weight.detach().clone()
    assert not torch.allclose(fresh, learned)
    assert model.heads.image.bias.abs().max() == 0
    optimizer.zero_grad()
    take_step(model, batch).loss.backward()
    optimizer.step()
    moved = (model.heads.image.weight.detach() - fresh).abs().max().item()
    assert moved == pytest.approx(1e-3, rel=1e-2), "the first step of Adam has the length of the rate"


# Settings.


def test_presets_hold_what_the_published_code_has() -> None:
    code, both, tags = dsol.official(), dsol.two_stages(), dsol.audioset()
    assert (code.config.clusters, code.config.passes, code.config.mixtures) == (11, 3, 0)
    assert (code.optim.epochs, code.optim.batch_size, code.optim.lr, code.optim.weight_decay) == (15, 32, 1e-4, 1e-4)
    assert (code.inputs.rate, code.inputs.seconds, code.inputs.resize) == (16000, 1.0, 256)
    assert both == replace(code, config=replace(code.config, mixtures=5))
    assert (tags.config.variant, tags.config.clusters, tags.optim.batch_size) == ("audioset", 13, 256)
    assert (tags.config.first_clustering, tags.config.match_after, tags.config.match_weight) == (12, 50, 1.0)
    for preset in (code, both, tags):
        assert preset.config.encoders.layer4_stride == 1
        assert (preset.config.scale, preset.config.object_level) == (5.0, 0.05)
        assert (preset.config.head_lr, preset.config.head_decay) == (1e-3, 1e-4)


def test_the_defaults_are_stage_one_of_the_published_code_with_the_classes_of_vggsound() -> None:
    assert replace(Config(), clusters=11, first_clustering=2) == dsol.official().config
    assert Config().clusters == 309


def test_maps_have_14_places_at_224_pixels() -> None:
    torch.manual_seed(0)
    encoders = replace(Config().encoders, weights="random")
    model = Model(Config(encoders=encoders), replace(tiny.INPUTS, image_size=224, resize=224)).eval()
    with torch.no_grad():
        maps = model.localize(torch.zeros(1, 3, 224, 224, dtype=torch.uint8), torch.rand(1, tiny.INPUTS.samples))
    assert maps.dense.shape == (1, 14, 14)
    assert model.dictionary.shape == (309, 512)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"variant": "speech"}, "Expected variant music or audioset, but got 'speech'"),
        ({"dim": 0}, "Expected dim of at least 1, but got 0"),
        ({"clusters": 1}, "Expected clusters of at least 2, but got 1"),
        ({"passes": -1}, "Expected passes of at least 0, but got -1"),
        ({"first_clustering": 0}, "Expected first_clustering of at least 1, but got 0"),
        ({"mixtures": -1}, "Expected mixtures of at least 0, but got -1"),
        ({"match_after": -1}, "Expected match_after of at least 0, but got -1"),
        ({"match_weight": -0.5}, "Expected match_weight of at least 0, but got -0.5"),
        ({"head_decay": -1.0}, "Expected head_decay of at least 0, but got -1.0"),
        ({"head_lr": 0.0}, "Expected a positive head_lr, but got 0.0"),
        ({"scale": 0.0}, "Expected a positive scale, but got 0.0"),
        ({"object_level": 1.0}, "Expected object_level from 0 to less than 1, but got 1.0"),
        ({"passes": 0, "mixtures": 1}, "Expected passes of at least 1 before mixtures, but got 0. Their teacher is a"),
    ],
)
def test_bad_settings_are_refused_with_what_was_expected(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        replace(SETTINGS, **changes)
