"""The still-frame form of AVObject against values computed by hand, its shifted sounds, and its scale."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from earsight.config import Inputs, Optim, from_json, to_json
from earsight.encoders.base import Encoders
from earsight.errors import UsageError
from earsight.losses import all_pairs, match, paired
from earsight.methods import avobject
from earsight.methods.avobject import LEAST, MOST, PRESETS, Config, Model, find_sound, log_places, ours
from earsight.training.step import make_optimizer
from earsight.types import Batch, Row
from tiny import take_step

INPUTS = Inputs(image_size=32, resize=36, rate=8000, seconds=0.5, window=128, hop=64)
SMALL = Config(encoders=Encoders("small", "small", weights="random", width=4), dim=8, shift_seconds=0.25)


def make_model(**changes: Any) -> Model:
    torch.manual_seed(0)
    return Model(replace(SMALL, **changes), INPUTS)


def make_batch(model: Model, clips: int = 4) -> Batch:
    """Clips with as much sound as the model asks for in training."""
    random = torch.Generator().manual_seed(0)
    frames = torch.randint(0, 256, (clips, 3, 32, 32), generator=random, dtype=torch.uint8)
    waves = torch.rand(clips, round(INPUTS.rate * model.training_seconds), generator=random) - 0.5
    return Batch(frames, waves, torch.arange(clips), tuple(Row(f"clip{i}") for i in range(clips)))


def features(model: Model, batch: Batch) -> tuple[Tensor, Tensor]:
    return model.embed_images(batch.frames)["places"], model.embed_sounds(batch.waveforms)["sound"]


def test_pictures_find_sounds_and_not_the_other_way_round() -> None:
    scores = torch.tensor([[1.0, 0.0], [0.5, 1.0]])
    assert find_sound(scores).item() == pytest.approx(0.39367, abs=1e-5)
    both = match(scores, "audios") + match(scores, "images")  # EZ-VSL's loss
    assert both.item() == pytest.approx(0.78734, abs=1e-5)
    uneven = torch.tensor([[1.0, 0.0], [2.0, 3.0]])
    assert find_sound(uneven) == match(uneven, "audios")
    assert find_sound(uneven) != find_sound(uneven.T)


def test_the_papers_map_is_a_log_softmax_over_places() -> None:
    got = log_places(torch.tensor([[[1.0, 0.0]], [[0.0, 1.0]]]))
    torch.testing.assert_close(got[0, 0], torch.tensor([-0.31326, -1.31326]), atol=1e-5, rtol=0)
    torch.testing.assert_close(got.exp().sum((1, 2)), torch.ones(2))


def test_a_sound_against_one_shift_of_itself_equals_the_hand_computed_value() -> None:
    """The paper's score of a video is a mean over frames of their best places: (1, 0.5) -> 0.75."""
    score = torch.tensor([[[1.0, -1.0], [0.5, 0.0]]]).amax(2).mean(1)
    assert score.item() == 0.75
    assert find_sound(score[None], torch.tensor([[0.25]])).item() == pytest.approx(0.47408, abs=1e-5)


def test_31_equal_candidates_cost_the_logarithm_of_31() -> None:
    assert find_sound(torch.zeros(1, 1), torch.zeros(1, 30)).item() == pytest.approx(3.43399, abs=1e-5)
    assert math.log(31) == pytest.approx(3.43399, abs=1e-5)


def test_the_training_step_is_the_loss_of_the_best_places_times_the_scale() -> None:
    model = make_model(scale=3.0)
    batch = make_batch(model)
    best = all_pairs(*features(model, batch)).flatten(2).amax(2)
    assert take_step(model, batch).loss.item() == pytest.approx(match(3 * best, "audios").item(), abs=1e-5)


def slow_step(model: Model, batch: Batch) -> tuple[Tensor, Tensor]:
    """Loss and candidates of a batch with two shifts, clip by clip."""
    samples, stride = INPUTS.samples, round(0.25 * INPUTS.rate)
    windows = torch.stack([batch.waveforms[:, i * stride : i * stride + samples] for i in range(3)], 1)
    sounds = model.embed_sounds(windows.flatten(0, 1))["sound"].view(len(batch), 3, -1)
    places = model.embed_images(batch.frames)["places"]
    rows = []
    for i in range(len(batch)):
        heard = torch.cat([sounds[:, 1], sounds[i, [0, 2]]])
        rows.append(paired(places[i].expand(len(heard), -1, -1, -1), heard).amax((1, 2)))
    candidates = torch.stack(rows)
    own = torch.stack([candidates[i].log_softmax(0)[i] for i in range(len(batch))])
    return -own.mean(), candidates


def test_shifted_sounds_are_further_candidates_for_their_own_picture_alone() -> None:
    model = make_model(shifts=2)
    batch = make_batch(model)
    wanted, candidates = slow_step(model, batch)
    assert candidates.shape == (4, 6)
    step = take_step(model, batch)
    assert step.loss.item() == pytest.approx(wanted.item(), abs=1e-5)
    assert step.logs["shifted"].item() == pytest.approx(candidates[:, 4:].mean().item(), abs=1e-5)


