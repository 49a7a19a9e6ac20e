"""Weights files: what goes in comes out, and whatever is no weights file is refused in words."""

from __future__ import annotations

import json
import lzma
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import safetensors
import safetensors.torch
import torch

from earsight.checkpoint import load_weights, save_weights
from earsight.config import Inputs
from earsight.encoders.base import Encoders
from earsight.errors import CheckpointError
from earsight.files import write_atomically
from earsight.header import FORMAT, WEIGHTS, find_weights, read_header
from earsight.methods.slavc import Config, Model
from tiny import limited

INPUTS = Inputs(image_size=32, resize=36, rate=8000, seconds=0.5, window=64, hop=48)
CONFIG = Config(encoders=Encoders("small", "small", weights="random", width=4), dim=4)
STORED = Path(__file__).parent / "fixtures" / "slavc_format1.safetensors.xz"


def pair() -> tuple[torch.Tensor, torch.Tensor]:
    """Two pictures and two sounds that are the same everywhere."""
    frames = (torch.arange(2 * 3 * 32 * 32).view(2, 3, 32, 32) * 7 % 251).to(torch.uint8)
    time = torch.arange(INPUTS.samples) / 8000
    return frames, torch.stack([0.5 * torch.sin(2 * torch.pi * f * time) for f in (440.0, 1800.0)])


def saved(path: Path, config: Config = CONFIG, **meta: Any) -> Model:
    torch.manual_seed(1)
    model = Model(config, INPUTS).eval()
    save_weights(path, model, "slavc", config, {"protocol": "exact", **meta})
    return model


def rewrite(path: Path, change: dict[str, Any] | str) -> None:
    """The same tensors under a changed header (or other text in its place)."""
    tensors = safetensors.torch.load_file(path)
    text = change if isinstance(change, str) else json.dumps({**read_header(path), **change})
    safetensors.torch.save_file(tensors, path, metadata={"earsight": text})


