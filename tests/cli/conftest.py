"""Small things that commands work on: weights of a tiny model, a short clip, a picture and a sound."""

from __future__ import annotations

import sys
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
import torch

sys.path.insert(0, str(Path(__file__).parents[1] / "media"))

from earsight.checkpoint import save_weights
from earsight.config import Inputs
from earsight.data.sets.toybox import KNOWS
from earsight.encoders.base import Encoders
from earsight.media.write import VideoWriter, write_png, write_wav
from earsight.methods.base import build
from earsight.methods.slavc import Config

INPUTS = Inputs(image_size=32, resize=32, rate=4000, seconds=0.5, window=128, hop=64)
CONFIG = Config(encoders=Encoders("small", "small", weights="random", width=4), dim=8)
TINY = [
    *("--method.encoders.image", "small", "--method.encoders.audio", "small"),
    *("--method.encoders.width", "4", "--method.dim", "8"),
    *("--inputs.image-size", "32", "--inputs.resize", "32", "--inputs.rate", "4000", "--inputs.seconds", "0.5"),
    *("--inputs.window", "128", "--inputs.hop", "64", "--optim.epochs", "1", "--optim.batch-size", "4"),
]


@pytest.fixture
def tiny_flags() -> list[str]:
    """Flags of `earsight train slavc` that make training a matter of seconds."""
    return list(TINY)


@pytest.fixture(scope="session")
def weights(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Weights of an untrained tiny model, calibrated at a threshold that everything passes."""
    path = tmp_path_factory.mktemp("weights") / "tiny.safetensors"
    torch.manual_seed(0)
    calibration = {"threshold": 0.0, "false_alarm": 0.1, "recall": 0.9, "negatives": 10, "set": "toybox:val"}
    meta = {"protocol": "exact", "calibration": calibration, "training": {"clips": 7, "job": {"on": "toybox"}}}
    save_weights(path, build("slavc", CONFIG, INPUTS), "slavc", CONFIG, meta)
    return path


@pytest.fixture(scope="session")
def uncalibrated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Weights that carry neither a threshold nor a protocol."""
    path = tmp_path_factory.mktemp("uncalibrated") / "plain.safetensors"
    torch.manual_seed(0)
    save_weights(path, build("slavc", CONFIG, INPUTS), "slavc", CONFIG, {})
    return path


@pytest.fixture
def knowing(tmp_path: Path) -> Path:
    """Weights of an untrained tiny model that says what it knows, as one that was trained on toys does."""
    path = tmp_path / "toys.safetensors"
    meta = {"protocol": "exact", "knows": KNOWS}
    save_weights(path, build("slavc", CONFIG, INPUTS), "slavc", CONFIG, meta)
    return path


@pytest.fixture(scope="session")
def media(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with clip.mp4 (one second, 64x48, with sound), picture.png and tone.wav."""
    folder = tmp_path_factory.mktemp("media")
    tone = 0.5 * np.sin(np.arange(16000) / 16000 * 2 * np.pi * 440)
    write_wav(folder / "tone.wav", tone.astype(np.float32), 16000)
    write_png(folder / "picture.png", np.full((3, 40, 60), 90, np.uint8))
    with VideoWriter(folder / "clip.mp4", 64, 48, Fraction(5), sound_from=folder / "tone.wav") as writer:
        for i in range(5):
            writer.write(np.full((3, 48, 64), 40 * i, np.uint8), i / 5)
    return folder
