"""Makes packs. `make_shard` makes one file of a pack, and any number of processes may make several at a time.

The bytes of a pack depend on the clips and the settings alone, not on the number of processes or on how often the work
was interrupted. A shard appears whole or not at all. What is there when the work begins again is kept where it is what
was packed; only clips that are missing, damaged or failed are read, and a shard that they belong to is written again
whole. While it works, a note says what is being packed, so that nothing is taken for a part of it that is not, and
nothing deleted that is.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from PIL import Image

from earsight.config import need, to_json
from earsight.data.clips import ClipSet, sound_window
from earsight.data.manifest import (
    BEGUN,
    FORMAT,
    MANIFEST,
    MARK,
    Failed,
    Manifest,
    Part,
    Settings,
    ShardInfo,
    folder_name,
    is_pack,
    read_json,
    shard_path,
)
from earsight.data.pack import LONGEST, Packed
from earsight.data.parallel import in_order
from earsight.data.shard import LETTERS, Shard, Stored, encode, sound_row
from earsight.data.view import resized
from earsight.errors import DataError, MediaError, UsageError
from earsight.files import is_part, sha256, write_bytes, write_text
from earsight.types import U8, Row, floats

LONGEST_NAME = LETTERS // 4
"""Letters of a name, or of why a clip failed; in UTF-8 each takes up to four bytes."""
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


class Source(NamedTuple):
    """What is packed and where.

    Args:
        clips: of the split.
        settings: how they are packed.
        folder: of the split.
        note: what BEGUN holds while the work goes on.
        read: called whenever a clip was read, where one process does it all.
    """

    clips: ClipSet
    settings: Settings
    folder: Path
    note: dict[str, Any]
    read: Callable[[], None] | None = None


class Made(NamedTuple):
    """A shard that is there now, the clips of it that could not be read, and how many were not read anew."""

    info: ShardInfo
    failed: tuple[Failed, ...]
    kept: int


def pack(
    part: Part,
    out: Path,
    *,
    workers: int = 0,
    max_failed: float = 0.05,
    force: bool = False,
    report: Report | None = None,
) -> Outcome:
    """Pack clips into their folder inside `out`, or go on with that.

    When more than the share `max_failed` of the clips cannot be read, the work stops after the shard at which that is
    certain. What was packed is kept, and the next time only the failed clips and those that follow are read.
    """
    need(0 <= max_failed <= 1, "max_failed between 0 and 1", max_failed)
    clips, settings = part.clips, part.settings
    _need_packable(clips)
    folder, total = out / folder_name(part.spec), len(clips)
    if isinstance(clips.origin, Packed) and clips.origin.folder.resolve() == folder.resolve():
        raise UsageError(f"Expected another folder than the pack that is read, but got {out}. Name a new one.")
    _begin_pack(out)
    folder.mkdir(exist_ok=True)
    facts: dict[str, Any] = {"format": FORMAT, "set": part.spec, "name": clips.name, "list_hash": clips.list_hash()}
    note = {**facts, "limit": part.limit, "rows": total, "settings": to_json(settings)}
    made: list[Made] = []
    pace = _Pace(total, report)
    with _alone(folder):
        _begin_split(folder, note, force)
        source = Source(clips, settings, folder, note, pace.read if workers == 0 else None)
        numbers = range(-(-total // settings.shard_rows))

        def name(number: int) -> str:
            return clips.rows[number * settings.shard_rows].id

        failed: list[Failed] = []
        with closing(in_order(make_shard, source, numbers, workers, name=name, chunk=1)) as shards:
            for shard in shards:
                made.append(shard)
                failed += shard.failed
                pace.made(shard)
                if len(failed) > max_failed * total:
                    break
        finished = len(failed) <= max_failed * total
        infos = tuple(one.info for one in made)
        rows = sum(info.rows for info in infos)
        manifest = Manifest(**facts, limit=part.limit, rows=rows, settings=settings, shards=infos, failed=tuple(failed))
        if finished:
            _write_note(folder / MANIFEST, asdict(manifest))
            (folder / BEGUN).unlink(missing_ok=True)
    return Outcome(folder, manifest, finished, sum(one.kept for one in made))


class _Pace:
    """Reports what is done, and how many clips a second are read."""

    def __init__(self, total: int, report: Report | None) -> None:
        self._total, self._report, self._begun = total, report, time.monotonic()
        self._done = self._new = self._beyond = 0

    def read(self) -> None:
        """One more clip of the shard that is being made was read."""
        self._beyond += 1
        self._tell()

    def made(self, shard: Made) -> None:
        self._done, self._new, self._beyond = self._done + shard.info.rows, self._new + shard.info.rows - shard.kept, 0
        self._tell()

    def _tell(self) -> None:
        if self._report is not None:
            rate = (self._new + self._beyond) / max(time.monotonic() - self._begun, 1e-9)
            self._report(self._done + self._beyond, self._total, rate)


def make_shard(source: Source, number: int) -> Made:
    """Make one shard, of what is there from before and what must be read; a file with the right bytes is left alone."""
    first = number * source.settings.shard_rows
    rows = source.clips.rows[first : first + source.settings.shard_rows]
    path = shard_path(source.folder, number)
    old = _clips_in(path, first, rows) if path.is_file() else None
    clips: list[Stored] = []
    for at in range(len(rows)):
        there = old[at] if old is not None else None
        if there is not None and not there.failed:
            clips.append(there)
            continue
        clips.append(_read(source, first + at))
        if source.read is not None:
            source.read()
    hurt = [clips[at].failed for at, there in enumerate(old or ()) if there is None]
    if hurt and all(hurt):  # perhaps only the media are away
        raise DataError(
            f"Expected to read the {len(hurt)} damaged clips of {path} again, but none could be read ({hurt[0]}). "
            "The file is left as it is. Look whether --data has the media; if these clips are gone for good, delete "
            "the file, and what can be read of it is packed anew."
        )
    data = encode(first, rows, clips)
    hashed = hashlib.sha256(data).hexdigest()
    if old is None or hashed != sha256(path):
        if (source.folder / MANIFEST).is_file():  # a pack that was finished is not while a shard of it is changed
            _write_note(source.folder / BEGUN, source.note)
            (source.folder / MANIFEST).unlink(missing_ok=True)
        write_bytes(path, data)
    failed = tuple(Failed(first + at, rows[at].id, clip.failed) for at, clip in enumerate(clips) if clip.failed)
    kept = sum(there is not None and not there.failed for there in old or ())
    return Made(ShardInfo(len(rows), data.size, hashed), failed, kept)


def _clips_in(path: Path, first: int, rows: Sequence[Row]) -> list[Stored | None]:
    """The clips of a shard from before; None in place of those that are not what was packed."""
    try:
        shard = Shard(path, first, len(rows))
        clips = [shard.stored(at) for at in range(len(rows))]
    except DataError:
        return [None] * len(rows)
    return [clip if shard.whole(at, rows[at], clip) else None for at, clip in enumerate(clips)]


def _read(source: Source, index: int) -> Stored:
    """Read one clip and make of it what a shard holds: its picture small and JPEG, its sound 16-bit, or why not."""
    settings = source.settings
    try:
        clip = source.clips.read(index, settings.rate, settings.seconds)
        if clip.rate != settings.rate:
            raise DataError(
                f"Expected {clip.id} at {settings.rate} samples per second, but its set gave {clip.rate}. "
                "Let its read() give what it is asked for."
            )
        _, height, width = clip.frame.shape
        scale = min(1.0, settings.size / min(height, width))
        height, width = max(1, round(height * scale)), max(1, round(width * scale))
        if max(height, width) > LONGEST:
            raise MediaError(
                clip.id, f"has a picture of {width} x {height}, and JPEG ends at {LONGEST}.", "Cut the picture."
            )
    except MediaError as error:
        return Stored(np.zeros(0, np.uint8), 0, 0, np.zeros(0, np.int16), 0.0, _text(str(error))[:LONGEST_NAME])
    frame = np.frombuffer(encode_jpeg(resized(clip.frame, height, width).numpy(), settings.quality), np.uint8)
    start, stop, moment = sound_window(len(clip.waveform), clip.time, settings.rate, settings.seconds)
    scaled = np.round(np.nan_to_num(floats(clip.waveform[start:stop]), posinf=1, neginf=-1) * 32768)
    return Stored(frame, height, width, np.clip(scaled, -32768, 32767).astype("<i2"), float(moment))


def encode_jpeg(picture: U8, quality: int) -> bytes:
    """A JPEG file of a picture uint8 (3, H, W)."""
    file = io.BytesIO()
    Image.fromarray(np.ascontiguousarray(picture.transpose(1, 2, 0))).save(file, "JPEG", quality=quality)
    return file.getvalue()


def _text(text: str) -> str:
    """Text that UTF-8 can hold; names of files may be of other bytes."""
    return text.encode("utf-8", "backslashreplace").decode()


def _need_packable(clips: ClipSet) -> None:
    """Refuse rows that would not come back from a pack as the same list."""
    if len(clips) == 0:
        raise DataError(f"Expected clips in {clips.name}, but got none. Name another split.")
    for row in clips.rows:
        names = (row.id, row.label, row.kind, row.picture, row.sound)
        texts = all(len(name) <= LONGEST_NAME and name == _text(name) for name in names)
        numbers = all(isinstance(value, float) for box in row.boxes for value in box)
        if not (texts and numbers and len(row.boxes) <= LONGEST_NAME and sound_row(row)):
            raise DataError(
                f"Expected names in Unicode of at most {LONGEST_NAME} letters, boxes of finite floats and a consensus "
                f"of at least 1 in {clips.name}, but got another row for {_text(row.id)[:80]}. Correct the list."
            )


def _begin_pack(out: Path) -> None:
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


def _begin_split(folder: Path, facts: dict[str, Any], force: bool) -> None:
    """Note what is being packed, once what is there is known to be of the same kind; clear half-written files."""
    for path in folder.iterdir():
        if is_part(path):
            path.unlink()
    notes = [folder / name for name in (MANIFEST, BEGUN) if (folder / name).is_file()]
    shards = list(folder.glob("shard-*.arrow"))
    if shards and not notes and not force:
        raise UsageError(
            f"Expected {MANIFEST} or {BEGUN} beside the shards of {folder}, to know what they hold, but got neither. "
            "Put it back, use --force to pack all clips anew, or name another --out."
        )
    changed = [name for name in facts if any(_noted(note, name) != facts[name] for note in notes)]
    if changed and not force:
        raise UsageError(
            f"Expected the clips and settings that {folder} was begun with, but got other {', '.join(changed)}. "
            "Use --force to pack it anew, or name another --out."
        )
    if changed or not notes:
        for path in [*shards, *notes]:  # in this order: shards without a note would not be known for what they are
            path.unlink()
        _write_note(folder / BEGUN, facts)


def _noted(note: Path, name: str) -> Any:
    """A fact of a note from before; None where it cannot be read."""
    try:
        return read_json(note).get(name)
    except DataError:
        return None


def _write_note(path: Path, values: dict[str, Any]) -> None:
    write_text(path, json.dumps(values, indent=1) + "\n")


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """No other process packs into this folder meanwhile; the lock ends with the process, however it ends."""
    try:
        import fcntl
    except ImportError:  # Windows
        yield
        return
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
