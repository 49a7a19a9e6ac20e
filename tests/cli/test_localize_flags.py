"""Every flag of `earsight localize` does what its help says. Each has the test that is called like it."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torchvision.models import resnet18

from earsight.cli import main
from earsight.cli.localize import Localize
from earsight.media.read import iter_frames, probe

Captured = pytest.CaptureFixture[str]


class Command:
    """`earsight localize` on the small clip, with outputs in a folder of its own."""

    def __init__(self, weights: Path, media: Path, out: Path) -> None:
        self.weights, self.media, self.out, self.count = weights, media, out, 0

    def __call__(self, *flags: str, code: int = 0, inputs: tuple[Path, ...] | None = None) -> Path:
        """Run it and return the folder that was written to."""
        self.count += 1
        out = self.out / str(self.count)
        given = (self.media / "clip.mp4",) if inputs is None else inputs
        assert main(["localize", str(self.weights), *map(str, given), "--out", str(out), *flags]) == code
        return out

    def timeline(self, *flags: str) -> dict[str, Any]:
        (file,) = self("--format", "json", *flags).iterdir()
        return json.loads(file.read_text(encoding="utf-8"))

    def film(self, *flags: str) -> np.ndarray:
        """All frames, (T, 3, H, W)."""
        (file,) = self("--format", "mp4", *flags).iterdir()
        return np.stack([frame for _, frame in iter_frames(file)]).astype(int)


@pytest.fixture
def localize(weights: Path, media: Path, tmp_path: Path) -> Command:
    return Command(weights, media, tmp_path / "out")


def test_every_flag_has_its_test_and_its_line_of_help(capsys: Captured) -> None:
    assert main(["localize", "--help"]) == 0
    told = capsys.readouterr().out
    for field in dataclasses.fields(Localize):
        assert f"test_flag_{field.name}" in globals(), f"{field.name} has no test"
        if field.name not in ("weights", "inputs"):
            assert f"--{field.name.replace('_', '-')}" in told


def test_flag_weights(localize: Command, capsys: Captured) -> None:
    assert localize.timeline()["weights"] == str(localize.weights)
    localize.weights = localize.media / "none.safetensors"
    localize(code=1)
    assert "none.safetensors" in capsys.readouterr().err


def test_flag_inputs(localize: Command, media: Path, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "other.mp4").write_bytes((media / "clip.mp4").read_bytes())
    folder = localize("--format", "json", inputs=(media / "clip.mp4", tmp_path / "in"))
    assert sorted(file.name for file in folder.iterdir()) == ["clip.earsight.json", "other.earsight.json"]


def test_flag_image(localize: Command, media: Path) -> None:
    pair = ("--image", str(media / "picture.png"), "--audio", str(media / "tone.wav"))
    folder = localize(*pair, "--overlay", "1", "--boxes", "0", "--format", "png,json,npz", inputs=())
    assert {file.suffix for file in folder.iterdir()} == {".png", ".json", ".npz"}
    assert probe(folder / "picture.earsight.png").width == 60


def test_flag_audio(localize: Command, media: Path, capsys: Captured) -> None:
    localize("--audio", str(media / "tone.wav"), inputs=(), code=2)
    assert "Expected --image and --audio together" in capsys.readouterr().err
    heard = localize("--audio", str(media / "tone.wav"), "--format", "json")
    assert json.loads((heard / "clip.earsight.json").read_text())["sound"] == str(media / "tone.wav")
    folder = localize("--image", str(media / "picture.png"), "--audio", str(media / "tone.wav"), inputs=())
    assert json.loads((folder / "picture.earsight.json").read_text())["sound"] == str(media / "tone.wav")


def test_flag_out(localize: Command, tmp_path: Path, media: Path) -> None:
    args = ["localize", str(localize.weights), str(media / "clip.mp4"), "--format", "json"]
    assert main([*args, "-o", str(tmp_path / "deep" / "there")]) == 0
    assert [file.name for file in (tmp_path / "deep" / "there").iterdir()] == ["clip.earsight.json"]


def test_flag_every(localize: Command) -> None:
    assert [item["time"] for item in localize.timeline("--every", "0.4")["items"]] == [0.0, 0.4, 0.8]


def test_flag_window(localize: Command, capsys: Captured) -> None:
    assert localize.timeline("--window", "0.1")["window"] == 0.1
    assert localize.timeline()["window"] == 0.5
    localize("--window", "3", code=2)
    told = "a window from 0.05 up to the 0.5 s the model hears, but got 3.0. Leave --window out to hear all of that."
    assert told in capsys.readouterr().err


def test_flag_smooth(localize: Command) -> None:
    rough, steady = (localize.timeline("--smooth", seconds) for seconds in ("0", "2"))
    assert (rough["smooth"], steady["smooth"]) == (0.0, 2.0)
    assert all(item["confidence"] == item["momentary"] for item in rough["items"])
    values = [np.std([item["confidence"] for item in one["items"]]) for one in (rough, steady)]
    assert values[1] < 0.6 * values[0]


def test_flag_start(localize: Command) -> None:
    assert localize.timeline("--start", "0.6")["items"][0]["time"] == 0.6


def test_the_help_says_where_a_picture_hears_its_sound(capsys: Captured) -> None:
    assert main(["localize", "--help"]) == 0
    told = " ".join(capsys.readouterr().out.replace("│", " ").split())
    assert "Without it, a loud part near the middle of the sound; train and eval hear from the list's start on." in told


def test_flag_end(localize: Command) -> None:
    assert localize.timeline("--end", "0.4")["items"][-1]["time"] == 0.2


def test_flag_format(localize: Command) -> None:
    folder = localize("--format", "mp4, png,json,npz")
    assert {file.suffix for file in folder.iterdir()} == {".mp4", ".png", ".json", ".npz"}


def test_flag_overlay(localize: Command) -> None:
    original = np.stack([frame for _, frame in iter_frames(localize.media / "clip.mp4")]).astype(int)
    changes = [
        np.abs(localize.film("--overlay", strength, "--boxes", "0") - original)[:, :, :30].mean()
        for strength in ("0", "0.3", "1")
    ]
    assert changes[0] < 0.3  # above the caption there is nothing but the film
    assert 2 * changes[0] < changes[1] < changes[2] / 2


def test_flag_boxes(localize: Command) -> None:
    with_boxes, without = localize.film(), localize.film("--boxes", "0")
    assert np.abs(with_boxes - without).max() > 40
    assert localize.timeline("--boxes", "0")["items"] == localize.timeline()["items"]


@pytest.fixture
def prior(tmp_path: Path) -> tuple[str, ...]:
    torch.manual_seed(0)
    torch.save(resnet18().state_dict(), tmp_path / "resnet18.pth")
    return ("--object-prior", "0.5", "--object-weights", str(tmp_path / "resnet18.pth"))


def test_flag_object_prior(localize: Command, prior: tuple[str, ...]) -> None:
    added = localize.timeline(*prior)
    assert added["weights"].endswith("+ OGL 0.5")
    assert added["items"][0]["confidence"] != localize.timeline()["items"][0]["confidence"]


def test_flag_object_fusion(localize: Command, prior: tuple[str, ...]) -> None:
    slavc, ezvsl = (localize.timeline(*prior, "--object-fusion", kind) for kind in ("slavc", "ezvsl"))
    assert [item["boxes"] for item in slavc["items"]] != [item["boxes"] for item in ezvsl["items"]]


def test_flag_object_weights(localize: Command, tmp_path: Path, capsys: Captured) -> None:
    localize("--object-prior", "0.5", "--object-weights", str(tmp_path / "none.pth"), code=1)
    assert "none.pth" in capsys.readouterr().err


def test_flag_batch_size(localize: Command) -> None:
    one, many = (
        [item["confidence"] for item in localize.timeline("--batch-size", size)["items"]] for size in ("1", "64")
    )
    assert one == pytest.approx(many, abs=1e-5)


def test_flag_device(localize: Command, capsys: Captured) -> None:
    localize.timeline("--device", "cpu")
    if not torch.cuda.is_available():
        localize("--device", "cuda", code=2)
        assert "cuda" in capsys.readouterr().err


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_both_devices_give_the_same_answers(localize: Command) -> None:
    cpu, gpu = (
        [item["confidence"] for item in localize.timeline("--device", kind)["items"]] for kind in ("cpu", "cuda")
    )
    assert cpu == pytest.approx(gpu, abs=1e-3)


def test_flag_force(localize: Command, capsys: Captured) -> None:
    folder = localize("--format", "json")
    args = ["localize", str(localize.weights), str(localize.media / "clip.mp4"), "-o", str(folder), "--format", "json"]
    assert main(args) == 2
    assert "use --force" in capsys.readouterr().err
    assert main([*args, "--force"]) == 0


def test_flag_json(localize: Command, capsys: Captured) -> None:
    localize("--format", "json", "--json")
    (done,) = json.loads(capsys.readouterr().out)["done"]
    assert {key: done[key] for key in ("visible", "silent", "moments", "partial")} == {
        "visible": 5, "silent": 0, "moments": 5, "partial": False,
    }  # fmt: skip