def test_a_model_survives_the_file(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "w.safetensors"
    model = saved(path, calibration={"threshold": 0.25})
    loaded = load_weights(path)
    assert (loaded.name, loaded.config, loaded.inputs) == ("slavc", CONFIG, INPUTS)
    assert loaded.meta["protocol"] == "exact"
    assert loaded.meta["calibration"] == {"threshold": 0.25}
    assert loaded.meta["versions"]["torch"] == torch.__version__
    assert not loaded.model.training
    state = loaded.model.state_dict()
    assert all(torch.equal(value, state[key]) for key, value in model.state_dict().items())
    with torch.no_grad():
        assert torch.equal(loaded.model.localize(*pair()).dense, model.localize(*pair()).dense)
    assert [p.name for p in path.parent.iterdir()] == ["w.safetensors"]


def test_a_run_folder_means_the_weights_inside(tmp_path: Path) -> None:
    saved(tmp_path / WEIGHTS)
    assert find_weights(tmp_path) == tmp_path / WEIGHTS
    assert load_weights(str(tmp_path)).name == "slavc"


def test_an_old_checkpoint_keeps_loading_and_answers_as_it_did(tmp_path: Path) -> None:
    """Written by format 1. Never write this file again: add one for each new format."""
    path = tmp_path / "old.safetensors"
    path.write_bytes(lzma.decompress(STORED.read_bytes()))
    old = load_weights(path)
    assert old.config == CONFIG
    assert old.inputs == INPUTS
    assert old.meta["protocol"] == "exact"
    assert old.meta["calibration"] == {"threshold": 0.5, "false_alarm": 0.1, "recall": 0.9, "negatives": 8}
    with torch.no_grad():
        maps = old.model.localize(*pair())
    expected = torch.tensor([[-0.58379, -0.55227, -0.52101, -0.608], [-0.5306, -0.49686, -0.60965, -0.61991]])
    torch.testing.assert_close(maps.dense, expected.view(2, 2, 2), rtol=0, atol=1e-4)
    assert maps.bounds == (-1.0, 1.0)


def test_loading_never_fetches_start_weights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = replace(CONFIG, encoders=Encoders(weights="random"), targets=False)
    path = tmp_path / "w.safetensors"
    saved(path, config)
    wanted = replace(config, encoders=Encoders(weights="imagenet"))
    rewrite(path, {"config": {**read_header(path)["config"], "encoders": {"weights": "imagenet"}}})
    monkeypatch.setattr("earsight.download.fetch", lambda *_a, **_k: pytest.fail("fetched start weights"))
    assert load_weights(path).config == wanted


@pytest.mark.parametrize("name", ["nothing.safetensors", "no/such/folder"])
def test_a_missing_file_is_named(tmp_path: Path, name: str) -> None:
    with pytest.raises(CheckpointError, match=r"Expected a weights file or a run's folder, but there is nothing at .*"):
        load_weights(tmp_path / name)


def test_a_method_in_place_of_weights_is_told_apart() -> None:
    with pytest.raises(CheckpointError, match=r"That is a method: train it \(earsight train center_prior --on SET"):
        load_weights("center_prior")


def test_a_folder_without_weights_says_how_to_get_them(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=r"Expected weights.safetensors in the run .* Let the training finish"):
        load_weights(tmp_path)


def test_weights_run_no_module_that_only_they_name(tmp_path: Path) -> None:
    """In a process of its own, whose current folder is where modules are looked for first."""
    (tmp_path / "evil").mkdir()
    (tmp_path / "evil" / "pay.py").write_text("print('ran')\n")
    saved(tmp_path / "w.safetensors")
    rewrite(tmp_path / "w.safetensors", {"method": "evil.pay"})
    command = [sys.executable, "-m", "earsight", "localize", "w.safetensors", "x.mp4"]
    for allowed, ran in (("", ""), ("evil", "ran\n")):
        done = subprocess.run(
            command, cwd=tmp_path, capture_output=True, text=True, env={**os.environ, "EARSIGHT_MODULES": allowed}
        )
        assert (done.returncode, done.stdout) == (1, ran)
        assert ("because a file says so. If you know it, set EARSIGHT_MODULES=evil.pay." in done.stderr) != bool(ran)


@pytest.mark.parametrize("keep", [0, 7, 100, 3000, -1])
def test_a_damaged_file_is_refused(tmp_path: Path, keep: int) -> None:
    path = tmp_path / "w.safetensors"
    saved(path)
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(CheckpointError, match=r"Expected an earsight weights file, but .*w.safetensors is not one"):
        load_weights(path)


def test_a_pth_file_is_refused_with_the_command_that_takes_it(tmp_path: Path) -> None:
    path = tmp_path / "best.pth"
    torch.save({"model": {"x": torch.zeros(2)}}, path)
    with pytest.raises(CheckpointError, match="use: earsight import FILE"):
        load_weights(path)


def test_other_safetensors_files_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "other.safetensors"
    for metadata in (None, {"format": "pt"}):
        safetensors.torch.save_file({"x": torch.zeros(2)}, path, metadata=metadata)
        with pytest.raises(CheckpointError, match="holds tensors without earsight's header"):
            load_weights(path)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"format": FORMAT + 1, "versions": {"earsight": "9.9"}}, r"has format 2\. Written by earsight 9\.9; install"),
        ({"format": "x", "versions": 3}, r"has format x\. Written by earsight unknown"),
        ("{not json", "Expected JSON in the header of .*w.safetensors, but got"),
        ("[1, 2]", "Expected weights of format 1, but .* has format None"),
        (100_000 * "[", "Expected JSON in the header of .*w.safetensors, but got: more than 64 lists"),
        ({"knows": ["toys"]}, "in the header of .*, but got no usable knows"),
        ({"method": 3}, "Expected method, config, inputs, versions in the header of .*, but got no usable method"),
        ({"config": None, "inputs": []}, "but got no usable config, inputs"),
        ({"protocol": 3, "universal_level": "x"}, "but got no usable protocol, universal_level"),
        ({"calibration": 0.5}, "but got no usable calibration"),
        ({"calibration": {"recall": 1}}, r"but got no usable calibration\.threshold"),
        ({"calibration": {"threshold": float("nan")}}, r"but got no usable calibration\.threshold"),
        ({"calibration": {"threshold": 0.5, "recall": "x"}}, r"but got no usable calibration\.recall"),
        ({"training": []}, "but got no usable training"),
        ({"training": {"job": 3}}, r"but got no usable training\.job"),
        ({"training": {"job": {"on": 3, "optim": []}}}, r"but got no usable training\.job\.on, training\.job\.optim"),
    ],
)
def test_a_header_of_another_kind_is_refused(tmp_path: Path, change: dict[str, Any] | str, message: str) -> None:
    path = tmp_path / "w.safetensors"
    saved(path)
    rewrite(path, change)
    with pytest.raises(CheckpointError, match=message):
        load_weights(path)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"config": {"dim": 4}}, "Missing key|Error.s. in loading"),
        ({"config": {"dimension": 4}}, "unknown dimension"),
        ({"config": {"dim": "four"}}, "Expected int for Config.dim, but got 'four'"),
        ({"config": {"encoders": {"image": "vit"}}}, "Unknown encoder 'vit'"),
        ({"config": {"temperature": -1}}, "Expected a positive temperature"),
        ({"inputs": {"hop": 0}}, "Expected hop between 1"),
        ({"method": "slavec"}, "did you mean 'slavc'"),
        ({"method": "os.path"}, "in the module 'os.path' of a method"),
    ],
)
def test_settings_that_do_not_fit_the_weights_are_refused(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    path = tmp_path / "w.safetensors"
    saved(path)
    rewrite(path, change)
    with pytest.raises(CheckpointError, match=r"Expected weights that fit their own settings") as caught:
        load_weights(path)
    assert caught.match(message)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 800


SMALL = {"image": "small", "audio": "small"}


@pytest.mark.parametrize(
    ("method", "config", "inputs", "message"),
    [
        ("slavc", {"encoders": {**SMALL, "width": 256}}, {}, "Missing key"),
        ("slavc", {"encoders": {**SMALL, "width": 1000}}, {}, "Expected width of at most 256, but got 1000"),
        ("slavc", {"dim": 10**9}, {}, "Expected dim of at most 4096, but got 1000000000"),
        ("dsol", {"clusters": 10_000, "dim": 4096}, {}, "Missing key"),
        ("center_prior", {}, {"image_size": 12_000, "resize": 12_000}, "image_size of at most 1024, but got 12000"),
        ("center_prior", {}, {"window": 1 << 20, "seconds": 100.0}, "window of at most 8192"),
        ("center_prior", {}, {"hop": 1}, "a spectrogram of at most 2097152 values, but got 257 x 65639"),
    ],
)
def test_a_file_of_a_few_bytes_takes_no_more_memory_than_it_has(
    tmp_path: Path, method: str, config: dict[str, Any], inputs: dict[str, Any], message: str
) -> None:
    path = tmp_path / "w.safetensors"
    header = {"format": FORMAT, "method": method, "config": config, "inputs": inputs, "versions": {}}
    safetensors.torch.save_file({}, path, metadata={"earsight": json.dumps(header)})
    told = limited.refusal(load_weights, path)
    assert "Expected weights that fit their own settings" in told
    assert message in told


def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "w.safetensors"
    saved(path)
    before = path.read_bytes()

    def fail(beside: Path, content: bytes) -> None:
        with beside.open("wb") as file:
            file.write(content[: len(content) // 2])
        raise OSError("disk full")

    monkeypatch.setattr(Path, "write_bytes", fail)
    with pytest.raises(OSError, match="disk full"):
        saved(path)
    assert path.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["w.safetensors"]


def test_weights_may_be_read_by_whom_the_umask_lets(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        saved(tmp_path / "w.safetensors")
    finally:
        os.umask(before)
    assert (tmp_path / "w.safetensors").stat().st_mode & 0o777 == 0o640


def test_a_reader_sees_the_old_file_until_the_new_one_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("old")

    def write(beside: Path) -> None:
        beside.write_text("new")
        assert path.read_text() == "old"

    write_atomically(path, write)
    assert path.read_text() == "new"
    assert len(list(tmp_path.iterdir())) == 1
