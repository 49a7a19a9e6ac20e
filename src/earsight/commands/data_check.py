"""`earsight data check`: every clip of a set or a pack is looked at; what is wrong is counted, named and listed."""

from __future__ import annotations

from pathlib import Path

from earsight.commands.data_check_pack import check_packs, packs_of
from earsight.commands.screen import columns, note, progress, say, say_json
from earsight.config import need
from earsight.data.check import FAILURES, KINDS, Findings, check
from earsight.data.clips import missing_list, open_set, with_split
from earsight.data.files import lines
from earsight.escape import visible
from earsight.files import refuse_existing, write_csv, write_text

SHOWN = 10
PROBLEMS, GOOD = "problems.csv", "good.txt"


def run(
    spec: str,
    *,
    data: Path | None = None,
    workers: int = 0,
    limit: int = 0,
    out: Path | None = None,
    force: bool = False,
    json: bool = False,
) -> int:
    """Exit code 1 when a clip is missing or unreadable, 0 when there are only remarks. Packs: data_check_pack.py."""
    folders = packs_of(spec, data)
    if folders:
        need(out is None and limit == 0, "a pack to be checked as a whole", "--out or --limit", "Leave it out.")
        return check_packs(folders, workers=workers, json=json)
    if out is not None:
        refuse_existing([out / PROBLEMS, out / GOOD], force)
    if not set(":+") & set(spec) and missing_list(with_split(spec), data):
        spec = with_split(spec, "train")  # pairs of one's own need no test list
    clip_set = open_set(spec, data)
    for told in clip_set.notes:
        note(told)
    if any(row.positive for row in clip_set.rows) and not any(row.boxes for row in clip_set.rows):
        note(f"no clip of {clip_set.name} has boxes: it can be trained on, and not evaluated")
    with progress(f"looking at {clip_set.name}") as report:
        found = check(clip_set, workers=workers, limit=limit, progress=report)
    if json:
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
        _write(out, found)
        note(f"all problems and the good clips: {out}")
    return int(found.failed > 0)


def page(found: Findings, clips: int) -> str:
    """Counts of everything that was looked for, then the first clips of each kind of problem."""
    of = "" if found.looked == clips else f" of {clips}"
    table = [(kind, f"{found.counts.get(kind, 0):>6}", about) for kind, about in KINDS.items()]
    head = f"{found.name}: {found.looked}{of} clips, {found.looked - found.failed} without a problem"
    head += f", {found.remarked} of them with remarks" if found.remarked else ""
    said = [head, "", *columns(table).split("\n")]
    for kind in found.counts:
        named = [problem for problem in found.problems if problem.kind == kind]
        said += ["", f"{kind}{'' if kind in FAILURES else ' (remark)'}:"]
        said += [f"  {problem.id}: {problem.detail}" for problem in named[:SHOWN]]
        said += [f"  and {len(named) - SHOWN} more"] if len(named) > SHOWN else []
    return "\n".join(map(visible, said))


def _write(out: Path, found: Findings) -> None:
    problems = ((problem.id, problem.kind, problem.detail) for problem in found.problems)
    write_csv(out / PROBLEMS, ("id", "problem", "detail"), problems)
    write_text(out / GOOD, lines(found.good))