def test_training_asks_for_the_seconds_that_the_shifts_need_and_the_middle_is_the_frames() -> None:
    assert make_model().training_seconds == 0.5
    model = make_model(shifts=4)
    assert model.training_seconds == 0.5 + 4 * 0.25
    long = torch.arange(round(INPUTS.rate * model.training_seconds), dtype=torch.float32)[None]
    windows = model.windows(long)
    assert windows.shape == (1, 5, INPUTS.samples)
    middle = (long.shape[1] - INPUTS.samples) // 2
    torch.testing.assert_close(windows[0, 2], long[0, middle : middle + INPUTS.samples])
    odd = Model(replace(SMALL, shifts=2, shift_seconds=1 / 3), INPUTS)  # no whole number of samples
    assert odd.windows(torch.zeros(1, round(INPUTS.rate * odd.training_seconds))).shape[1] == 3


def test_shifts_of_less_than_a_sample_are_refused() -> None:
    with pytest.raises(UsageError, match="Expected shift_seconds of at least one sample, 1/8000, but got 1e-05"):
        make_model(shifts=2, shift_seconds=1e-5)


def test_localizing_hears_one_window_whatever_the_shifts() -> None:
    model = make_model(shifts=2).eval()
    frames, wave = torch.zeros(1, 3, 32, 32, dtype=torch.uint8), torch.rand(1, INPUTS.samples)
    with torch.no_grad():
        assert model.localize(frames, wave).dense.shape == (1, 2, 2)


def test_the_confidence_is_the_scaled_cosine_of_the_best_place() -> None:
    model = make_model(scale=2.5).eval()
    batch = make_batch(model)
    with torch.no_grad():
        maps = model.localize(batch.frames, batch.waveforms)
    assert maps.confidence is not None
    torch.testing.assert_close(maps.confidence, 2.5 * maps.dense.amax((1, 2)))
    torch.testing.assert_close(maps.native, log_places(2.5 * maps.dense))
    assert maps.bounds == (-1.0, 1.0)


def test_the_scale_starts_at_1_is_learned_and_stays_within_its_limits() -> None:
    model = make_model()
    assert model.scale.item() == 1.0
    take_step(model, make_batch(model)).loss.backward()
    assert model.scale.grad is not None
    assert model.scale.grad != 0
    for value, kept in ((-3.0, LEAST), (1e6, MOST), (7.0, 7.0)):
        with torch.no_grad():
            model.scale.fill_(value)
        model.after_step()
        assert model.scale.item() == pytest.approx(kept)


@pytest.mark.parametrize(("scale_lr", "rate"), [(0.0, 1e-3), (0.5, 0.5)])
def test_the_scale_has_its_own_learning_rate_and_no_weight_decay(scale_lr: float, rate: float) -> None:
    model = make_model(scale_lr=scale_lr)
    optimizer = make_optimizer(model.groups(), Optim(weight_decay=0.1), 1e-3)
    networks, scale = optimizer.param_groups
    assert (networks["lr"], networks["weight_decay"]) == (1e-3, 0.1)
    assert (scale["lr"], scale["weight_decay"]) == (rate, 0.0)
    assert scale["params"] == [model.scale]
    assert len(networks["params"]) + 1 == len(list(model.parameters()))


def test_heads_have_two_layers_with_a_batch_norm_between() -> None:
    model = make_model()
    shapes = {name: tuple(p.shape) for name, p in model.named_parameters() if "head" in name}
    for head, ones in (("image_head", (1, 1)), ("audio_head", ())):
        assert shapes[f"{head}.0.weight"] == (16, 16, *ones)
        assert shapes[f"{head}.1.weight"] == (16,)
        assert shapes[f"{head}.3.weight"] == (8, 16, *ones)


def test_ground_truth_pulls_at_the_maps_of_the_batch() -> None:
    model = make_model()
    batch = make_batch(model)
    assert take_step(model, batch).maps is None
    step = take_step(model, replace(batch, truth=torch.zeros(4, 32, 32), supervised=torch.ones(4, dtype=torch.bool)))
    assert step.maps is not None
    assert step.maps.dense.requires_grad
    torch.testing.assert_close(step.maps.dense, paired(*features(model, batch)))


def test_it_is_marked_as_ours() -> None:
    assert list(PRESETS) == ["ours"]
    assert "ours" in str(avobject.__doc__)
    assert "ours" in str(Config.__doc__)
    assert "ours" in str(ours.__doc__)
    preset = ours()
    assert (preset.config, preset.inputs, preset.optim) == (Config(), Inputs.official(), Optim())
    assert preset.config.encoders.layer4_stride == 1
    assert from_json(Config, to_json(preset.config)) == preset.config


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"dim": 0}, "Expected dim of at least 1, but got 0"),
        ({"scale": 0.0}, "Expected scale between 0.01 and 100.0, but got 0.0"),
        ({"scale_lr": -1.0}, "Expected a positive scale_lr, or 0, but got -1.0"),
        ({"shifts": 3}, "Expected an even number of shifts, as many before as after, but got 3"),
        ({"shifts": -2}, "Expected an even number of shifts, as many before as after, but got -2"),
        ({"shift_seconds": 0.0}, "Expected positive shift_seconds, but got 0.0"),
    ],
)
def test_bad_settings_are_refused_with_what_was_expected(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        replace(SMALL, **changes)
