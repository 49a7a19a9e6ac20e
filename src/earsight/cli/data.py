"""Settings of the commands that look after data: earsight data check, prepare, audit and negatives."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from earsight.cli.words import Switch, word


@dataclass(frozen=True, kw_only=True)
class Check:
    """Look at every clip of a set: missing, unreadable, silent, still, duplicate, wrongly timed; of a pack: damaged."""

    spec: Annotated[str, tyro.conf.Positional, word("SET|PACK", default=None)]
    """NAME or NAME:SPLIT (earsight list sets), or the folder of a pack."""
    data: Annotated[Path | None, word("DIR")] = None
    """Folder of the data."""
    workers: int = 0
    """Processes that read clips; 0 reads in this one."""
    limit: Annotated[int, word("N")] = 0
    """Look at this many clips only, spread over the set."""
    out: Annotated[Path | None, word("DIR", "-o")] = None
    """Write what was found (csv) and the list of good clips here."""
    force: Switch = False
    """Replace files that are there."""
    json: Switch = False
    """Print JSON."""


@dataclass(frozen=True, kw_only=True)
class Prepare:
    """Pack sets into a few large files that are read many times faster; killed and started again, it goes on."""

    specs: Annotated[tuple[str, ...], tyro.conf.Positional, word("SET")]
    """NAME or NAME:SPLIT (earsight list sets); without a split, what one trains on."""
    data: Annotated[Path | None, word("DIR")] = None
    """Folder of the data, for sets that need one."""
    coco: Annotated[Path | None, word("DIR")] = None
    """For coco_esc: the folder of COCO, with train2017/ and annotations/."""
    esc50: Annotated[Path | None, word("DIR")] = None
    """For coco_esc: the folder of ESC-50, with audio/ and meta/."""
    out: Annotated[Path, word("PACK", "-o", default=None)]
    """The folder to pack into; several sets may share it. Give it as --data then."""
    size: int = 256
    """Shorter side of the pictures; smaller ones stay as they are."""
    rate: int = 22050
    """Samples per second, as the model hears (inputs.rate)."""
    seconds: float = 3.0
    """Sound around the frame: as much as the longest that will be asked for (inputs.seconds)."""
    quality: int = 92
    """Of the JPEG pictures, 1 to 100."""
    shard_rows: Annotated[int, word("N", default=None)] = 512
    """Clips in a file."""
    workers: int = 0
    """Processes that read clips, one a core; 0 reads in this one."""
    limit: Annotated[int, word("N")] = 0
    """Pack this many clips only, spread over the set."""
    max_failed: float = 0.05
    """Share of a set's clips that may be missing or unreadable; they are counted and named, never replaced."""
    force: Switch = False
    """Pack anew where other clips or settings were packed."""
    json: Switch = False
    """Print JSON."""


@dataclass(frozen=True, kw_only=True)
class Audit:
    """Look for test clips in a training list: the same clip, or another part of the same video."""

    spec: Annotated[str, tyro.conf.Positional, word("SET", default=None)]
    """Training list, NAME or NAME:SPLIT (earsight list sets), or a text file with one id a line."""
    against: Annotated[tuple[str, ...], word("SET")] = ()
    """Test sets; by default those that take their clips from the same source."""
    data: Annotated[Path | None, word("DIR")] = None
    """Folder with the lists."""
    out: Annotated[Path | None, word("DIR", "-o")] = None
    """Write the clean training lists, the clean test lists and the overlap here."""
    force: Switch = False
    """Replace files that are there."""
    json: Switch = False
    """Print JSON."""


@dataclass(frozen=True, kw_only=True)
class Negatives:
    """Build negatives for an annotated set: pictures with a sound that nothing in them makes."""

    spec: Annotated[str, tyro.conf.Positional, word("SET", default=None)]
    """The set whose positives are paired anew, NAME or NAME:SPLIT."""
    data: Annotated[Path | None, word("DIR")] = None
    """Folder of the data, for sets that need one."""
    out: Annotated[Path, word("FILE", "-o", default=None)]
    """The csv file to write; SET+FILE is then the extended set."""
    count: Annotated[int, word("N")] = 0
    """How many in all; by default as many as there are positives."""
    same_class: float = 0.25
    """Share of the new pairs whose sound is of the picture's class (hard); the others are easy."""
    real: Annotated[Path | None, word("FILE")] = None
    """List of clips that are known to have no visible source; they come first."""
    published: Annotated[Path | None, word("FILE")] = None
    """A published list (video,audio,...) to take as it is; only the kinds are worked out."""
    seed: int = 0
    """Another seed pairs anew."""
    force: Switch = False
    """Replace a file that is there."""
    json: Switch = False
    """Print JSON."""
