"""What the trainer, the evaluator and the localizer may expect of every method in the methods folder."""

from __future__ import annotations

from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from earsight import registry
from earsight.checkpoint import load_weights, save_weights
from earsight.config import Inputs, Optim, Supervision, from_json, to_json
from earsight.encoders.base import Encoders
from earsight.methods.base import Method, Preset, Stage, build
from earsight.predict import predict
from earsight.protocols import PROTOCOLS, get
from earsight.training.step import Supervised
from earsight.types import Batch, Maps, Row, Step
from tiny.lent import Lent, beside

METHODS = registry.names("method")
INPUTS = Inputs(image_size=32, resize=36, rate=8000, seconds=0.5, window=64, hop=48)
SMALLER = {
    "dim": 8,
    "momentum": 0.9,
    "visual_dropout": 0.0,
    "audio_dropout": 0.0,
    "dropout": 0.0,
    "warmup": 0,
    "mask_width": 0,
    "weights": "random",
    "layer4_stride": 1,
}
"""Settings that make any method small and repeatable, where it has them."""


def tiny_config(name: str) -> Any:
    """The method's default settings with the smallest encoders and without dropout."""
    config = registry.load("method", name).Config()
    changes: dict[str, Any] = {f.name: SMALLER[f.name] for f in fields(config) if f.name in SMALLER}
    for f in fields(config):
        if isinstance(getattr(config, f.name), Encoders):
            changes[f.name] = Encoders("small", "small", weights="random", width=4)
    return replace(config, **changes)


def tiny(name: str, seed: int = 0) -> Method:
    torch.manual_seed(seed)
    return build(name, tiny_config(name), INPUTS)


def learner(name: str, seed: int = 0) -> Method:
    """As `tiny`; for what only a method with something to learn can do."""
    model = tiny(name, seed)
    if not model.stages(1):
        pytest.skip("nothing to learn")
    model.on_epoch(Lent(pairs(), stage=model.stages(1)[0]))
    return model


def pairs(clips: int = 8, seed: int = 0) -> Batch:
    """Random pictures, each with a tone of its own, so that nothing is tied and every pair can be learned."""
    random = torch.Generator().manual_seed(seed)
    frames = torch.randint(0, 256, (clips, 3, 32, 32), generator=random, dtype=torch.uint8)
    time = torch.arange(INPUTS.samples) / INPUTS.rate
    pitch = 200 + 3000 * torch.rand(clips, 1, generator=random)
    waves = 0.4 * torch.sin(2 * torch.pi * pitch * time) + 0.02 * torch.randn(clips, len(time), generator=random)
    truth = torch.zeros(clips, 32, 32)
    truth[:, 8:24, 8:24] = 1
    rows = tuple(Row(f"clip{i}") for i in range(clips))
    return Batch(frames, waves, torch.arange(clips), rows, truth, torch.ones(clips, dtype=torch.bool))


def reordered(batch: Batch, pictures: Tensor, sounds: Tensor) -> Batch:
    truth = None if batch.truth is None else batch.truth[pictures]
    rows = tuple(batch.rows[i] for i in pictures.tolist())
    return Batch(batch.frames[pictures], batch.waveforms[sounds], batch.index[pictures], rows, truth, batch.supervised)


def loss(model: Method, batch: Batch, seed: int = 0) -> Tensor:
    torch.manual_seed(seed)
    step = model.loss(beside(model, batch, pairs()), [len(batch)])
    assert isinstance(step, Step)
    return step.loss


def one_step(model: Method, batch: Batch, optimizer: torch.optim.Optimizer) -> None:
    optimizer.zero_grad()
    loss(model, batch).backward()
    optimizer.step()
    model.after_step()


def epochs_of(stage: Stage) -> int:
    """What has no gradient in one epoch may have one in another, where a stage says so."""
    return stage.epochs if stage.has_unused_parameters else 1


def localize(model: Method, batch: Batch) -> Maps:
    with torch.no_grad():
        return model.eval().localize(batch.frames, batch.waveforms)


