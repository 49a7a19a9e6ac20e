"""CoarsetoFine's two stages: what each trains, where labels come from, and what its settings change."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn.functional import binary_cross_entropy, normalize

from earsight.category_places import fine_loss, shares
from earsight.checkpoint import save_weights
from earsight.encoders.base import Encoders
from earsight.errors import DataError, TrainingError, UsageError
from earsight.header import read_header
from earsight.methods.base import Stage
from earsight.methods.coarse_to_fine import Config, Model, official, paper
from earsight.types import Row
from tiny import take_step
from tiny.coarse import COARSE, FINE, INPUTS, SMALL, make_batch, make_model
from tiny.lent import Lent


@pytest.mark.parametrize(("epochs", "wanted"), [(1, (1, 1)), (2, (1, 1)), (3, (1, 2)), (20, (10, 10)), (40, (20, 20))])
def test_half_of_the_epochs_are_coarse_and_one_at_least(epochs: int, wanted: tuple[int, int]) -> None:
    for rate in (None, 1e-5):
        coarse, fine = Model(replace(SMALL, fine_lr=rate), INPUTS).stages(epochs)
        assert (coarse, fine) == (Stage("coarse", wanted[0]), Stage("fine", wanted[1], rate))


def test_projections_rest_in_the_first_stage_and_learn_in_the_second() -> None:
    model, batch = make_model(COARSE), make_batch()
    take_step(model, batch).loss.backward()
    for stage, learns in ((COARSE, False), (FINE, True)):
        model.start_stage(stage)
        model.zero_grad()
        take_step(model, batch).loss.backward()
        for p in (*model.project_picture.parameters(), *model.project_sound.parameters()):
            assert p.requires_grad == learns
            assert (p.grad is not None and bool(p.grad.abs().max() > 0)) == learns


def test_the_loss_is_the_sum_of_its_terms_in_both_stages() -> None:
    first = {"loss_pairs", "loss_sounds", "loss_pictures"}
    for stage, names in ((COARSE, first), (FINE, first | {"loss_near", "loss_apart"})):
        step = take_step(make_model(stage), make_batch())
        assert {name for name in step.logs if name.startswith("loss")} == names
        assert step.loss.item() == pytest.approx(sum(step.logs[name].item() for name in names), rel=1e-5)


def test_sounds_and_pictures_are_classified_by_labels_of_their_own_that_follow_the_index() -> None:
    model, batch = make_model(COARSE).eval(), make_batch()
    random = torch.Generator().manual_seed(3)
    sounds, pictures = (torch.rand(20, 3, generator=random) for _ in range(2))
    model.load_training_state({"sound_labels": sounds, "picture_labels": pictures})
    index = torch.tensor([19, 3, 7, 0, 11, 4])
    step = take_step(model, replace(batch, index=index))
    picture, sound = model.encode_images(batch.frames), model.encode_sounds(batch.waveforms)
    for name, places, head, labels in (
        ("loss_sounds", sound, model.audio_classes, sounds),
        ("loss_pictures", picture, model.image_classes, pictures),
    ):
        slow = binary_cross_entropy(torch.sigmoid(head(places.mean((2, 3)))), labels[index])
        assert step.logs[name].item() == pytest.approx(slow.item(), rel=1e-5)


def test_the_fine_terms_are_those_of_the_vectors_of_categories() -> None:
    model, batch = make_model().eval(), make_batch()
    step = take_step(model, batch)
    picture, sound = model.encode_images(batch.frames), model.encode_sounds(batch.waveforms)
    vectors: list[Tensor] = []
    active: list[Tensor] = []
    for places, head, project in (
        (sound, model.audio_classes, model.project_sound),
        (picture, model.image_classes, model.project_picture),
    ):
        vectors.append(normalize(project(shares(places, head.weight)), dim=2))
        active.append(torch.sigmoid(head(places.mean((2, 3)))) > 0.3)
    found = fine_loss(vectors[0], vectors[1], active[0], active[1], 1.4)
    assert step.logs["loss_near"].item() == pytest.approx(found.near.item(), rel=1e-5)
    assert step.logs["loss_apart"].item() == pytest.approx(found.apart.item(), rel=1e-5)
    assert step.logs["active"].item() == found.pairs.item()


def test_a_step_without_labels_is_refused() -> None:
    with pytest.raises(TrainingError, match=r"Expected labels of the training clips, but got none\. Call `on_epoch`"):
        take_step(Model(SMALL, INPUTS), make_batch())


def test_clusters_of_sounds_find_the_pitches() -> None:
    labels = make_model(COARSE).sound_labels
    assert labels[:3].unique().tolist() == [0, 1, 2]
    assert torch.equal(labels[:3], labels[3:])


def test_clusters_of_pictures_look_at_the_pictures_alone() -> None:
    batch = make_batch()
    same = replace(batch, frames=batch.frames[[0, 0, 1, 1, 2, 2]])
    for clustered, wanted in (("pictures", [0, 0, 1, 1, 2, 2]), ("sounds", [0, 1, 2, 0, 1, 2])):
        model = Model(replace(SMALL, clustered=clustered), INPUTS).eval()  # type: ignore[arg-type]
        model.on_epoch(Lent(same, stage=COARSE))
        names = model.sound_labels[[wanted.index(k) for k in range(3)]].tolist()
        assert sorted(names) == [0, 1, 2]
        assert model.sound_labels.tolist() == model.picture_labels.tolist() == [names[k] for k in wanted]


def test_clips_that_cannot_be_read_belong_to_no_cluster() -> None:
    class Torn(Lent):
        def extract(self, fn: Any) -> Tensor:
            found = super().extract(fn)
            found[1] = float("nan")
            return found

    model = Model(SMALL, INPUTS)
    model.on_epoch(Torn(make_batch(), stage=COARSE))
    assert (model.sound_labels == -1).tolist() == [False, True, False, False, False, False]


def test_fewer_clips_than_clusters_are_refused() -> None:
    with pytest.raises(UsageError, match="Expected at least 7 points for 7 clusters, but got 6"):
        make_model(COARSE, categories=7)


def test_classes_and_files_label_the_clips_too(tmp_path: Path) -> None:
    assert make_model(COARSE, labels="classes").picture_labels.tolist() == [0, 1, 2, 0, 1, 2]
    path = tmp_path / "tags.csv"
    path.write_text("id,x,y,z\n" + "".join(f"clip{i},0,{i / 8},1\n" for i in range(6)))
    model = make_model(COARSE, labels="file", sound_labels=str(path))
    assert model.sound_labels[:, 1].tolist() == [i / 8 for i in range(6)]
    assert torch.isfinite(take_step(model, make_batch()).loss)


def test_a_list_without_classes_cannot_be_trained_on_by_class() -> None:
    context = Lent(make_batch())
    context.rows = [Row(row.id) for row in context.rows]
    with pytest.raises(DataError, match="Expected a class for every training clip, but got none for 6 of 6"):
        Model(replace(SMALL, labels="classes"), INPUTS).on_epoch(context)


def test_the_second_stage_and_a_resumed_run_keep_the_labels_of_the_first() -> None:
    class Empty(Lent):
        def extract(self, fn: Any) -> Tensor:
            raise AssertionError("looked at the clips again")

    model = make_model(COARSE)
    before = model.sound_labels.clone()
    model.start_stage(FINE)
    model.on_epoch(Empty(make_batch(), stage=FINE))
    assert torch.equal(model.sound_labels, before)
    again = Model(SMALL, INPUTS)
    assert all(len(labels) == 0 for labels in again.training_state().values())
    again.load_state_dict(model.state_dict())  # in which there are no labels
    again.load_training_state(model.training_state())
    again.start_stage(FINE)
    assert take_step(again, make_batch()).loss.item() == take_step(model, make_batch()).loss.item()


def test_weights_name_the_source_of_their_labels(tmp_path: Path) -> None:
    model = make_model(COARSE, labels="classes")
    save_weights(tmp_path / "w.safetensors", model, "coarse_to_fine", model.config, {})
    assert read_header(tmp_path / "w.safetensors")["config"]["labels"] == "classes"


def test_a_step_with_ground_truth_brings_maps_with_gradient() -> None:
    for stage in (COARSE, FINE):
        model = make_model(stage).eval()
        batch = make_batch(truth=True)
        maps = take_step(model, batch).maps
        assert maps is not None
        torch.testing.assert_close(maps.dense, model.localize(batch.frames, batch.waveforms).dense)
        maps.dense.square().mean().backward()
        assert all(any(p.grad is not None for p in part.parameters()) for part in (model.image, model.audio))
    assert take_step(make_model(), make_batch()).maps is None


def test_half_precision_stops_at_the_encoders() -> None:
    model, batch = make_model(), make_batch(truth=True)
    seen: list[torch.dtype] = []
    model.project_sound.register_forward_hook(lambda _, given, out: seen.extend((given[0].dtype, out.dtype)))
    with torch.autocast("cpu", torch.bfloat16):
        step = take_step(model, batch)
        model.eval().localize(batch.frames, batch.waveforms)
    assert set(seen) == {torch.float32}
    assert step.loss.dtype == torch.float32
    assert torch.isfinite(step.loss)


def test_the_pair_classifier_pools_means_or_maxima() -> None:
    mean, most, batch = make_model(), make_model(pooling="max"), make_batch()
    places = torch.rand(2, 16, 3, 3)
    torch.testing.assert_close(mean.pooled(places), places.mean((2, 3)))
    torch.testing.assert_close(most.pooled(places), places.amax((2, 3)))
    one, two = take_step(mean, batch).logs, take_step(most, batch).logs
    assert one["loss_pairs"] != two["loss_pairs"]
    assert one["loss_near"] == two["loss_near"]


def test_level_and_margin_reach_the_second_stage() -> None:
    batch = make_batch()
    start = take_step(make_model(), batch).logs
    assert take_step(make_model(active=0.6), batch).logs["active"] < start["active"]
    assert take_step(make_model(margin=0.7), batch).logs["loss_apart"] < start["loss_apart"]


def test_presets_are_what_their_sources_say() -> None:
    code, text = official(), paper()
    assert replace(text.config, pooling="mean", double_sigmoid=True) == code.config
    assert (code.config.pooling, text.config.pooling) == ("mean", "max")
    assert (code.config.labels, code.config.categories, code.config.fine_lr) == ("file", 7, 1e-4)
    assert (code.optim.optimizer, code.optim.lr, code.optim.weight_decay) == ("sgd", 1e-3, 5e-4)
    assert (code.optim.batch_size, code.optim.epochs) == (16, 40)
    assert (code.inputs.image_size, code.inputs.seconds, code.inputs.window, code.inputs.hop) == (256, 5.0, 882, 441)
    assert (Config().active, Config().margin, Config().dim, Config().double_sigmoid) == (0.3, 1.4, 128, False)


def test_maps_have_16_places_at_the_published_size_and_14_at_224_pixels() -> None:
    torch.manual_seed(0)
    model = Model(Config(encoders=Encoders(layer4_stride=1, weights="random")), INPUTS).eval()
    for size, places in ((256, 16), (224, 14)):
        with torch.no_grad():
            maps = model.localize(torch.zeros(1, 3, size, size, dtype=torch.uint8), torch.rand(1, INPUTS.samples))
        assert maps.dense.shape == maps.native.shape == (1, places, places)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"labels": "guess"}, "Expected labels clusters or classes or file, but got 'guess'"),
        ({"categories": 0}, "Expected categories of at least 1, but got 0"),
        ({"class_groups": "x.csv"}, "Expected class_groups with labels 'classes' only, but got clusters"),
        (
            {"sound_labels": "x.csv"},
            "Expected sound_labels and picture_labels with labels 'file' only, but got clusters",
        ),
        ({"fine_lr": 0.0}, "Expected a positive fine_lr, but got 0.0"),
        ({"dim": 0}, "Expected dim of at least 1, but got 0"),
        ({"active": 1.0}, "Expected active of at least 0 and below 1, but got 1.0"),
        ({"margin": 2.5}, "Expected a margin above 0 and at most 2, the largest distance, but got 2.5"),
    ],
)
def test_bad_settings_are_refused_with_what_was_expected(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        replace(SMALL, **changes)
