"""Makes packs: clips are read in several processes and written by one, shard after shard, so that it can be killed.

The bytes of a pack depend on the clips and the settings alone, not on the number of processes or on how often the work
was interrupted. A shard appears whole or not at all; what is there when the work begins again is kept where it is whole
and of the same clips, and only clips that are missing or failed are read again.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import NamedTuple

from earsight.config import need, to_json
from earsight.data.clips import ClipSet
from earsight.data.manifest import (
    BEGUN,
    FORMAT,
    MANIFEST,
    MARK,
    Failed,
    Manifest,
    Settings,
    ShardInfo,
    folder_name,
    is_pack,
    read_json,
    shard_path,
)
from earsight.data.pack import Packed
from earsight.data.parallel import in_order
from earsight.data.shard import Shard, encode
from earsight.data.storing import Source, need_packable, store
from earsight.errors import DataError, UsageError
from earsight.files import is_part, write_bytes, write_text
from earsight.types import Row

Report = Callable[[int, int, float], None]
"""Called with the clips that are done, all clips, and how many a second were read."""


@dataclass(frozen=True)
class Outcome:
    """What became of a split: its manifest, and whether it is finished. It is not when too many clips failed."""

    folder: Path
    manifest: Manifest
    finished: bool
    kept: int
    """Clips that were there already."""


class _Kept(NamedTuple):
    """A shard that is there already: its size and hash, and the places of clips that failed."""

    info: ShardInfo
    failed: tuple[int, ...]


def pack(
    clip_set: ClipSet,
    out: Path,
    settings: Settings,
    *,
    spec: str = "",
    limit: int = 0,
    workers: int = 0,
    max_failed: float = 0.05,
    force: bool = False,
    report: Report | None = None,
) -> Outcome:
    """Pack a set into its folder inside `out`, or go on with that; `spec` is the "set:split" it was opened by.

    When more than the share `max_failed` of the clips cannot be read, the work stops after the shard at which that is
    certain. What was packed is kept, and the next time only the failed clips and those that follow are read.
    """
    need(0 <= max_failed <= 1, "max_failed between 0 and 1", max_failed)
    need_packable(clip_set)
    rows = clip_set.rows
    spec = spec or clip_set.name
    folder = out / folder_name(spec)
    if isinstance(clip_set, Packed) and clip_set.folder.resolve() == folder.resolve():
        raise UsageError(f"Expected another folder than the pack that is read, but got {out}. Name a new one.")
    _begin_root(out)
    folder.mkdir(exist_ok=True)
    facts = {
        "format": FORMAT,
        "set": spec,
        "name": clip_set.name,
        "list_hash": clip_set.list_hash(),
        "limit": limit,
        "rows": len(rows),
    }
    with _alone(folder):
        note = {**facts, "settings": to_json(settings)}
        _begin(folder, note, force)
        there = _kept(folder, rows, settings, workers)
        shards: list[ShardInfo] = []
        with closing(_Work(Source(clip_set, settings), note, folder, there, workers, report)) as work:
            for number in range(len(there)):
                shards.append(work.shard(number))
                if len(work.failed) > max_failed * len(rows):
                    break
        finished = len(work.failed) <= max_failed * len(rows)
        done = sum(shard.rows for shard in shards)
        values = {**facts, "rows": done, "settings": settings, "shards": tuple(shards), "failed": tuple(work.failed)}
        manifest = Manifest(**values)  # type: ignore[arg-type]
        if finished:
            _write(folder / MANIFEST, asdict(manifest))
            (folder / BEGUN).unlink(missing_ok=True)
        return Outcome(folder, manifest, finished, work.kept)


class _Work:
    """Goes through the shards in order, with the clips that must be read on their way from the workers."""

    def __init__(
        self,
        source: Source,
        note: dict[str, object],
        folder: Path,
        there: Sequence[_Kept | None],
        workers: int,
        report: Report | None,
    ) -> None:
        self.failed: list[Failed] = []
        rows = source.clip_set.rows
        self._rows, self._note, self._folder, self._there, self._report = rows, note, folder, there, report
        self._size = source.settings.shard_rows
        todo = [i for number in range(len(there)) for i in self._missing(number)]
        self._clips = in_order(store, source, todo, workers, name=lambda i: rows[i].id)
        self.kept, self._read, self._begun = len(rows) - len(todo), 0, 0.0

    def shard(self, number: int) -> ShardInfo:
        """Shard `number`, made where it is not there; what failed in it is noted."""
        first = number * self._size
        rows = self._rows[first : first + self._size]
        kept, missing = self._there[number], self._missing(number)
        if kept is not None and not missing:
            self._tell(0)
            return kept.info
        old = Shard(shard_path(self._folder, number), first, len(rows)) if kept is not None else None
        clips = {} if old is None else {i: old.stored(i - first) for i in range(first, first + len(rows))}
        changed = kept is None
        for i in missing:
            clip = next(self._clips)
            changed = changed or clip.failed != clips[i].failed
            clips[i] = clip
            self.failed += [Failed(i, self._rows[i].id, clip.failed)] if clip.failed else []
            self._tell(1)
        if kept is not None and not changed:
            return kept.info
        data = encode(first, rows, [clips[i] for i in range(first, first + len(rows))])
        if (self._folder / MANIFEST).is_file():
            # A pack that was finished is not while a shard of it is changed.
            _write(self._folder / BEGUN, self._note)
            (self._folder / MANIFEST).unlink()
        write_bytes(shard_path(self._folder, number), data)
        return ShardInfo(len(rows), data.size, hashlib.sha256(data).hexdigest())

    def close(self) -> None:
        """Stop the workers."""
        self._clips.close()

    def _missing(self, number: int) -> list[int]:
        first, kept = number * self._size, self._there[number]
        every = range(first, min(first + self._size, len(self._rows)))
        return list(every) if kept is None else [first + at for at in kept.failed]

    def _tell(self, more: int) -> None:
        self._read += more
        if self._read <= 1:
            self._begun = time.monotonic()  # what it took to start the workers says nothing of those to come
        if self._report is not None:
            rate = max(self._read - 1, 0) / max(time.monotonic() - self._begun, 1e-9)
            self._report(self.kept + self._read, len(self._rows), rate)


def _kept(folder: Path, rows: Sequence[Row], settings: Settings, workers: int) -> list[_Kept | None]:
    """Of each shard, what is there from before."""
    numbers = range(-(-len(rows) // settings.shard_rows))
    there = [number for number in numbers if shard_path(folder, number).is_file()]
    found = in_order(_keep, (folder, rows, settings), there, workers if there else 0, chunk=1)
    kept = dict(zip(there, found, strict=True))
    return [kept.get(number) for number in numbers]


def _keep(common: tuple[Path, Sequence[Row], Settings], number: int) -> _Kept | None:
    """A shard that is there from before, when it has the very bytes that its clips would be written with now."""
    folder, rows, settings = common
    first = number * settings.shard_rows
    wanted = rows[first : first + settings.shard_rows]
    path = shard_path(folder, number)
    try:
        shard = Shard(path, first, len(wanted))
        clips = [shard.stored(at) for at in range(len(wanted))]
    except DataError:
        return None
    data = encode(first, wanted, clips)
    with path.open("rb") as file:
        sha256 = hashlib.file_digest(file, "sha256").hexdigest()
    if hashlib.sha256(data).hexdigest() != sha256:
        return None
    failed = tuple(at for at, clip in enumerate(clips) if clip.failed)
    return _Kept(ShardInfo(len(wanted), data.size, sha256), failed)


def _begin_root(out: Path) -> None:
    """Make the folder of a pack, or find that this is one."""
    if out.exists() and not out.is_dir():
        raise UsageError(f"Expected a folder for the pack, but got the file {out}. Name another place.")
    out.mkdir(parents=True, exist_ok=True)
    if is_pack(out):
        return
    there = list(out.iterdir())
    others = sorted(path.name for path in there if not is_part(path))
    if others:
        raise UsageError(
            f"Expected a new or an empty folder, or a pack, but {out} has {', '.join(others[:3])} in it. "
            "Name another folder."
        )
    for path in there:
        path.unlink()
    write_text(out / MARK, "A pack of earsight: give this folder as --data. earsight show tells what is in it.\n")


def _begin(folder: Path, facts: dict[str, object], force: bool) -> None:
    """Note what is being packed, once what is there is known to be of the same kind; clear half-written files."""
    for path in folder.iterdir():
        if is_part(path):
            path.unlink()
    notes = [folder / name for name in (MANIFEST, BEGUN) if (folder / name).is_file()]
    changed = [name for note in notes for name in _changed(note, facts)]
    if changed and not force:
        raise UsageError(
            f"Expected the clips and settings that {folder} was begun with, but got other "
            f"{', '.join(dict.fromkeys(changed))}. Use --force to pack it anew, or name another --out."
        )
    if changed or not notes:
        for path in [*notes, *folder.glob("shard-*.arrow")]:
            path.unlink()
        _write(folder / BEGUN, facts)


def _changed(note: Path, facts: dict[str, object]) -> list[str]:
    """Which of the facts are others in a note from before."""
    try:
        values = read_json(note)
    except DataError:
        values = {}
    return [name for name, value in facts.items() if values.get(name) != value]


def _write(path: Path, values: dict[str, object]) -> None:
    write_text(path, json.dumps(values, indent=1) + "\n")


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """No other process packs into this folder meanwhile; the lock ends with the process, however it ends."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise UsageError(
                f"Expected {folder} to be packed by one command, but another one is at it. Wait for it to end."
            ) from None
        except OSError:
            pass  # some network disks have no locks
        yield
    finally:
        os.close(handle)
