"""Methods of one tiny pair of encoders, for exports that take seconds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from earsight import registry
from earsight.checkpoint import save_weights
from earsight.config import Inputs
from earsight.encoders.base import Encoders
from earsight.methods.base import Method, build

INPUTS = Inputs(image_size=32, resize=32, rate=8000, seconds=0.5, window=64, hop=48)
CALIBRATION = {"threshold": 0.5, "false_alarm": 0.1, "recall": 0.9, "negatives": 10}


def tiny(method: str = "ezvsl") -> tuple[Method, Any]:
    """The method and its settings."""
    module = registry.load("method", method)
    config = module.Config(encoders=Encoders("small", "small", weights="random", width=4))
    torch.manual_seed(0)
    return build(method, config, INPUTS).eval(), config


def weights(path: Path, method: str = "ezvsl", protocol: str = "exact") -> Path:
    model, config = tiny(method)
    save_weights(path, model, method, config, {"protocol": protocol, "calibration": CALIBRATION})
    return path
