"""Official SLAVC and EZ-VSL checkpoints: read without running their code, and renamed into earsight weights.

The published files are training states: tensors under "model", an optimizer, and scores as numpy scalars, which a plain
safe load refuses. FNAC's files have EZ-VSL's names and shapes and compute the same map, so they come in as EZ-VSL.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torchvision.models import resnet18

from earsight.checkpoint import save_weights
from earsight.config import Inputs
from earsight.errors import CheckpointError
from earsight.methods import slavc
from earsight.methods.base import build
from earsight.models.encoders import no_start_weights
from earsight.models.weights import layout_faults, read_pickle, sha256, tensors

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

# Official part -> earsight part. proj1 is softmaxed over sounds (correspondence), proj2 over places (localization).
_SLAVC = {
    "imgnet": "image",
    "audnet": "audio",
    "img_proj1": "image_avc",
    "img_proj2": "image_loc",
    "aud_proj1": "audio_avc",
    "aud_proj2": "audio_loc",
}
_EZVSL = {"imgnet": "image", "audnet": "audio", "img_proj": "image_loc", "aud_proj": "audio_loc"}
_RENAME = {
    "SLAVC": {k: f"online.{v}" for k, v in _SLAVC.items()}
    | {f"momentum_{k}": f"target.{v}" for k, v in _SLAVC.items()},
    "EZ-VSL": {k: f"online.{v}" for k, v in _EZVSL.items()},
}
# SLAVC's trainer stores these two under each other's name.
_SWAPPED = {"best_AP": "best_F1", "best_F1": "best_AP"}


@dataclass(frozen=True)
class Imported:
    """An official checkpoint in earsight's terms.

    Args:
        source: "SLAVC" or "EZ-VSL".
        method: name of the earsight method that computes the same map.
        config: that method's settings.
        inputs: how the published code prepares pictures and sounds.
        state: the weights under earsight's names, float32.
        meta: kept with the weights: "protocol", and "imported" with source, file name, sha256, epoch and best scores.
    """

    source: str
    method: str
    config: slavc.Config
    inputs: Inputs
    state: dict[str, Tensor]
    meta: dict[str, Any]


def layout(source: str) -> dict[str, tuple[int, ...]]:
    """Names and shapes in an official checkpoint of "SLAVC" or "EZ-VSL".

    >>> len(layout("SLAVC")), len(layout("EZ-VSL"))
    (496, 244)
    """
    with torch.device("meta"):
        net = resnet18()
    backbone = {k: tuple(v.shape) for k, v in net.state_dict().items() if not k.startswith("fc.")}
    shapes: dict[str, tuple[int, ...]] = {}
    for part in _RENAME[source]:
        kind = part.removeprefix("momentum_")
        if kind == "imgnet":
            own = backbone
        elif kind == "audnet":
            own = backbone | {"conv1.weight": (64, 1, 7, 7)}
        else:
            own = {"weight": (512, 512, 1, 1) if kind.startswith("img") else (512, 512), "bias": (512,)}
        shapes |= {f"{part}.{k}": shape for k, shape in own.items()}
    return shapes


def _read(path: Path) -> tuple[dict[str, Tensor], dict[str, float]]:
    """The tensors of a file, and the plain numbers beside them."""
    found = read_pickle(path, _NUMPY_SCALARS)
    beside: Mapping[Any, Any] = found if isinstance(found, Mapping) else {}
    numbers = {
        k: float(v)
        for k, v in beside.items()
        # The limit also leaves out what is not a number and integers too long for a float.
        if isinstance(k, str) and isinstance(v, int | float | np.integer | np.floating) and -1e15 < v < 1e15
    }
    return tensors(found, path), numbers


def recognise(state: Mapping[str, Tensor], path: Path) -> str:
    """ "SLAVC" or "EZ-VSL", by exact names and shapes; anything else is refused."""
    layouts = {source: layout(source) for source in _RENAME}
    faults = {source: layout_faults(shapes, state) for source, shapes in layouts.items()}
    for source, fault in faults.items():
        if not fault:
            return source
    nearest = max(layouts, key=lambda source: (len(layouts[source].keys() & state.keys()), -len(layouts[source])))
    known = " or ".join(f"{source} ({len(shapes)} tensors)" for source, shapes in layouts.items())
    raise CheckpointError(
        f"Expected an official checkpoint of {known} in {path}, but got {len(state)} tensors; "
        f"against {nearest}: {faults[nearest]}. Give the .pth file as its authors published it."
    )


def convert(path: Path) -> Imported:
    """Read an official checkpoint and put it in earsight's terms.

    EZ-VSL has one projection for each modality and no slow copies: that is SLAVC without decomposition and targets. The
    settings make its training loss too, so the weights can be trained further.
    """
    official, numbers = _read(path)
    source = recognise(official, path)
    names = _RENAME[source]
    state = {}
    for key, value in official.items():
        part, rest = key.split(".", 1)
        state[f"{names[part]}.{rest}"] = value.float() if value.is_floating_point() else value
    if source == "SLAVC":
        numbers = {_SWAPPED.get(k, k): v for k, v in numbers.items()}
    origin: dict[str, Any] = {"source": source, "file": path.name, "sha256": sha256(path)}
    if "epoch" in numbers:
        origin["epoch"] = int(numbers["epoch"])
    origin |= {k: v for k, v in numbers.items() if k.startswith("best_")}
    preset = slavc.official()
    config: slavc.Config = preset.config
    if source == "EZ-VSL":
        config = replace(
            config,
            decompose=False,
            targets=False,
            infer="loc",
            pooling="max",
            audio_term="images",
            visual_dropout=0.0,
        )
    return Imported(source, "slavc", config, preset.inputs, state, {"protocol": preset.protocol, "imported": origin})


def import_checkpoint(path: Path, out: Path) -> Imported:
    """Write an official checkpoint as earsight weights to `out`; returns what it was."""
    imported = convert(path)
    with no_start_weights():
        model = build(imported.method, imported.config, imported.inputs)
    model.load_state_dict(imported.state)
    save_weights(out, model, imported.method, imported.config, imported.meta)
    return imported
