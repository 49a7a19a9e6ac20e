"""Settings of the commands that train."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from earsight.cli.words import Device, Switch, word
from earsight.config import Inputs, Optim, Supervision

_INPUTS, _OPTIM, _SUPERVISION = Inputs(), Optim(), Supervision()


@dataclass(frozen=True, kw_only=True)
class Demo:
    """Train, evaluate and localize on the built-in set, in minutes on two CPU cores."""

    out: Annotated[Path, word("DIR", "-o", default=None)] = Path("earsight-demo")
    """Folder for the run, the report, pictures and the video."""
    seed: int = 0
    """Another seed draws other weights."""
    quick: Switch = False
    """Train for a moment only: shows the path, not the quality."""
    force: Switch = False
    """Replace an earlier demo in the folder."""


@dataclass(frozen=True, kw_only=True)
class Train:
    """Train a method. METHOD comes first; earsight train METHOD --help lists its own settings too (--method.*).

    On several GPUs or machines: torchrun --nproc-per-node 8 -m earsight train METHOD ...
    """

    name: Annotated[str, tyro.conf.Positional, word("METHOD")] = ""
    """What to train (earsight list methods). A recipe or --resume names it too."""
    on: Annotated[str, word("SET")] = ""
    """Training set, NAME or NAME:SPLIT (earsight list sets)."""
    data: Annotated[str, word("DIR")] = ""
    """Folder of the data, for sets that need one."""
    out: Annotated[Path, word("RUN", "-o", default=None)]
    """Folder of the run: settings, log, saved state, weights."""
    preset: Annotated[str, word("NAME")] = ""
    """Start from the method's settings as one source gives them (earsight list presets)."""
    recipe: Annotated[str, word("NAME")] = ""
    """Start from all settings of a known run (earsight list recipes)."""
    val: Annotated[str, word("SET")] = ""
    """Validation set; by default the training set's own split for it. "none" for none."""
    limit: Annotated[int, word("N")] = 0
    """Use at most this many clips of each set."""
    protocol: Annotated[str, word("NAME", default=None)] = "exact"
    """Evaluation protocol for validation and calibration (earsight list protocols)."""
    false_alarm: float = 0.1
    """Share of validation negatives that the calibrated verdict may call visible."""
    device: Device = "auto"
    """Where to train."""
    resume: Switch = False
    """Go on with the run in the folder, with the settings it was begun with."""
    force: Switch = False
    """Start over when the folder holds a run already."""
    inputs: Inputs = _INPUTS
    """How clips become what the encoders see."""
    optim: Optim = _OPTIM
    """How training goes."""
    supervision: Supervision = _SUPERVISION
    """Ground truth in training."""
