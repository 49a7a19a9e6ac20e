"""Files that are not part of earsight: a sampler, a loss that knows labels, a class written in a notebook."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from earsight.cli import main
from earsight.errors import UsageError
from earsight.training.job import Job
from tiny import any_method, outside

DOCS = outside.ROOT / "docs"


def example(page: str, heading: str = "") -> str:
    """The first Python block of a page, below a heading."""
    text = (DOCS / page).read_text(encoding="utf-8").partition(heading)[2] if heading else (DOCS / page).read_text()
    return text.split("```python\n")[1].split("```")[0]


@pytest.mark.slow
def test_a_sampler_of_ones_own_trains_resumes_and_is_not_needed_afterwards(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    outside.write(tmp_path, monkeypatch, "label_runs", example("add-a-sampler.md"))
    args = ["slavc", "--on", "toybox", "--optim.sampler", "own.label_runs", *any_method.flags("slavc")]
    run = outside.whole_life(tmp_path, capsys, *args)
    assert '"sampler": "own.label_runs"' in (run / "run.json").read_text()
    plain, flags = tmp_path / "plain", any_method.flags("slavc")
    assert main(["train", "slavc", "--on", "toybox", *flags, *outside.TINY, "--out", str(plain)]) == 0
    assert (plain / "weights.safetensors").read_bytes() != (run / "weights.safetensors").read_bytes()


@pytest.mark.slow
def test_a_run_names_the_sampler_that_it_needs_to_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    outside.write(tmp_path, monkeypatch, "label_runs", example("add-a-sampler.md"))
    args = ["slavc", "--on", "toybox", "--optim.sampler", "own.label_runs", *any_method.flags("slavc"), *outside.TINY]
    assert main(["train", *args, "--out", "run"]) == 0
    (tmp_path / "run" / "weights.safetensors").unlink()
    done = outside.shell("earsight train --out run --resume", tmp_path)
    assert done.returncode == 1
    assert "Expected a sampler of earsight in run/run.json, but got the module 'own.label_runs'" in done.stderr
    done = outside.shell("EARSIGHT_MODULES=own earsight train --out run --resume --device cpu", tmp_path)
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
def test_a_loss_that_knows_labels_keeps_nothing_by_hand(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    outside.write(tmp_path, monkeypatch, "same_label", example("add-a-method.md", "## A loss that knows labels"))
    flags = ["--method.encoders.image", "small", "--method.encoders.audio", "small", "--method.encoders.width", "4"]
    outside.whole_life(tmp_path, capsys, "own.same_label", "--on", "toybox", *flags)


@pytest.mark.slow
def test_a_model_in_which_picture_and_sound_meet_early_is_a_method_like_any_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    text = example("add-a-method.md", "## A model in which picture and sound meet early")
    outside.write(tmp_path, monkeypatch, "early_fusion", text)
    run = outside.whole_life(tmp_path, capsys, "own.early_fusion", "--on", "toybox")
    assert main(["export", str(run), "--out", str(tmp_path / "exported")]) == 0
    assert {file.name for file in (tmp_path / "exported").iterdir()} == {"config.json", "model.onnx"}
    assert main(["localize", str(tmp_path / "exported"), *outside.pair(tmp_path), "-o", str(tmp_path / "again")]) == 0


NOTEBOOK = '''
import signal, sys, os
from dataclasses import dataclass, field
from pathlib import Path
import numpy as np
import torch
from torch import nn
import earsight
import tiny
from earsight.checkpoint import load_weights
from earsight.data.clips import open_set
from earsight.protocols import get
from earsight.methods.base import Method
from earsight.training.job import Job
from earsight.types import Maps, Step
from tiny import killing

@dataclass(frozen=True)
class MyConfig:
    channels: int = 4

class MyModel(Method):
    """Early fusion: the sound's level is a channel of the picture."""
    Config = MyConfig

    def __init__(self, config, inputs):
        super().__init__(inputs)
        self.net = nn.Sequential(nn.Conv2d(4, config.channels, 5, 4), nn.ReLU(), nn.Conv2d(config.channels, 1, 1))

    def score(self, pictures, sounds):
        level = sounds.abs().mean(1)[:, None, None, None].expand(-1, 1, *pictures.shape[2:])
        return self.net(torch.cat([pictures / 255, level], 1))[:, 0]

    def loss(self, batch, counts):
        true = self.score(batch.frames, batch.waveforms).mean((1, 2))
        other = self.score(batch.frames, batch.waveforms.roll(1, 0)).mean((1, 2))
        return Step(nn.functional.softplus(other - true).mean())

    def localize(self, pictures, sounds):
        maps = self.score(pictures, sounds)
        return Maps(maps, maps)

what, out = sys.argv[1], Path(sys.argv[2])
job = Job(method=MyModel, inputs=tiny.INPUTS, optim=tiny.OPTIM, on="tiny.tones", val="tiny.tones:val", limit=32)
assert job.method == "__main__.MyModel" and job.config == MyConfig()
if what == "killed":
    killing._die_at_write("state.pt", 3, "before")
weights = earsight.train(job, str(out), device="cpu", resume=what == "resumed")
measured = earsight.evaluate(load_weights(weights).model, open_set("tiny.tones:val"), get("exact"))
print(measured.metrics["loc_acc"] >= 0)
sound = np.sin(np.arange(8000) / 3).astype(np.float32)
print(earsight.Localizer.load(weights, "cpu").localize(np.zeros((40, 60, 3), np.uint8), sound, 8000).map.shape)
'''


@pytest.mark.slow
def test_a_class_written_in_a_notebook_trains_resumes_evaluates_and_localizes(tmp_path: Path) -> None:
    (tmp_path / "notebook.py").write_text(NOTEBOOK)

    def python(*args: str) -> subprocess.CompletedProcess[str]:
        return outside.shell(f"{sys.executable} {' '.join(args)}", tmp_path)

    for what, code in (("straight", 0), ("killed", -9), ("resumed", 0)):
        done = python("notebook.py", what, "straight" if what == "straight" else "run")
        assert done.returncode in (code, 128 - code), done.stderr
        assert code or done.stdout.splitlines() == ["True", "(40, 60)"]
    one, two = ((tmp_path / name / "weights.safetensors").read_bytes() for name in ("straight", "run"))
    assert one == two
    done = outside.shell("earsight eval run --on tiny.tones", tmp_path)
    assert done.returncode == 1
    assert "Expected the class '__main__.MyModel'" in done.stderr
    assert "earsight.registry.register" in done.stderr


def test_a_class_without_settings_is_refused() -> None:
    class Bare:
        pass

    with pytest.raises(UsageError, match=r"Expected a class with its settings as Config, but .*Bare has none"):
        Job(method=Bare)
