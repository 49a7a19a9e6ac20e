"""`earsight data check`: every clip of a set or a pack is looked at; what is wrong is counted, named and listed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro

from earsight import registry
from earsight.cli.screen import columns, first, note, progress, say, say_json
from earsight.cli.settings import Data, Force, Json, require, word
from earsight.config import need
from earsight.errors import DataError
from earsight.escape import visible
from earsight.files import refuse_existing, write_csv, write_text

if TYPE_CHECKING:
    from earsight.data.check import Findings
    from earsight.data.pack import Verified

SHOWN = 10
PROBLEMS, GOOD = "problems.csv", "good.txt"


@dataclass(frozen=True, kw_only=True)
class DataCheck:
    """Look at every clip of a set: missing, unreadable, silent, still, duplicate, wrongly timed; of a pack: damaged."""

    spec: Annotated[str, tyro.conf.Positional, word("SET|PACK", default=None)]
    """NAME or NAME:SPLIT (earsight list sets), or the folder of a pack."""
    data: Data = None
    workers: int = 0
    """Processes that read clips; 0 reads in this one."""
    limit: Annotated[int, word("N")] = 0
    """Look at this many clips only, spread over the set."""
    out: Annotated[Path | None, word("DIR", "-o")] = None
    """Write what was found (csv) and the list of good clips here."""
    force: Force = False
    json: Json = False


def run(settings: DataCheck) -> int:
    """Exit code 1 when a clip is missing or unreadable, 0 when there are only remarks."""
    from earsight.data.check import KINDS, check
    from earsight.data.clips import missing_list, open_set, with_split
    from earsight.data.files import lines

    spec, data, out = settings.spec, settings.data, settings.out
    if folders := packs_of(spec, data):
        whole = out is None and settings.limit == 0
        need(whole, "a pack to be checked as a whole", "--out or --limit", "Leave it out.")
        return check_packs(folders, settings)
    if out is not None:
        refuse_existing([out / PROBLEMS, out / GOOD], settings.force)
    if not set(":+") & set(spec) and missing_list(with_split(spec), data):
        spec = with_split(spec, "train")  # pairs of one's own need no test list
    clip_set = open_set(spec, data)
    for told in clip_set.notes:
        note(told)
    if any(row.positive for row in clip_set.rows) and not any(row.boxes for row in clip_set.rows):
        note(f"no clip of {clip_set.name} has boxes: it can be trained on, and not evaluated")
    with progress(f"looking at {clip_set.name}") as report:
        found = check(clip_set, workers=settings.workers, limit=settings.limit, progress=report)
    if settings.json:
        say_json(
            {
                "set": found.name,
                "clips": len(clip_set),
                "looked_at": found.looked,
                "good": len(found.good),
                "remarked": found.remarked,
                "counts": {kind: found.counts.get(kind, 0) for kind in KINDS},
                "problems": [vars(problem) for problem in found.problems],
            }
        )
    else:
        say(page(found, len(clip_set)))
    if out is not None:
        problems = ((problem.id, problem.kind, problem.detail) for problem in found.problems)
        write_csv(out / PROBLEMS, ("id", "problem", "detail"), problems)
        write_text(out / GOOD, lines(found.good))
        note(f"all problems and the good clips: {out}")
    return int(found.failed > 0)


def page(found: Findings, clips: int) -> str:
    """Counts of everything that was looked for, then the first clips of each kind of problem."""
    from earsight.data.check import FAILURES, KINDS

    of = "" if found.looked == clips else f" of {clips}"
    table = [(kind, f"{found.counts.get(kind, 0):>6}", about) for kind, about in KINDS.items()]
    head = f"{found.name}: {found.looked}{of} clips, {found.looked - found.failed} without a problem"
    head += f", {found.remarked} of them with remarks" if found.remarked else ""
    said = [head, "", *columns(table).split("\n")]
    for kind in found.counts:
        said += ["", f"{kind}{'' if kind in FAILURES else ' (remark)'}:"]
        said += first([f"{one.id}: {one.detail}" for one in found.problems if one.kind == kind], SHOWN)
    return "\n".join(map(visible, said))


def packs_of(spec: str, data: Path | None) -> list[Path]:
    """The folders of packed splits that a command means: of PACK all, of SET with a pack as its data that one."""
    from earsight.data.clips import with_split
    from earsight.data.manifest import find, is_pack, splits_in

    if data is not None:
        if "+" in spec:
            return []
        name, _, split = with_split(spec).partition(":")
        module = registry.load("set", name)
        if is_pack(data) and hasattr(module, "plan"):  # its pictures and sounds are packed apart
            return list[Path](module.tables(split, data))
        folder = find(data, f"{name}:{split}")
        return [folder] if folder is not None else []
    path = Path(spec)
    if spec in registry.names("set") or not path.is_dir():
        return []
    folders = splits_in(path)
    if not folders and is_pack(path):
        raise DataError(f"Expected packed sets in {path}, but got none. Run earsight data prepare.")
    return folders


def check_packs(folders: Sequence[Path], settings: DataCheck) -> int:
    """Every shard against its hash, every clip against its digest; exit code 1 when anything is damaged, missing or not
    finished."""
    require("train", "pyarrow")
    from earsight.data.pack import verify

    found = []
    for folder in folders:
        with progress(f"looking at {folder}") as report:
            found.append(verify(folder, workers=settings.workers, progress=report))
    if settings.json:
        say_json([pack_values(one) for one in found])
    else:
        say("\n".join(map(pack_page, found)))
    return int(any(one.damages for one in found))


def pack_page(found: Verified) -> str:
    """What is damaged, shard by shard with the first clips of each, then what could not be packed at all."""
    made = found.manifest
    size = "" if made is None else f", {made.rows} clips in {len(made.shards)} shard{'s'[: len(made.shards) != 1]}"
    state = f"{len(found.damages)} damaged" if found.damages else "all as it was packed"
    said = [f"{found.folder}: {found.name}{size}: {state}"]
    for damage in found.damages:
        said.append(f"  {damage.shard} {damage.detail}")
        said += first(damage.clips, SHOWN, indent=4)
    if found.failed:
        said.append(f"  not packed, since they could not be read (remark): {len(found.failed)}")
        said += first([f"{failed.id}: {failed.reason}" for failed in found.failed], SHOWN, indent=4)
    return "\n".join(map(visible, said))


def pack_values(found: Verified) -> dict[str, Any]:
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