@pytest.mark.parametrize("name", METHODS)
def test_a_method_file_defines_settings_model_and_presets(name: str) -> None:
    module = registry.load("method", name)
    assert is_dataclass(module.Config)
    assert issubclass(module.Model, Method)
    assert module.PRESETS
    for make in module.PRESETS.values():
        preset = make()
        assert isinstance(preset, Preset)
        assert isinstance(preset.config, module.Config)
        assert isinstance(preset.inputs, Inputs)
        assert isinstance(preset.optim, Optim)
        assert preset.protocol in PROTOCOLS
        assert from_json(module.Config, to_json(preset.config)) == preset.config
        assert make.__doc__


@pytest.mark.parametrize("name", METHODS)
def test_the_loss_is_one_finite_number_and_logs_are_detached(name: str) -> None:
    model = learner(name)
    step = model.loss(beside(model, pairs(), pairs()), [8])
    assert step.loss.shape == ()
    assert torch.isfinite(step.loss)
    assert step.loss.requires_grad
    for value in step.logs.values():
        assert value.numel() == 1
        assert not value.requires_grad
        assert torch.isfinite(value)


@pytest.mark.parametrize("name", METHODS)
def test_every_trainable_parameter_of_every_stage_gets_a_gradient_and_nothing_frozen_does(name: str) -> None:
    model = learner(name)
    for stage in model.stages(2):
        model.start_stage(stage)
        model.zero_grad()
        for epoch in range(epochs_of(stage)):
            loss(model, pairs()).backward()
            if epoch + 1 < epochs_of(stage):
                model.on_epoch(Lent(pairs(), stage=stage, epoch=epoch))
        assert any(p.requires_grad for p in model.parameters())
        for key, p in model.named_parameters():
            if p.requires_grad:
                assert p.grad is not None, f"{key} gets no gradient in stage {stage.name}"
                assert torch.isfinite(p.grad).all(), key
            else:
                assert p.grad is None, f"{key} is frozen in stage {stage.name}"


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize("form", ["", "own", "squared", "unscaled", "bce"])
def test_half_precision_changes_little_with_and_without_ground_truth(name: str, form: str) -> None:
    found: dict[bool, list[float]] = {}
    for half in (False, True):
        model = learner(name)
        step_of = Supervised(model, Supervision(float(bool(form)), form or "own"))  # type: ignore[arg-type]
        found[half] = []
        for stage in model.stages(2):
            model.start_stage(stage)
            for epoch in range(epochs_of(stage)):
                model.zero_grad()
                torch.manual_seed(0)
                with torch.autocast("cpu", torch.bfloat16, enabled=half):
                    step = step_of(beside(model, pairs(), pairs()))
                step.loss.backward()
                assert step.loss.dtype == torch.float32
                assert all(torch.isfinite(p.grad).all() for p in model.parameters() if p.grad is not None)
                found[half].append(step.loss.item())
                if epoch + 1 < epochs_of(stage):
                    model.on_epoch(Lent(pairs(), stage=stage, epoch=epoch))
    assert found[True] == pytest.approx(found[False], rel=0.1, abs=0.05)


@pytest.mark.parametrize("name", METHODS)
def test_maps_have_a_grid_are_finite_and_keep_their_bounds(name: str) -> None:
    maps = localize(tiny(name), pairs(5))
    assert maps.dense.shape == maps.native.shape
    assert maps.dense.shape[0] == 5
    assert min(maps.dense.shape[1:]) >= 2
    assert torch.isfinite(maps.dense).all()
    assert torch.isfinite(maps.native).all()
    if maps.bounds is not None:
        low, high = maps.bounds
        assert low - 1e-5 <= maps.dense.min()
        assert maps.dense.max() <= high + 1e-5


@pytest.mark.parametrize("name", METHODS)
def test_a_pair_gets_the_same_map_alone_and_among_others(name: str) -> None:
    model, batch = tiny(name), pairs(5)
    together = localize(model, batch)
    for i in range(5):
        with torch.no_grad():
            alone = model.eval().localize(batch.frames[i : i + 1], batch.waveforms[i : i + 1])
        torch.testing.assert_close(alone.dense[0], together.dense[i], rtol=0, atol=1e-5)
        torch.testing.assert_close(alone.native[0], together.native[i], rtol=0, atol=1e-5)


@pytest.mark.parametrize("name", METHODS)
def test_dense_and_native_agree_in_order_where_native_is_not_tied(name: str) -> None:
    maps = localize(tiny(name), pairs(6))
    native, dense = maps.native.flatten(1), maps.dense.flatten(1)
    above = native[:, :, None] > native[:, None, :] + 1e-6
    assert (dense[:, :, None] >= dense[:, None, :] - 1e-6)[above].all()


