"""Settings of the command that writes weights for other programs."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from earsight.cli.words import Switch, word


@dataclass(frozen=True, kw_only=True)
class Export:
    """Write weights as one ONNX file, checked against torch, to localize with where there is no torch."""

    weights: Annotated[Path, tyro.conf.Positional, word("WEIGHTS", default=None)]
    """Weights file or folder of a run."""
    out: Annotated[Path, word("FILE", "-o", default=None)]
    """The .onnx file to write."""
    opset: Annotated[int, word("N", default=None)] = 18
    """Version of ONNX's operators; 18 runs on every runtime since 2023."""
    force: Switch = False
    """Replace a file that is there."""
    json: Switch = False
    """Print JSON."""
