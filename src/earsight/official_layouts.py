"""Names and shapes in the checkpoints that others published, and what each part is called here.

Every network is two ResNet-18 without their classifier, and perhaps projections. Files of SLAVC and EZ-VSL hold exactly
the tensors listed here. None of LVS could be opened: its names are those that its published code gives, whose own
loader takes files that lack some. So all tensors that its map needs must be there, and beside them only the named ones
that its network keeps and never uses.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torchvision.models import resnet18

from earsight.encoders.start_weights import layout_faults
from earsight.errors import CheckpointError

Shapes = dict[str, tuple[int, ...]]


@dataclass(frozen=True)
class Fit:
    """How an earsight method takes a published network in.

    Args:
        names: official part -> part of the method; the longest that a tensor's name begins with counts.
        preset: whose settings the weights get.
        changes: settings that differ from the preset's.
    """

    names: Mapping[str, str]
    preset: str = "official"
    changes: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Published:
    """A kind of published checkpoint: what must be in it, what may be, and which methods compute its map."""

    needed: Shapes
    unused: Shapes
    fits: Mapping[str, Fit]
    """By method; the first is what a file becomes when nobody asks for another."""

    @property
    def count(self) -> str:
        most = len(self.needed) + len(self.unused)
        return f"{len(self.needed)} tensors" if not self.unused else f"{len(self.needed)} to {most} tensors"


@cache
def _resnet18() -> Shapes:
    """Torchvision's ResNet-18 without its first convolution and its classifier."""
    with torch.device("meta"):
        state = resnet18().state_dict()
    return {k: tuple(v.shape) for k, v in state.items() if not k.startswith(("fc.", "conv1."))}


def _backbone(part: str, first: str = "conv1", channels: int = 3) -> Shapes:
    """A network of which `first` is the first convolution."""
    return {f"{part}.{k}": shape for k, shape in ({f"{first}.weight": (64, channels, 7, 7)} | _resnet18()).items()}


def _heads(prefix: str, *endings: str) -> Shapes:
    shapes: Shapes = {}
    for ending in endings:
        shapes |= {f"{prefix}img_proj{ending}.weight": (512, 512, 1, 1), f"{prefix}img_proj{ending}.bias": (512,)}
        shapes |= {f"{prefix}aud_proj{ending}.weight": (512, 512), f"{prefix}aud_proj{ending}.bias": (512,)}
    return shapes


def _never_used(part: str, other: str, channels: int) -> Shapes:
    """What each network of LVS keeps besides: the other's first convolution, one for optical flow, and a classifier."""
    return {
        f"{part}.{other}.weight": (64, channels, 7, 7),
        f"{part}.conv1_flow.weight": (64, 6, 7, 7),
        f"{part}.fc.weight": (1000, 512),
        f"{part}.fc.bias": (1000,),
    }


def _nets(prefix: str = "") -> Shapes:
    return _backbone(f"{prefix}imgnet") | _backbone(f"{prefix}audnet", channels=1)


# proj1 is softmaxed over sounds (correspondence), proj2 over places (localization).
_SLAVC = {
    "imgnet": "image",
    "audnet": "audio",
    "img_proj1": "image_heads.avc",
    "img_proj2": "image_heads.loc",
    "aud_proj1": "audio_heads.avc",
    "aud_proj2": "audio_heads.loc",
}
_BOTH = {k: f"online.{v}" for k, v in _SLAVC.items()} | {f"momentum_{k}": f"target.{v}" for k, v in _SLAVC.items()}
_EZVSL = {"imgnet": "image", "audnet": "audio", "img_proj": "image_proj", "aud_proj": "audio_proj"}
_ONE_HEAD = {k: f"online.{v}".replace("_proj", "_heads.loc") for k, v in _EZVSL.items()}
# SLAVC with one projection, without dropout and slow copies, has EZ-VSL's map and loss.
_AS_EZVSL = {
    "decompose": False,
    "targets": False,
    "infer": "loc",
    "pooling": "max",
    "audio_term": "images",
    "visual_dropout": 0.0,
}
# Pictures enter LVS through conv1, sounds through conv1_a.
_LVS = {"imgnet": "image", "audnet": "audio", "audnet.conv1_a": "audio.conv1"}

PUBLISHED = {
    "SLAVC": Published(_nets() | _heads("", "1", "2") | _nets("momentum_") | _heads("momentum_", "1", "2"), {},
                       {"slavc": Fit(_BOTH)}),
    "EZ-VSL": Published(_nets() | _heads("", ""), {},
                        {"ezvsl": Fit(_EZVSL), "fnac": Fit(_EZVSL), "marginnce": Fit(_EZVSL, "paper"),
                         "slavc": Fit(_ONE_HEAD, changes=_AS_EZVSL)}),
    "LVS": Published(_backbone("imgnet") | _backbone("audnet", "conv1_a", 1),
                     _never_used("imgnet", "conv1_a", 1) | _never_used("audnet", "conv1", 3),
                     {"lvs": Fit(_LVS)}),
}  # fmt: skip
"""FNAC's and MarginNCE's files have the names and shapes of EZ-VSL's, and the same map."""


def recognise(state: Mapping[str, Tensor], path: Path) -> str:
    """Which kind a file is, by exact names and shapes; anything else is refused."""
    faults = {}
    for source, kind in PUBLISHED.items():
        known = kind.needed | {name: shape for name, shape in kind.unused.items() if name in state}
        faults[source] = layout_faults(known, state)
        if not faults[source]:
            return source
    nearest = max(faults, key=lambda source: (len(PUBLISHED[source].needed.keys() & state.keys()),
                                              -len(PUBLISHED[source].needed)))  # fmt: skip
    known_kinds = " or ".join(f"{source} ({kind.count})" for source, kind in PUBLISHED.items())
    raise CheckpointError(
        f"Expected an official checkpoint of {known_kinds} in {path}, but got {len(state)} tensors; "
        f"against {nearest}: {faults[nearest]}. Give the .pth file as its authors published it."
    )


def renamed(state: Mapping[str, Tensor], source: str, fit: Fit) -> dict[str, Tensor]:
    """The tensors that are used, under the method's names, as float32."""
    used = {}
    for key in PUBLISHED[source].needed:
        part = max((p for p in fit.names if key.startswith(f"{p}.")), key=len)
        value = state[key]
        used[fit.names[part] + key[len(part) :]] = value.float() if value.is_floating_point() else value
    return used
