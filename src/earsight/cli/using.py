"""Settings of the commands that use weights and tell about things."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import tyro

from earsight.cli.words import Device, Many, Switch, word
from earsight.commands.listing import Kind


@dataclass(frozen=True, kw_only=True)
class Localize:
    """Show where the sound comes from, in videos and folders of them, or in a picture with a sound."""

    weights: Annotated[Path, tyro.conf.Positional, word("WEIGHTS", default=None)]
    """Weights file or folder of a run."""
    inputs: Annotated[Many, word("INPUT")] = ()
    """Video files or folders."""
    image: Annotated[Path | None, word("FILE")] = None
    """A picture, to go with --audio."""
    audio: Annotated[Path | None, word("FILE")] = None
    """A sound, to go with --image."""
    out: Annotated[Path, word("DIR", "-o", default=None)] = Path("localized")
    """Folder for what is written."""
    every: Annotated[float, word("SECONDS", default=None)] = 0.2
    """Time between two answers of a video."""
    window: Annotated[float | None, word("SECONDS")] = None
    """Sound heard around each time; by default as much as the model hears."""
    start: Annotated[float | None, word("SECONDS")] = None
    """Where in the video to begin; with --audio, where in the sound the picture belongs."""
    end: Annotated[float | None, word("SECONDS")] = None
    """Where in the video to end."""
    format: Annotated[str, word("KINDS", default=None)] = "mp4,png,json"
    """What to write: overlay video, contact sheet, timeline."""
    object_prior: Annotated[float | None, word("ALPHA")] = None
    """Add to the maps where objects are (OGL): ALPHA is the share of the model's own map. Published: 0.9 and 0.4."""
    object_fusion: Literal["slavc", "ezvsl"] = "slavc"
    """How both are added: scores on fixed scales (SLAVC, with 0.9), or each map stretched (EZ-VSL, with 0.4)."""
    object_weights: Annotated[str, word("imagenet|FILE", default=None)] = "imagenet"
    """The network that sees objects: ImageNet's, a file with weights of a ResNet-18, or a run of the method ogl."""
    batch_size: int = 16
    """Frames at a time; changes the speed and nothing else."""
    device: Device = "auto"
    """Where to compute."""
    force: Switch = False
    """Replace files that are there."""
    json: Switch = False
    """Print the summary as JSON."""


@dataclass(frozen=True, kw_only=True)
class Import:
    """Turn an official SLAVC, EZ-VSL, FNAC, MarginNCE or LVS checkpoint into earsight weights."""

    checkpoint: Annotated[Path, tyro.conf.Positional, word("CHECKPOINT", default=None)]
    """The .pth file as its authors published it. Its code is not run."""
    out: Annotated[Path, word("FILE", "-o", default=None)]
    """The .safetensors file to write."""
    method: Annotated[str, word("NAME")] = ""
    """What a file with the network of EZ-VSL becomes: ezvsl (by default), fnac, marginnce or slavc. All give the same
    maps; the name says what they are called and how they would be trained further."""
    force: Switch = False
    """Replace a file that is there."""
    json: Switch = False
    """Print JSON."""


@dataclass(frozen=True, kw_only=True)
class List:
    """Names that other commands take, each with one line about it."""

    kind: Annotated[Kind, tyro.conf.Positional]
    """What to list."""
    json: Switch = False
    """Print JSON."""


@dataclass(frozen=True, kw_only=True)
class Show:
    """Tell what weights, a run, a report or a media file is."""

    path: Annotated[Path, tyro.conf.Positional, word("WEIGHTS|RUN|REPORT|PACK|MEDIA", default=None)]
    """The file or folder."""
    json: Switch = False
    """Print JSON."""


@dataclass(frozen=True, kw_only=True)
class Doctor:
    """Check that everything earsight needs is here and works."""

    json: Switch = False
    """Print JSON."""
