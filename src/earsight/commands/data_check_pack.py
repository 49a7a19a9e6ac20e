"""`earsight data check` of a pack: every shard against its hash, every clip against its digest; damage is named."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from earsight import registry
from earsight.commands.screen import progress, say, say_json
from earsight.data.clips import with_split
from earsight.data.manifest import is_pack, splits_in
from earsight.data.pack import find
from earsight.data.pack_check import Verified, verify
from earsight.errors import DataError
from earsight.escape import visible

SHOWN = 10


def packs_of(spec: str, data: Path | None) -> list[Path]:
    """The folders of packed splits that a command means: of PACK all, of SET with a pack as its data that one."""
    if data is not None and is_pack(data) and "+" not in spec:
        name, _, split = with_split(spec).partition(":")
        module = registry.load("set", name)
        if hasattr(module, "plan"):  # its pictures and sounds are packed apart
            return list[Path](module.tables(split, data))
    if data is not None:
        folder = find(data, with_split(spec)) if "+" not in spec else None
        return [folder] if folder is not None else []
    path = Path(spec)
    if spec in registry.names("set") or not path.is_dir():
        return []
    folders = splits_in(path)
    if not folders and is_pack(path):
        raise DataError(f"Expected packed sets in {path}, but got none. Run earsight data prepare.")
    return folders


def check_packs(folders: Sequence[Path], *, workers: int, json: bool) -> int:
    """Exit code 1 when anything is damaged, missing or not finished."""
    found = []
    for folder in folders:
        with progress(f"looking at {folder}") as report:
            found.append(verify(folder, workers=workers, progress=report))
    if json:
        say_json([values(one) for one in found])
    else:
        say("\n".join(page(one) for one in found))
    return int(any(one.damages for one in found))


def page(found: Verified) -> str:
    """What is damaged, shard by shard with the first clips of each, then what could not be packed at all."""
    made = found.manifest
    size = "" if made is None else f", {made.rows} clips in {len(made.shards)} shard{'s'[: len(made.shards) != 1]}"
    state = f"{len(found.damages)} damaged" if found.damages else "all as it was packed"
    said = [f"{found.folder}: {found.name}{size}: {state}"]
    for damage in found.damages:
        said.append(f"  {damage.shard} {damage.detail}")
        said += [f"    {id}" for id in damage.clips[:SHOWN]]
        said += [f"    and {len(damage.clips) - SHOWN} more"] if len(damage.clips) > SHOWN else []
    if found.failed:
        said.append(f"  not packed, since they could not be read (remark): {len(found.failed)}")
        said += [f"    {failed.id}: {failed.reason}" for failed in found.failed[:SHOWN]]
        said += [f"    and {len(found.failed) - SHOWN} more"] if len(found.failed) > SHOWN else []
    return "\n".join(map(visible, said))


def values(found: Verified) -> dict[str, Any]:
    """The same for programs, with all clips."""
    made = found.manifest
    return {
        "set": found.name,
        "folder": str(found.folder),
        "clips": 0 if made is None else made.rows,
        "shards": 0 if made is None else len(made.shards),
        "damages": [vars(damage) | {"clips": list(damage.clips)} for damage in found.damages],
        "failed": [vars(failed) for failed in found.failed],
    }
