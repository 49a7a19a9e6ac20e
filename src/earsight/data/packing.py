"""Makes packs: clips are read in several processes and written by one, shard after shard, so that it can be killed.

The bytes of a pack depend on the clips and the settings alone, not on the number of processes or on how often the work
was interrupted. A shard appears whole or not at all; what is there when the work begins again is kept where it is what
was packed, and only clips that are missing, damaged or failed are read again.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import NamedTuple

from earsight.config import need, to_json
from earsight.data.clips import ClipSet
from earsight.data.manifest import (
    BEGUN,
    FORMAT,
    MANIFEST,
    Failed,
    Manifest,
    Settings,
    ShardInfo,
    folder_name,
    shard_path,
)
from earsight.data.pack import Packed
from earsight.data.pack_folder import alone, begin, begin_root, write_note
from earsight.data.parallel import in_order
from earsight.data.shard import Shard, Stored, encode
from earsight.data.storing import Source, need_packable, store
from earsight.errors import DataError, UsageError
from earsight.files import write_bytes
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
    """A shard that is there already.

    Args:
        info: its size and hash; None where it has other bytes than its clips would be written with.
        failed: the places of clips that could not be read.
        damaged: the places of clips that are not what was packed.
    """

    info: ShardInfo | None
    failed: tuple[int, ...]
    damaged: tuple[int, ...]


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
    if isinstance(clip_set.origin, Packed) and clip_set.origin.folder.resolve() == folder.resolve():
        raise UsageError(f"Expected another folder than the pack that is read, but got {out}. Name a new one.")
    begin_root(out)
    folder.mkdir(exist_ok=True)
    facts = {
        "format": FORMAT,
        "set": spec,
        "name": clip_set.name,
        "list_hash": clip_set.list_hash(),
        "limit": limit,
        "rows": len(rows),
    }
    with alone(folder):
        note = {**facts, "settings": to_json(settings)}
        begin(folder, note, force)
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
            write_note(folder / MANIFEST, asdict(manifest))
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
        info = None if kept is None else kept.info
        if info is not None and not missing:
            self._tell(0)
            return info
        old = {} if kept is None else self._old(number, len(rows), kept)
        clips = old.copy()
        for i in missing:
            clip = clips[i] = next(self._clips)
            self.failed += [Failed(i, self._rows[i].id, clip.failed)] if clip.failed else []
            self._tell(1)
        if info is not None and all(clips[i].failed == old[i].failed for i in missing):
            return info
        if kept is not None:
            self._need_mended(number, [clips[first + at].failed for at in kept.damaged])
        data = encode(first, rows, [clips[i] for i in range(first, first + len(rows))])
        if (self._folder / MANIFEST).is_file():
            # A pack that was finished is not while a shard of it is changed.
            write_note(self._folder / BEGUN, self._note)
            (self._folder / MANIFEST).unlink()
        write_bytes(shard_path(self._folder, number), data)
        return ShardInfo(len(rows), data.size, hashlib.sha256(data).hexdigest())

    def _old(self, number: int, count: int, kept: _Kept) -> dict[int, Stored]:
        """The clips of a shard that are what was packed."""
        if len(kept.damaged) == count:
            return {}
        first = number * self._size
        shard = Shard(shard_path(self._folder, number), first, count)
        return {first + at: shard.stored(at) for at in range(count) if at not in kept.damaged}

    def _need_mended(self, number: int, failed: list[str]) -> None:
        """Refuse to put failures in place of all that is damaged: perhaps only the media are away."""
        if failed and all(failed):
            path = shard_path(self._folder, number)
            raise DataError(
                f"Expected to read the {len(failed)} damaged clips of {path} again, but none could be read "
                f"({failed[0]}). The file is left as it is. Look whether --data has the media; if these clips are "
                "gone for good, delete the file, and what can be read of it is packed anew."
            )

    def close(self) -> None:
        """Stop the workers."""
        self._clips.close()

    def _missing(self, number: int) -> list[int]:
        first, kept = number * self._size, self._there[number]
        every = range(first, min(first + self._size, len(self._rows)))
        return list(every) if kept is None else sorted(first + at for at in (*kept.failed, *kept.damaged))

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


def _keep(common: tuple[Path, Sequence[Row], Settings], number: int) -> _Kept:
    """What is to be kept of a shard that is there from before."""
    folder, rows, settings = common
    first = number * settings.shard_rows
    wanted = rows[first : first + settings.shard_rows]
    path = shard_path(folder, number)
    try:
        shard = Shard(path, first, len(wanted))
        clips = [shard.stored(at) for at in range(len(wanted))]
    except DataError:
        return _Kept(None, (), tuple(range(len(wanted))))
    whole = [shard.whole(at, row, clip) for at, (row, clip) in enumerate(zip(wanted, clips, strict=True))]
    failed = tuple(at for at, clip in enumerate(clips) if clip.failed and whole[at])
    damaged = tuple(at for at, right in enumerate(whole) if not right)
    if damaged:
        return _Kept(None, failed, damaged)
    data = encode(first, wanted, clips)
    with path.open("rb") as file:
        sha256 = hashlib.file_digest(file, "sha256").hexdigest()
    same = hashlib.sha256(data).hexdigest() == sha256
    return _Kept(ShardInfo(len(wanted), data.size, sha256) if same else None, failed, ())
