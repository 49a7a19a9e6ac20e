"""Official SLAVC, EZ-VSL, FNAC, MarginNCE and LVS checkpoints: read without running their code, and renamed.

The published files are training states: tensors under "model" (LVS: "model_state_dict"), an optimizer, and scores as
numpy scalars, which a plain safe load refuses. Which names and shapes are known is in official_layouts.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

from earsight import registry
from earsight.checkpoint import save_weights
from earsight.config import Inputs
from earsight.encoders.base import no_start_weights
from earsight.encoders.start_weights import read_pickle, tensors
from earsight.errors import CheckpointError, UsageError
from earsight.files import sha256
from earsight.methods.base import Preset, build
from earsight.official_layouts import PUBLISHED, recognise, renamed

_SCALAR = np.float64(0).__reduce__()[0]
# What numpy scalars need to be rebuilt, under the module name of numpy 1 and of numpy 2; nothing else is let in.
_NUMPY_SCALARS = (
    (_SCALAR, "numpy.core.multiarray.scalar"),
    (_SCALAR, "numpy._core.multiarray.scalar"),
    np.dtype,
    np.dtypes.Float64DType,
    np.dtypes.Float32DType,
    np.dtypes.Int64DType,
)
_STATE = "model_state_dict"  # where LVS keeps its tensors
# Scores that a trainer stores under each other's name.
_SWAPPED = {"SLAVC": {"best_AP": "best_F1", "best_F1": "best_AP"}}


@dataclass(frozen=True)
class Imported:
    """An official checkpoint in earsight's terms.

    Args:
        source: "SLAVC", "EZ-VSL" or "LVS".
        method: name of the earsight method that computes the same map.
        config: that method's settings.
        inputs: how the published code prepares pictures and sounds.
        state: the weights under earsight's names, float32.
        meta: kept with the weights: "protocol", and "imported" with source, file name, sha256, epoch and best scores.
    """

    source: str
    method: str
    config: Any
    inputs: Inputs
    state: dict[str, Tensor]
    meta: dict[str, Any]


def _read(path: Path) -> tuple[dict[str, Tensor], dict[str, float]]:
    """The tensors of a file, and the plain numbers beside them."""
    if path.suffix == ".safetensors":
        raise CheckpointError(
            f"Expected an official checkpoint, a .pth file as its authors published it, but got {path}. "
            "Weights of earsight need no import: name them to earsight eval or localize as they are."
        )
    found = read_pickle(path, _NUMPY_SCALARS)
    beside: Mapping[Any, Any] = found if isinstance(found, Mapping) else {}
    numbers = {
        k: float(v)
        for k, v in beside.items()
        # The limit also leaves out what is not a number and integers too long for a float.
        if isinstance(k, str) and isinstance(v, int | float | np.integer | np.floating) and -1e15 < v < 1e15
    }
    inner = beside.get(_STATE)
    return tensors(inner if isinstance(inner, Mapping) else found, path), numbers


def convert(path: Path, method: str = "") -> Imported:
    """Read an official checkpoint and put it in earsight's terms.

    `method` chooses among the methods that compute the file's map (EZ-VSL's network is FNAC's and MarginNCE's too);
    weights can be trained further with the loss of the method that they came in as.
    """
    official, numbers = _read(path)
    source = recognise(official, path)
    fits = PUBLISHED[source].fits
    method = method or next(iter(fits))
    if method not in fits:
        raise UsageError(
            f"Expected a method with the network of {source}, which {path.name} holds ({' or '.join(fits)}), "
            f"but got {method}. Leave --method out, or name one of these."
        )
    fit = fits[method]
    preset: Preset = registry.load("method", method).PRESETS[fit.preset]()
    swapped = _SWAPPED.get(source, {})
    numbers = {swapped.get(k, k): v for k, v in numbers.items()}
    origin: dict[str, Any] = {"source": source, "file": path.name, "sha256": sha256(path)}
    if "epoch" in numbers:
        origin["epoch"] = int(numbers["epoch"])
    origin |= {k: v for k, v in numbers.items() if k.startswith("best_")}
    meta = {"protocol": preset.protocol, "imported": origin}
    config = replace(preset.config, **fit.changes)
    return Imported(source, method, config, preset.inputs, renamed(official, source, fit), meta)


def import_checkpoint(path: Path, out: Path, method: str = "") -> Imported:
    """Write an official checkpoint as earsight weights to `out`; returns what it was."""
    imported = convert(path, method)
    with no_start_weights():
        model = build(imported.method, imported.config, imported.inputs)
    # What a method counts beside its networks (FNAC's epochs) stands at its start; published files do not hold it.
    counted = {k: v for k, v in model.state_dict().items() if "." not in k}
    model.load_state_dict(counted | imported.state)
    save_weights(out, model, imported.method, imported.config, imported.meta)
    return imported
