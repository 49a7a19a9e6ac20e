"""The folder that a pack is made in: nothing else is in it, and one command at a time works there.

A note says what is being packed, so that nothing is taken for a part of it that is not, and nothing deleted that is.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from earsight.data.manifest import BEGUN, MANIFEST, MARK, is_pack, read_json
from earsight.errors import DataError, UsageError
from earsight.files import is_part, write_text


def begin_root(out: Path) -> None:
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


def begin(folder: Path, facts: dict[str, object], force: bool) -> None:
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
    changed = [name for note in notes for name in _changed(note, facts)]
    if changed and not force:
        raise UsageError(
            f"Expected the clips and settings that {folder} was begun with, but got other "
            f"{', '.join(dict.fromkeys(changed))}. Use --force to pack it anew, or name another --out."
        )
    if changed or not notes:
        for path in [*shards, *notes]:  # in this order: shards without a note would not be known for what they are
            path.unlink()
        write_note(folder / BEGUN, facts)


def _changed(note: Path, facts: dict[str, object]) -> list[str]:
    """Which of the facts are others in a note from before."""
    try:
        values = read_json(note)
    except DataError:
        values = {}
    return [name for name, value in facts.items() if values.get(name) != value]


def write_note(path: Path, values: dict[str, object]) -> None:
    """Write a note or a manifest."""
    write_text(path, json.dumps(values, indent=1) + "\n")


@contextmanager
def alone(folder: Path) -> Iterator[None]:
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
