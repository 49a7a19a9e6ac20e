"""Every method that encodes pictures and sounds apart works with encoders of different widths, one from outside."""

from __future__ import annotations

import signal
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import tiny
from earsight import registry
from earsight.checkpoint import Weights, load_weights, save_weights
from earsight.cli import main
from earsight.header import read_header
from earsight.localize.torch_model import TorchModel
from earsight.media.write import write_png, write_wav
from earsight.methods.base import TwoTower, build
from tiny import any_method, killing, processes, take_step
from tiny.lent import Lent, beside
from tiny.parity import whole_batch

NARROW = "tiny.narrow_audio"
METHODS = [name for name in registry.names("method") if issubclass(registry.load("method", name).Model, TwoTower)]
CASES = [(name, preset) for name in METHODS for preset in registry.load("method", name).PRESETS]


def settings(name: str, preset: str = "") -> Any:
    """A method's settings made tiny, with 16 channels for pictures and 12 for sounds."""
    config = any_method.settings(name, preset)
    return replace(config, encoders=replace(config.encoders, audio=NARROW))


def made(name: str, preset: str) -> TwoTower:
    torch.manual_seed(0)
    model = build(name, settings(name, preset), tiny.INPUTS)
    assert isinstance(model, TwoTower)
    assert [encoder.channels for encoder in model.encoders()] == [16, 12]
    return model


@pytest.mark.parametrize(("name", "preset"), CASES)
def test_every_stage_has_a_loss_whose_gradient_reaches_both_encoders(name: str, preset: str) -> None:
    model, batch = made(name, preset), whole_batch()
    for stage in model.stages(12):
        model.start_stage(stage)
        model.on_epoch(Lent(batch, stage=stage))
        reached = {"image": False, "audio": False}
        for epoch in range(stage.epochs if stage.has_unused_parameters else 1):
            model.train().zero_grad()
            step = take_step(model, beside(model, batch, batch))
            assert torch.isfinite(step.loss)
            step.loss.backward()  # type: ignore[no-untyped-call]
            for key, p in model.named_parameters():
                if p.grad is not None:
                    assert torch.isfinite(p.grad).all(), key
                    reached |= {side: True for side in reached if f"{side}." in key and p.grad.abs().max() > 0}
            if epoch + 1 < stage.epochs:
                model.on_epoch(Lent(batch, stage=stage, epoch=epoch))
        assert reached == {"image": True, "audio": True}


@pytest.mark.parametrize(("name", "preset"), CASES)
def test_one_picture_with_many_sounds_gets_the_maps_of_its_pairs(name: str, preset: str) -> None:
    model, batch = made(name, preset).eval(), whole_batch()
    running = TorchModel(Weights(model, name, settings(name, preset), tiny.INPUTS, {}))
    with torch.no_grad():
        wanted = model.localize(batch.frames[:1].expand(8, -1, -1, -1), batch.waveforms).arrays()
    got = running.localize(batch.frames[:1].numpy(), batch.waveforms.numpy(), np.zeros(8, np.int64), np.arange(8))
    np.testing.assert_allclose(got.dense, wanted.dense, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(got.native, wanted.native, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("name", "preset"), CASES)
def test_weights_name_both_encoders_and_load_to_the_same_maps(name: str, preset: str, tmp_path: Path) -> None:
    model, batch, path = made(name, preset).eval(), whole_batch(), tmp_path / "w.safetensors"
    save_weights(path, model, name, settings(name, preset), {"protocol": "exact"})
    named = read_header(path)["config"]["encoders"]
    assert (named["image"], named["audio"]) == ("small", NARROW)
    again = load_weights(path).model
    with torch.no_grad():
        one, two = (m.localize(batch.frames, batch.waveforms).dense for m in (model, again))
    assert torch.equal(one, two)


@pytest.mark.slow
@pytest.mark.parametrize("name", METHODS)
def test_it_trains_goes_on_is_measured_localizes_and_is_exported_by_commands(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EARSIGHT_MODULES", "tiny")  # whose sets and encoders files may then name
    run, straight = tmp_path / "run", tmp_path / "straight"
    job = tiny.job(method=name, settings=settings(name), limit=24, val="")
    process = processes.start(killing.resume_until_write, job, run, "state.pt", 2, "before")
    assert processes.finish([process]) == [-signal.SIGKILL]
    assert main(["train", "--out", str(run), "--resume", "--device", "cpu"]) == 0
    assert processes.finish([processes.start(killing.resume, job, straight)]) == [0]
    got, wanted = killing.contents(run), killing.contents(straight)
    assert all(torch.equal(got[0][key], value) for key, value in wanted[0].items())
    assert got[2] == wanted[2]

    assert main(["eval", str(run), "--on", "toybox", "--limit", "8", "--audio", "real", "--device", "cpu"]) == 0
    write_png(tmp_path / "picture.png", np.full((3, 40, 60), 90, np.uint8))
    write_wav(tmp_path / "tone.wav", np.sin(np.arange(8000) / 3).astype(np.float32), 8000)
    pair = ["--image", str(tmp_path / "picture.png"), "--audio", str(tmp_path / "tone.wav"), "--format", "json"]
    assert main(["localize", str(run), *pair, "-o", str(tmp_path / "shown")]) == 0
    assert main(["export", str(run), "--out", str(tmp_path / "exported")]) == 0
    assert main(["localize", str(tmp_path / "exported"), *pair, "-o", str(tmp_path / "again")]) == 0
