"""Weights files: a trained method with everything needed to use it, in one safetensors file.

The tensors are the method's state; the header's metadata holds JSON: method, its settings, input settings, protocol,
calibrated threshold, versions, and where it comes from. No later command asks for any of it again.
"""

from __future__ import annotations

import json
import platform
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import safetensors
import safetensors.torch
import torch

import earsight
from earsight import registry
from earsight.config import Inputs, from_json, to_json
from earsight.encoders.base import no_start_weights
from earsight.errors import CheckpointError, EarsightError
from earsight.files import write_bytes
from earsight.header import FORMAT, find_weights, read_header
from earsight.methods.base import Method, build


@dataclass(frozen=True)
class Weights:
    """A method ready to use, and what its file says about it (protocol, calibration, training, metrics)."""

    model: Method
    name: str
    config: Any
    inputs: Inputs
    meta: dict[str, Any]


def versions() -> dict[str, str]:
    return {"earsight": earsight.__version__, "torch": torch.__version__, "python": platform.python_version()}


def save_weights(path: Path, model: Method, name: str, config: Any, meta: Mapping[str, Any]) -> None:
    """Write a weights file atomically. `meta` is plain JSON: "protocol", "calibration", "training", "metrics", ...

    "knows" says in plain words what the model was trained on, where that is less than real scenes.
    """
    header = {
        "format": FORMAT,
        "method": name,
        "config": to_json(config),
        "inputs": to_json(model.inputs),
        "versions": versions(),
        **meta,
    }
    tensors = {key: value.detach().cpu().contiguous() for key, value in model.state_dict().items()}
    text = {"earsight": json.dumps(header)}
    # Not safetensors' own save_file: its files are for their owner's eyes only, whatever the umask says.
    write_bytes(path, safetensors.torch.save(tensors, metadata=text))


def _need_fit(path: Path, make: Callable[[], Method]) -> None:
    """Refuse tensors of other names or shapes than the settings say, before any memory is taken for either."""
    with safetensors.safe_open(path, framework="pt") as file:
        names = file.keys()
        shapes = {name: torch.empty(file.get_slice(name).get_shape(), device="meta") for name in names}
    with torch.device("meta"):
        make().load_state_dict(shapes)


def load_weights(path: Path | str, device: str | torch.device = "cpu") -> Weights:
    """Load a weights file into a method, in eval mode on `device`."""
    path = find_weights(path)
    header = read_header(path)
    registry.need_known(path, "method", header["method"])
    registry.need_known_encoders(path, header["config"])
    try:
        inputs = from_json(Inputs, header["inputs"])
        config = from_json(registry.load("method", header["method"]).Config, header["config"])
        with no_start_weights():
            _need_fit(path, lambda: build(header["method"], config, inputs))
            model = build(header["method"], config, inputs)
        model.load_state_dict(safetensors.torch.load_file(path))
    except (RuntimeError, KeyError, EarsightError, safetensors.SafetensorError) as error:
        reason = " ".join(str(error).split())[:300]  # torch lists every name, on lines of their own
        raise CheckpointError(
            f"Expected weights that fit their own settings, but got others in {path}: {reason} "
            "Get or make the file again, or install the version that wrote it (earsight show)."
        ) from error
    meta = {key: value for key, value in header.items() if key not in ("config", "inputs")}
    return Weights(model.eval().to(device), header["method"], config, inputs, meta)
