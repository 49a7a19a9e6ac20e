"""A tiny untrained model, and what it makes of thresholds."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from earsight.checkpoint import save_weights
from earsight.config import Inputs
from earsight.encoders.base import Encoders
from earsight.localize import Localizer
from earsight.methods import slavc

INPUTS = Inputs(image_size=32, resize=36, rate=8000, seconds=1.0, window=128, hop=64)
CONFIG = slavc.Config(encoders=Encoders("small", "small", weights="random", width=4), dim=8)


@pytest.fixture(scope="session")
def make_weights(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    def make(threshold: float | None = None, protocol: str = "exact") -> Path:
        torch.manual_seed(0)
        path = tmp_path_factory.mktemp("weights") / "tiny.safetensors"
        known = {"threshold": threshold, "false_alarm": 0.1, "recall": 0.9, "negatives": 10}
        meta = {"protocol": protocol, "calibration": None if threshold is None else known}
        save_weights(path, slavc.Model(CONFIG, INPUTS), "slavc", CONFIG, meta)
        return path

    return make


@pytest.fixture(scope="session")
def localizer(make_weights: Callable[..., Path]) -> Localizer:
    """Without calibration."""
    return Localizer.load(make_weights(), "cpu")


@pytest.fixture(scope="session")
def trusting(make_weights: Callable[..., Path]) -> Localizer:
    """Calls every source visible."""
    return Localizer.load(make_weights(-1.0), "cpu")


@pytest.fixture(scope="session")
def doubting(make_weights: Callable[..., Path]) -> Localizer:
    """Calls no source visible."""
    return Localizer.load(make_weights(2.0), "cpu")