@pytest.mark.parametrize("name", METHODS)
def test_localizing_changes_nothing(name: str) -> None:
    model = tiny(name)
    before = {key: value.clone() for key, value in model.state_dict().items()}
    localize(model, pairs())
    assert all(torch.equal(value, before[key]) for key, value in model.state_dict().items())


@pytest.mark.parametrize("name", METHODS)
def test_silence_and_a_flat_picture_give_finite_maps(name: str) -> None:
    with torch.no_grad():
        maps = tiny(name).eval().localize(torch.zeros(2, 3, 32, 32, dtype=torch.uint8), torch.zeros(2, INPUTS.samples))
    assert torch.isfinite(maps.dense).all()


@pytest.mark.parametrize("name", METHODS)
def test_the_order_of_the_batch_does_not_change_the_loss(name: str) -> None:
    batch = pairs(6)
    order = torch.tensor([3, 1, 5, 0, 4, 2])
    torch.testing.assert_close(
        loss(learner(name), reordered(batch, order, order)), loss(learner(name), batch), rtol=1e-4, atol=1e-5
    )


@pytest.mark.slow
@pytest.mark.parametrize("name", METHODS)
def test_after_200_steps_true_pairs_cost_less_than_shuffled_ones(name: str) -> None:
    model, batch = learner(name), pairs(8)
    for stage in model.stages(2):
        model.start_stage(stage)
        optimizer = torch.optim.Adam([p for p in model.parameters() if p.requires_grad], lr=3e-3)
        for _ in range(200):
            one_step(model, batch, optimizer)
    same = torch.arange(8)
    with torch.no_grad():
        assert loss(model, batch) < 0.7 * loss(model, reordered(batch, same, same.roll(1)))


@pytest.mark.parametrize("name", METHODS)
def test_saving_and_loading_keeps_the_map(name: str, tmp_path: Path) -> None:
    model, batch = tiny(name), pairs()
    save_weights(tmp_path / "w.safetensors", model, name, tiny_config(name), {"protocol": "exact"})
    again = load_weights(tmp_path / "w.safetensors").model
    assert torch.equal(localize(again, batch).dense, localize(model, batch).dense)


@pytest.mark.parametrize("name", METHODS)
def test_saving_and_loading_keeps_loss_map_and_next_step(name: str, tmp_path: Path) -> None:
    model, batch = learner(name), pairs()
    for stage in model.stages(2):
        model.train()
        model.start_stage(stage)
        one_step(model, batch, torch.optim.SGD([p for p in model.parameters() if p.requires_grad], lr=1e-2))
        save_weights(tmp_path / "w.safetensors", model, name, tiny_config(name), {"protocol": "exact"})
        again = load_weights(tmp_path / "w.safetensors").model
        assert torch.equal(localize(again, batch).dense, localize(model, batch).dense)
        again.start_stage(stage)
        again.load_training_state(model.training_state())
        again.train()
        model.train()
        assert torch.equal(loss(again, batch), loss(model, batch))
        for m in (model, again):
            one_step(m, batch, torch.optim.SGD([p for p in m.parameters() if p.requires_grad], lr=1e-2))
        after = again.state_dict()
        assert all(torch.equal(value, after[key]) for key, value in model.state_dict().items())


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize("protocol", [name for name, p in PROTOCOLS.items() if p.threshold == "top_half"])
def test_confidence_has_spread(name: str, protocol: str) -> None:
    model = tiny(name)
    confidence = predict(localize(model, pairs(32)), get(protocol)).confidence
    assert confidence.shape == (32,)
    # A method without a single parameter has nothing to look and listen with.
    assert confidence.std() > 1e-4 or not list(model.parameters())


@pytest.mark.parametrize("name", METHODS)
def test_one_seed_gives_one_model(name: str) -> None:
    one, two, other = tiny(name, 0), tiny(name, 0), tiny(name, 1)
    assert all(torch.equal(a, b) for a, b in zip(one.parameters(), two.parameters(), strict=True))
    same = [torch.equal(a, b) for a, b in zip(one.parameters(), other.parameters(), strict=True)]
    assert not same or not all(same)
