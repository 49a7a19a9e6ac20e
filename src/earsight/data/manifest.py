"""What a pack says of itself: where its splits lie, how their clips were packed, and the hash of every shard.

Nothing here needs pyarrow, which packs are read and written with.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, fields
from inspect import signature
from itertools import accumulate
from pathlib import Path
from typing import Any, NamedTuple

from earsight import files, registry
from earsight.config import from_json, need
from earsight.data.clips import ClipSet
from earsight.errors import DataError, UsageError
from earsight.media.accept import Limits

FORMAT = 1
MARK = "earsight-pack.txt"
MANIFEST, BEGUN = "pack.json", "begun.json"
MOST_BYTES = 1 << 31
"""Sound of one shard; it is made in memory."""
_MOST_ROWS = 100_000_000


@dataclass(frozen=True)
class Settings:
    """How clips are packed."""

    size: int = 256
    """Shorter side of the pictures; smaller ones stay as they are."""
    rate: int = 22050
    """Samples per second."""
    seconds: float = 3.0
    """Sound around the frame."""
    quality: int = 92
    """Of the JPEG pictures, 1 to 100."""
    shard_rows: int = 128
    """Clips in a file."""

    def __post_init__(self) -> None:
        limits = Limits()
        need(16 <= self.size <= 4096, "a size of 16 to 4096", self.size)
        need(1000 <= self.rate <= limits.max_rate, f"a rate of 1000 to {limits.max_rate}", self.rate)
        need(0 < self.seconds <= 3600, "seconds above 0 and at most 3600", self.seconds)
        need(1 <= self.quality <= 100, "a quality of 1 to 100", self.quality)
        need(1 <= self.shard_rows <= 1 << 20, f"shard rows of 1 to {1 << 20}", self.shard_rows)
        room = 2 * self.samples * self.shard_rows
        need(room <= MOST_BYTES, f"at most {MOST_BYTES:,} bytes of sound in a shard", f"{room:,}", "Use fewer rows.")

    @property
    def samples(self) -> int:
        return max(1, round(self.rate * self.seconds))


@dataclass(frozen=True)
class ShardInfo:
    """A shard as pack.json knows it."""

    rows: int
    bytes: int
    sha256: str


@dataclass(frozen=True)
class Failed:
    """A clip that could not be packed, and why. It keeps its place in the list."""

    index: int
    id: str
    reason: str


@dataclass(frozen=True)
class Manifest:
    """What pack.json holds.

    Args:
        format: version of the layout.
        set: "set:split", by which it is opened.
        name: what the set calls itself; the same unless it is a module of the user's own.
        list_hash: hash of the rows, as ClipSet.list_hash gives it.
        limit: of how many clips a part was packed; 0 for all.
        rows: clips, packed or not.
    """

    format: int
    set: str
    name: str
    list_hash: str
    limit: int
    rows: int
    settings: Settings
    shards: tuple[ShardInfo, ...]
    failed: tuple[Failed, ...]

    def __post_init__(self) -> None:
        need(re.fullmatch(r"[\w.]+:[\w.-]+", self.set) is not None, "set 'name:split'", repr(self.set[:80]))
        need(0 < self.rows <= _MOST_ROWS, f"1 to {_MOST_ROWS} rows", self.rows)
        most = self.settings.shard_rows
        need(all(0 < shard.rows <= most for shard in self.shards), f"1 to {most} rows in each shard", "others")
        need(sum(shard.rows for shard in self.shards) == self.rows, f"{self.rows} rows in all shards", "others")
        need(all(0 <= failed.index < self.rows for failed in self.failed), "failed clips of this list", "others")

    @property
    def firsts(self) -> list[int]:
        """Number of the first clip of each shard."""
        return list(accumulate((shard.rows for shard in self.shards[:-1]), initial=0))

    @property
    def bytes(self) -> int:
        return sum(shard.bytes for shard in self.shards)


class Part(NamedTuple):
    """Clips that become one folder of a pack.

    Args:
        spec: the "set:split" it is opened by.
        clips: what is packed.
        settings: how.
        limit: to how many clips the list was cut; 0 for all.
    """

    spec: str
    clips: ClipSet
    settings: Settings
    limit: int = 0


@dataclass(frozen=True)
class Plan:
    """The parts of a pack, and texts by their path in it, which are asked for once all parts are packed.

    A set whose pictures and sounds are packed apart defines `plan(split, settings, *, data, coco, esc50, limit)` and
    `tables(split, pack)`, the folders that a split is read from, in its file, and opens its packs itself.
    """

    parts: tuple[Part, ...]
    texts: Callable[[], dict[str, str]] = dict


def folder_name(spec: str) -> str:
    """The folder of "set:split" inside a pack.

    >>> folder_name("vggsound:144k")
    'vggsound-144k'
    """
    need(re.fullmatch(r"[\w.]+:[\w.-]+", spec) is not None, "a set and a split of letters and digits", repr(spec))
    return spec.replace(":", "-")


def shard_path(folder: Path, number: int) -> Path:
    return folder / f"shard-{number:05d}.arrow"


def damaged(path: Path, got: str) -> DataError:
    return DataError(
        f"Expected {path} to be a shard of a pack, but got {got}. "
        f"Look with earsight data check {path.parent}, then run data prepare again: it makes anew what is damaged."
    )


def is_pack(path: Path) -> bool:
    """Whether a folder is a pack. Nothing is listed: a folder of media may hold hundreds of thousands of files."""
    return (path / MARK).is_file()


def splits_in(path: Path) -> list[Path]:
    """The folders of the splits of a pack, finished or not; of a split's own folder, that one."""
    if not is_pack(path):
        return [path] if is_split(path) else []
    return sorted(folder for folder in path.iterdir() if is_split(folder))


