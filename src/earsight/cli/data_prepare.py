"""`earsight data prepare`: sets become packs, which are read many times faster; started again, it goes on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro

from earsight import registry
from earsight.cli.screen import Report, clock, first, note, progress, say, say_json
from earsight.cli.settings import Data, Json, Switch, require, word
from earsight.config import need, need_workers
from earsight.escape import visible
from earsight.files import write_text

if TYPE_CHECKING:
    from earsight.data.manifest import Plan, Settings
    from earsight.data.packing import Outcome

SHOWN = 10


@dataclass(frozen=True, kw_only=True)
class DataPrepare:
    """Pack sets into a few large files that are read many times faster; killed and started again, it goes on."""

    specs: Annotated[tuple[str, ...], tyro.conf.Positional, word("SET")]
    """NAME or NAME:SPLIT (earsight list sets); without a split, what one trains on."""
    data: Data = None
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
    shard_rows: Annotated[int, word("N", default=None)] = 128
    """Clips in a file."""
    workers: int = 0
    """Processes that read clips, one a core; 0 reads in this one."""
    limit: Annotated[int, word("N")] = 0
    """Pack this many clips only, spread over the set."""
    max_failed: float = 0.05
    """Share of a set's clips that may be missing or unreadable; they are counted and named, never replaced."""
    force: Switch = False
    """Pack anew where other clips or settings were packed."""
    json: Json = False


def run(settings: DataPrepare) -> int:
    """Exit code 1 when too many clips of a set could not be read; what could be packed is kept then."""
    require("train", "pyarrow")
    from earsight.data.manifest import Settings, is_pack
    from earsight.data.packing import pack

    specs, data, out, max_failed = settings.specs, settings.data, settings.out, settings.max_failed
    form = Settings(settings.size, settings.rate, settings.seconds, settings.quality, settings.shard_rows)
    need_workers(settings.workers)
    need(len(specs) > 0, "at least one set", "none", "Name one (earsight list sets).")
    same = data is not None and not is_pack(data) and out.exists() and out.resolve() == data.resolve()
    need(not same, "another folder for the pack than that of the data", out, "Name a new one with --out.")
    plans = [plan_of(spec, form, settings) for spec in specs]
    outcomes = []
    for plan in plans:
        for part in plan.parts:
            for told in part.clips.notes:
                note(told)
            with progress(f"packing {part.spec}") as report:
                outcome = pack(
                    part,
                    out,
                    workers=settings.workers,
                    max_failed=max_failed,
                    force=settings.force,
                    report=telling(part.spec, report),
                )
            outcomes.append((outcome, len(part.clips)))
            if not settings.json:
                say(page(*outcomes[-1]))
            if not outcome.finished:
                note(
                    f"{part.spec} is not finished: more than {max_failed:.0%} of its clips cannot be read. What was "
                    "packed is kept: mend them and run the same command again, or allow more with --max-failed."
                )
        for name, text in plan.texts().items():
            write_text(out / name, text)
    if settings.json:
        say_json([values(*one) for one in outcomes])
    return int(not all(outcome.finished for outcome, _ in outcomes))


def plan_of(spec: str, form: Settings, settings: DataPrepare) -> Plan:
    """What to pack for a set: its clips as they are, or what it says itself where it is packed in another way."""
    from earsight.data.clips import open_set, with_split
    from earsight.data.manifest import Part, Plan

    data, coco, esc50, limit = settings.data, settings.coco, settings.esc50, settings.limit
    need("+" not in spec, "a set without negatives of a csv file", spec, "They are added when the pack is opened.")
    need(limit >= 0, "a limit of at least 1, or 0 for all clips", limit)
    name, _, split = spec.partition(":")
    module = registry.load("set", name)
    if hasattr(module, "plan"):
        split = with_split(spec).partition(":")[2] if split else ""
        plan: Plan = module.plan(split, form, data=data, coco=coco, esc50=esc50, limit=limit)
        return plan
    need(coco is None and esc50 is None, "--coco and --esc50 with coco_esc alone", f"them with {name}", "Use --data.")
    # Without a split what one trains on, or tests on where there is no such split.
    spec = with_split(spec, "train" if split or module.DEFAULTS.get("train") else "test")
    return Plan((Part(spec, open_set(spec, data, limit=limit), form, limit),))


def telling(name: str, report: Report) -> Callable[[int, int, float], None]:
    """Tells progress with the rate and the time that is left."""
    from earsight.training.log import clips_per_second

    def tell(done: int, total: int, rate: float) -> None:
        pace = f", {clips_per_second(rate)}, {clock((total - done) / rate)} left" if rate > 0 else ""
        report(done, total, f"packing {name}{pace}")

    return tell


def page(outcome: Outcome, clips: int) -> str:
    """What was packed, then the first clips that were not."""
    made, failed = outcome.manifest, outcome.manifest.failed
    done = f"{made.rows - len(failed)} of {clips} clips packed" + (f", {outcome.kept} before" if outcome.kept else "")
    files = f"{len(made.shards)} shard{'s'[: len(made.shards) != 1]}, {made.bytes / 1e6:.1f} MB in {outcome.folder}"
    said = [f"{made.set}: {done}, {files}"]
    if failed:
        said += [f"not packed: {len(failed)}", *first([f"{one.id}: {one.reason}" for one in failed], SHOWN)]
    return "\n".join(map(visible, said))


def values(outcome: Outcome, clips: int) -> dict[str, Any]:
    """The same for programs, with all clips that failed."""
    made = outcome.manifest
    return {
        "set": made.set,
        "folder": str(outcome.folder),
        "finished": outcome.finished,
        "clips": clips,
        "packed": made.rows - len(made.failed),
        "before": outcome.kept,
        "shards": len(made.shards),
        "bytes": made.bytes,
        "failed": [vars(one) for one in made.failed],
    }
