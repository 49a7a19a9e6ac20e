"""Exported models localize as their weights do, without torch."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import make
import numpy as np
import pytest
import torch

from earsight.checkpoint import save_weights
from earsight.config import Inputs
from earsight.data.clips import Limited
from earsight.data.sets import toybox
from earsight.encoders.base import Encoders
from earsight.errors import UsageError
from earsight.export import export_onnx
from earsight.localize import Localizer, localizer
from earsight.localize.regions import spread
from earsight.methods import slavc
from earsight.object_prior import ObjectPrior

HIDDEN = (
    "torch",
    "torchvision",
    "pyarrow",
    "onnx",
    "scipy",
    "fcntl",
    "resource",
    "pwd",
    "grp",
    "termios",
)
RUN = """
import json, sys
from importlib.machinery import BuiltinImporter, PathFinder
hidden = json.loads(sys.argv[1])
for finder in (BuiltinImporter, PathFinder):
    def found(name, path=None, target=None, *, whole=finder.find_spec):
        return None if name.partition(".")[0] in hidden else whole(name, path, target)
    finder.find_spec = found
for name in hidden:
    sys.modules.pop(name, None)
from earsight.cli import main
print([main(line.split()) for line in sys.stdin.read().splitlines()])
"""


@pytest.fixture(scope="session")
def exported(make_weights: Callable[..., Path]) -> Path:
    weights = make_weights(-1.0)
    return export_onnx(weights, weights.with_suffix("")).path


def test_videos_pictures_and_failures_work_where_these_modules_are_missing(exported: Path, tmp_path: Path) -> None:
    """An exported model needs no torch, no pyarrow, and no module that only Unix has."""
    film = make.steps(tmp_path / "film.mp4", 1.0)
    make.picture(tmp_path / "photo.png", np.full((40, 60, 3), 90, np.uint8))
    make.wav(tmp_path / "photo.wav", make.chirp(1.0), make.RATE, tag=3)
    lines = [
        f"localize {exported} {film} --out {tmp_path}/video --format mp4,png,json,npz",
        f"localize {exported} --image {tmp_path}/photo.png --audio {tmp_path}/photo.wav --out {tmp_path}/pair",
        f"localize {exported} {tmp_path}/none.mp4 --out {tmp_path}/none",
    ]
    command = [sys.executable, "-c", RUN, json.dumps(HIDDEN)]
    done = subprocess.run(command, input="\n".join(lines), capture_output=True, text=True)
    assert done.stdout.splitlines()[-1:] == ["[0, 0, 1]"], done.stderr
    assert len(list((tmp_path / "video").iterdir())) == 4
    assert len(list((tmp_path / "pair").iterdir())) == 2


def test_an_object_prior_is_refused(exported: Path) -> None:
    with pytest.raises(UsageError, match=r"Expected weights of torch's with an object prior, but got .*exported from"):
        Localizer.load(exported, "cpu", ObjectPrior(0.9, weights="random"))


def both(folder: Path, inputs: Inputs, encoders: Encoders, protocol: str) -> tuple[Localizer, Localizer]:
    """The same model by torch and by onnxruntime."""
    torch.manual_seed(0)
    config = slavc.Config(encoders=encoders)
    meta = {"protocol": protocol, "calibration": {"threshold": 0.5}}
    save_weights(folder / "a.safetensors", slavc.Model(config, inputs), "slavc", config, meta)
    export_onnx(folder / "a.safetensors", folder / "a")
    return Localizer.load(folder / "a.safetensors", "cpu"), Localizer.load(folder / "a", "cpu")


def agree(by_torch: Localizer, by_onnx: Localizer, count: int) -> None:
    """Maps, confidences, masks, boxes and verdicts of clips, of which half are called visible."""
    clips = Limited(toybox.open("extended"), count)
    read = [clips.read(i, by_torch.inputs.rate, by_torch.inputs.seconds) for i in range(count)]
    given = [clip.frame for clip in read], [clip.waveform for clip in read], by_torch.inputs.rate
    times = [clip.time for clip in read]
    sure = sorted(answer.confidence for answer in by_torch.localize_many(*given, times=times))
    middle = (sure[count // 2 - 1] + sure[count // 2]) / 2
    by_torch.threshold = by_onnx.threshold = middle
    levels: list[float] = []
    with pytest.MonkeyPatch.context() as watch:  # the level above which boxes lie, of each answer
        watch.setattr(localizer, "spread", lambda score: levels.append(sum(spread(score)) / 2) or spread(score))
        answers = [one.localize_many(*given, times=times) for one in (by_torch, by_onnx)]
    verdicts = []
    for one, other, level, its in zip(*answers, levels[:count], levels[count:], strict=True):
        np.testing.assert_allclose(other.map, one.map, atol=1e-4)
        assert other.confidence == pytest.approx(one.confidence, abs=1e-4)
        assert other.visible == one.visible
        apart = (one.map > level) != (other.map > its)  # only where the map equals the level but for rounding
        assert np.abs(one.map - level)[apart].max(initial=0) < 1e-6
        assert other.boxes == one.boxes or apart.any()
        assert (other.mask != one.mask).mean() < 1e-3  # pixels that equal the threshold
        verdicts.append(one.visible)
    assert sum(map(bool, verdicts)) == count // 2


@pytest.mark.slow
@pytest.mark.parametrize("protocol", ["exact", "official"])
def test_answers_for_two_hundred_clips_agree(tmp_path: Path, protocol: str) -> None:
    inputs = Inputs(image_size=112, resize=112, rate=16000, seconds=1.0)
    agree(*both(tmp_path, inputs, Encoders("small", "small", weights="random"), protocol), 200)


@pytest.mark.slow
def test_answers_of_the_resnet_pair_agree(tmp_path: Path) -> None:
    agree(*both(tmp_path, Inputs(), Encoders(weights="random"), "exact"), 4)
