"""Settings of the commands that measure."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import tyro

from earsight.cli.words import Device, Many, Switch, word


@dataclass(frozen=True, kw_only=True)
class Eval:
    """Measure weights on sets: one table with controls, centre prior, floor and ceiling."""

    weights: Annotated[Many, word("WEIGHTS")]
    """Weights files or folders of runs."""
    on: Annotated[tuple[str, ...], word("SET", default=None)]
    """Test sets, NAME or NAME:SPLIT (earsight list sets)."""
    data: Annotated[Path | None, word("DIR")] = None
    """Folder of the data, for sets that need one."""
    protocol: Annotated[tuple[str, ...], word("NAME")] = ()
    """Evaluation protocols (earsight list protocols); by default the one the weights were made with."""
    level: Annotated[float | None, word("SCORE")] = None
    """Pixel threshold of the protocol `universal`; by default the one stored with the weights."""
    audio: Literal["all", "real", "shuffled", "silent"] = "all"
    """Which sound is heard: a model that listens does worse with another clip's sound, or with none."""
    batch_size: int | None = None
    """Clips at a time; changes the speed and nothing else. By default what suits the device."""
    device: Device = "auto"
    """Where to compute."""
    workers: int | None = None
    """Processes that read clips; 0 reads in this one. By default 0 on a CPU, and one a core on a GPU, at most 12."""
    limit: Annotated[int, word("N")] = 0
    """Use at most this many clips of each set."""
    only: Annotated[Path | None, word("FILE")] = None
    """Measure only the clips whose pictures this file names, one a line: a clean list of earsight data audit."""
    max_failed: float = 0.05
    """Share of a set's clips that may be missing or unreadable; they are counted and named, never replaced."""
    object_prior: Annotated[float | None, word("ALPHA")] = None
    """Add to the maps where objects are (OGL): ALPHA is the share of the model's own map. Published: 0.9 and 0.4."""
    object_fusion: Literal["slavc", "ezvsl"] = "slavc"
    """How both are added: scores on fixed scales (SLAVC, with 0.9), or each map stretched (EZ-VSL, with 0.4)."""
    object_weights: Annotated[str, word("imagenet|FILE", default=None)] = "imagenet"
    """The network that sees objects: ImageNet's, a file with weights of a ResNet-18, or a run of the method ogl."""
    save_maps: Annotated[Path | None, word("FILE")] = None
    """Write the maps to this .npz file too, for earsight score or for other programs."""
    out: Annotated[Path | None, word("DIR", "-o")] = None
    """Write the report card here: a web page, numbers, records, table, plots."""
    force: Switch = False
    """Replace a report that is there."""
    json: Switch = False
    """Print JSON instead of the table."""


@dataclass(frozen=True, kw_only=True)
class Score:
    """Measure maps of any program on a set, without its pictures and sounds: the same report card as eval."""

    maps: Annotated[Path, tyro.conf.Positional, word("MAPS", default=None)]
    """An .npz file, or a folder of ID.npy files; any resolution, one map a clip. The word center-prior for
    what pointing at the middle of every picture scores."""
    on: Annotated[str, word("SET", default=None)]
    """Test set, NAME or NAME:SPLIT (earsight list sets)."""
    data: Annotated[Path | None, word("DIR")] = None
    """Folder with the set's lists, for sets that need them."""
    protocol: Annotated[tuple[str, ...], word("NAME", default=None)] = ("exact", "official", "paper")
    """Evaluation protocols (earsight list protocols)."""
    level: Annotated[float | None, word("SCORE")] = None
    """Pixel threshold of the protocol `universal`."""
    bounds: Annotated[tuple[float, float] | None, word("LOW HIGH")] = None
    """Lowest and highest value that a map can have in theory, for example -1 1 for cosines; else as the file says."""
    shuffled: Annotated[Path | None, word("MAPS")] = None
    """Maps of the same pictures with other clips' sounds: tells how much the model listens."""
    silent: Annotated[Path | None, word("MAPS")] = None
    """Maps of the same pictures with silence."""
    only: Annotated[Path | None, word("FILE")] = None
    """Measure only the clips whose pictures this file names, one a line: a clean list of earsight data audit."""
    trained_on: Annotated[str, word("SET")] = ""
    """Training list of the model, to look for test clips in it."""
    allow_missing: Switch = False
    """Go on when maps are missing: they are counted and named, and the numbers are of the rest."""
    ignore_extra: Switch = False
    """Go on when there are maps of clips that the set does not have: they are counted and named."""
    name: Annotated[str, word("NAME")] = ""
    """What to call the model in tables; by default the file's name."""
    out: Annotated[Path | None, word("DIR", "-o")] = None
    """Write the report card here: a web page, numbers, records, table, plots."""
    force: Switch = False
    """Replace a report that is there."""
    json: Switch = False
    """Print JSON instead of the table."""


@dataclass(frozen=True, kw_only=True)
class Compare:
    """Put reports into one table beside the published numbers, and say which differences could be chance."""

    reports: Annotated[Many, word("REPORT")] = ()
    """Report folders that eval or score wrote."""
    table: Annotated[str, word("NAME")] = ""
    """Published table to stand beside (earsight list tables); by default what fits the sets. "none" for none."""
    format: Literal["text", "markdown", "csv", "latex"] = "text"
    """How the table is printed."""
    metrics: Annotated[tuple[str, ...], word("NAME")] = ()
    """Which numbers: those of metrics.json, such as ap, auroc or loc_acc/small. An unknown name lists all. By default
    ap, max_f1 and loc_acc, or loc_acc and auc where no set has negatives."""
    draws: int = 2000
    """Bootstrap draws behind each p value."""
    seed: int = 0
    """Seed of the draws."""
    out: Annotated[Path | None, word("FILE", "-o")] = None
    """Write the table to this file too."""
    force: Switch = False
    """Replace a file that is there."""
    json: Switch = False
    """Print JSON, with numbers as fractions; a published table alone (--table) as printed, in its unit."""


@dataclass(frozen=True, kw_only=True)
class Curves:
    """Draw how runs do epoch by epoch, with and without early stopping, in one plot."""

    runs: Annotated[Many, word("RUN")]
    """Folders of runs."""
    metrics: Annotated[tuple[str, ...], word("NAME", default=None)] = ("loc_acc", "ap")
    """Which numbers to draw, one panel each: those of metrics.json, such as ap or auroc."""
    out: Annotated[Path, word("FILE", "-o", default=None)] = Path("curves.png")
    """The PNG file to write."""
    force: Switch = False
    """Replace a file that is there."""
    json: Switch = False
    """Print JSON instead of the table."""
