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
    """Weights file, folder of a run, or exported .onnx file."""
    inputs: Annotated[Many, word("INPUT")] = ()
    """Video files or folders."""
    image: Annotated[Path | None, word("FILE")] = None
    """A picture, to go with --audio."""
    audio: Annotated[Path | None, word("FILE")] = None
    """A sound, to go with --image; with one video, what is heard in place of its own sound."""
    out: Annotated[Path, word("DIR", "-o", default=None)] = Path("localized")
    """Folder for what is written."""
    every: Annotated[float, word("SECONDS", default=None)] = 0.2
    """Time between two answers of a video."""
    window: Annotated[float | None, word("SECONDS")] = None
    """Sound heard around each time, at most and by default as much as the model hears; less is repeated to fill it."""
    smooth: Annotated[float, word("SECONDS", default=None)] = 0.5
    """Steady maps, confidences and verdicts over this time; 0 for every answer as it comes."""
    start: Annotated[float | None, word("SECONDS")] = None
    """Where in the video to begin; for a picture, the middle of what is heard of its sound. Without it, a loud part
    near the middle of the sound; train and eval hear from the list's start on."""
    end: Annotated[float | None, word("SECONDS")] = None
    """Where in the video to end; not for pictures."""
    format: Annotated[str, word("KINDS", default=None)] = "mp4,png,json"
    """What to write: overlay video (mp4), contact sheet and confidence over time (png), timeline (json), maps (npz)."""
    overlay: Annotated[float, word("STRENGTH", default=None)] = 0.65
    """How opaque the heat is where it is hottest, from 0 to 1."""
    boxes: Annotated[int, word("N", default=None)] = 5
    """Most boxes to draw, largest first; the timeline has all of them."""
    object_prior: Annotated[float | None, word("ALPHA")] = None
    """Add to the maps where objects are (OGL): ALPHA is the share of the model's own map. Published: 0.9 and 0.4."""
    object_fusion: Literal["slavc", "ezvsl"] = "slavc"
    """How both are added: scores on fixed scales (SLAVC, with 0.9), or each map stretched (EZ-VSL, with 0.4)."""
    object_weights: Annotated[str, word("imagenet|FILE", default=None)] = "imagenet"
    """The network that sees objects: ImageNet's, a file with weights of a ResNet-18, or a run of the method ogl."""
    batch_size: int = 8
    """Frames at a time; changes the speed and nothing else."""
    device: Device = "auto"
    """Where to compute."""
    force: Switch = False
    """Replace files that are there."""
    json: Switch = False
    """Print the summary as JSON."""


@dataclass(frozen=True, kw_only=True)
class App:
    """Serve a web page that localizes clips: drop one, record one, swap sounds, compare two models."""

    weights: Annotated[Many, word("WEIGHTS")]
    """Weights file or folder of a run; a second one is shown beside the first."""
    host: Annotated[str, word("ADDRESS", default=None)] = "127.0.0.1"
    """Where to listen; by default only this machine can reach the page."""
    port: Annotated[int, word("N", default=None)] = 7860
    """Where to listen; 0 for any that is free."""
    device: Device = "auto"
    """Where to compute."""
    every: Annotated[float, word("SECONDS", default=None)] = 0.2
    """Time between two answers."""
    max_mb: Annotated[float, word("MB", default=None)] = 100.0
    """Largest upload, in millions of bytes."""
    max_seconds: Annotated[float, word("SECONDS", default=None)] = 60.0
    """Longest clip."""
    max_pixels: Annotated[int, word("N", default=None)] = 8_294_400
    """Largest frame, width times height."""
    max_queue: Annotated[int, word("N", default=None)] = 16
    """Most people who wait; others are asked to come back."""
    max_run_seconds: Annotated[float, word("SECONDS", default=None)] = 300.0
    """Longest time that one clip may be worked on."""
    max_memory: Annotated[float, word("GB", default=None)] = 3.0
    """Memory that the work on one clip may take beside the models."""
    keep: Annotated[float, word("SECONDS", default=None)] = 3600.0
    """After this time a visitor's files are removed; when he leaves, at once."""


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
    """Tell what weights, a run, a report, a pack or a media file is."""

    path: Annotated[Path, tyro.conf.Positional, word("WEIGHTS|RUN|REPORT|PACK|MEDIA", default=None)]
    """The file or folder."""
    json: Switch = False
    """Print JSON."""


@dataclass(frozen=True, kw_only=True)
class Doctor:
    """Check that everything earsight needs is here and works."""

    json: Switch = False
    """Print JSON."""