def is_split(path: Path) -> bool:
    return (path / MANIFEST).is_file() or (path / BEGUN).is_file()


def read_manifest(folder: Path) -> Manifest:
    """What pack.json says, checked."""
    path = folder / MANIFEST
    values = read_json(path)
    if values.get("format") != FORMAT:
        raise DataError(
            f"Expected {path} to describe a pack of format {FORMAT}, but got {str(values.get('format', 'none'))[:40]}. "
            "Use the earsight that packed it, or prepare it again with --force."
        )
    missing = [field.name for field in fields(Manifest) if field.name not in values]
    if missing:
        raise DataError(f"Expected {', '.join(missing)} in {path}, but got none. Prepare the pack again.")
    try:
        return from_json(Manifest, values)
    except (UsageError, TypeError) as error:
        got = f"{str(error)[:300].rstrip('.')}"
        raise DataError(f"Expected {path} to describe a pack, but got this: {got}. Prepare it again.") from error


def read_json(path: Path) -> dict[str, Any]:
    """The values of a small JSON file of a pack by name."""
    try:
        values = files.read_json(path)
    except (OSError, ValueError) as error:
        raise DataError(f"Expected JSON in {path}, but got: {str(error)[:200]}. Prepare the pack again.") from error
    if not isinstance(values, dict):
        raise DataError(f"Expected names and values in {path}, but got others. Prepare the pack again.")
    return values


def find(data: Path, spec: str) -> Path | None:
    """The folder of "set:split" when `data` is a pack; None when it is a folder of another kind.

    None also for sets whose pictures and sounds are packed apart (manifest.Plan): they open packs themselves.
    """
    if not is_pack(data) and is_split(data) and is_pack(data.parent):
        data = data.parent
    folder = data / spec.replace(":", "-")  # which is no reason to refuse a set of files with an odd split
    if (folder / MANIFEST).is_file():
        return folder
    if not is_pack(data) or hasattr(registry.load("set", spec.partition(":")[0]), "plan"):
        return None
    there = [read_manifest(one).set for one in splits_in(data) if (one / MANIFEST).is_file()]
    got = "an unfinished one" if (folder / BEGUN).is_file() else ", ".join(there) or "nothing"
    raise UsageError(
        f"Expected {spec} in the pack {data}, but got {got}. "
        f"Run: earsight data prepare {spec}{data_flag(spec)} --out {data}"
    )


def data_flag(spec: str) -> str:
    """The flag for a set's folder of media; nothing for a set that opens without one."""
    name = spec.partition(":")[0]
    if not registry.may_import(name):  # it may be the pack that names it
        return " --data DIR"
    takes = signature(registry.load("set", name).open).parameters.get("data")
    return "" if takes is not None and takes.default is None else " --data DIR"
