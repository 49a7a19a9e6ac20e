"""`earsight data prepare`: sets become packs, which are read many times faster; started again, it goes on."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from earsight import registry
from earsight.commands.screen import Report, note, progress, say, say_json
from earsight.config import need, need_workers
from earsight.data.clips import open_set, with_split
from earsight.data.manifest import Settings, is_pack
from earsight.data.packing import Outcome, pack
from earsight.data.plan import Part, Plan
from earsight.escape import visible
from earsight.files import write_text
from earsight.training.log import clips_per_second

SHOWN = 10


def run(
    specs: tuple[str, ...],
    *,
    out: Path,
    data: Path | None = None,
    coco: Path | None = None,
    esc50: Path | None = None,
    size: int = 256,
    rate: int = 22050,
    seconds: float = 3.0,
    quality: int = 92,
    shard_rows: int = 512,
    workers: int = 0,
    limit: int = 0,
    max_failed: float = 0.05,
    force: bool = False,
    json: bool = False,
) -> int:
    """Exit code 1 when too many clips of a set could not be read; what could be packed is kept then."""
    settings = Settings(size, rate, seconds, quality, shard_rows)
    need_workers(workers)
    need(0 <= max_failed <= 1, "max_failed between 0 and 1", max_failed)
    need(len(specs) > 0, "at least one set", "none", "Name one (earsight list sets).")
    same = data is not None and not is_pack(data) and out.exists() and out.resolve() == data.resolve()
    need(not same, "another folder for the pack than that of the data", out, "Name a new one with --out.")
    plans = [plan_of(spec, settings, data=data, coco=coco, esc50=esc50, limit=limit) for spec in specs]
    outcomes = []
    for plan in plans:
        for part in plan.parts:
            for told in part.clips.notes:
                note(told)
            with progress(f"packing {part.spec}") as report:
                outcome = pack(
                    part.clips,
                    out,
                    part.settings,
                    spec=part.spec,
                    limit=part.limit,
                    workers=workers,
                    max_failed=max_failed,
                    force=force,
                    report=telling(part.spec, report),
                )
            outcomes.append((outcome, len(part.clips)))
            if not json:
                say(page(*outcomes[-1]))
            if not outcome.finished:
                note(
                    f"{part.spec} is not finished: more than {max_failed:.0%} of its clips cannot be read. What was "
                    "packed is kept: mend them and run the same command again, or allow more with --max-failed."
                )
        for name, text in plan.texts().items():
            write_text(out / name, text)
    if json:
        say_json([values(*one) for one in outcomes])
    return int(not all(outcome.finished for outcome, _ in outcomes))


def plan_of(
    spec: str, settings: Settings, *, data: Path | None, coco: Path | None, esc50: Path | None, limit: int
) -> Plan:
    """What to pack for a set: its clips as they are, or what it says itself where it is packed in another way."""
    need("+" not in spec, "a set without negatives of a csv file", spec, "They are added when the pack is opened.")
    need(limit >= 0, "a limit of at least 1, or 0 for all clips", limit)
    name, _, split = spec.partition(":")
    module = registry.load("set", name)
    if hasattr(module, "plan"):
        split = with_split(spec).partition(":")[2] if split else ""
        plan: Plan = module.plan(split, settings, data=data, coco=coco, esc50=esc50, limit=limit)
        return plan
    need(coco is None and esc50 is None, "--coco and --esc50 with coco_esc alone", f"them with {name}", "Use --data.")
    spec = named(spec)
    return Plan((Part(spec, open_set(spec, data, limit=limit), settings, limit),))


def named(spec: str) -> str:
    """The "set:split" of a name: without a split what one trains on, or tests on where there is no such split."""
    name, _, split = spec.partition(":")
    role = "train" if split or registry.load("set", name).DEFAULTS.get("train") else "test"
    return with_split(spec, role)


def telling(name: str, report: Report) -> Callable[[int, int, float], None]:
    """Tells progress with the rate and the time that is left."""

    def tell(done: int, total: int, rate: float) -> None:
        pace = f", {clips_per_second(rate)}, {_clock((total - done) / rate)} left" if rate > 0 else ""
        report(done, total, f"packing {name}{pace}")

    return tell


def page(outcome: Outcome, clips: int) -> str:
    """What was packed, then the first clips that were not."""
    made, failed = outcome.manifest, outcome.manifest.failed
    done = f"{made.rows - len(failed)} of {clips} clips packed" + (f", {outcome.kept} before" if outcome.kept else "")
    files = f"{len(made.shards)} shard{'s'[: len(made.shards) != 1]}, {made.bytes / 1e6:.1f} MB in {outcome.folder}"
    said = [f"{made.set}: {done}, {files}"]
    if failed:
        said += [f"not packed: {len(failed)}", *(f"  {one.id}: {one.reason}" for one in failed[:SHOWN])]
        said += [f"  and {len(failed) - SHOWN} more"] if len(failed) > SHOWN else []
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


def _clock(seconds: float) -> str:
    """Time in words.

    >>> _clock(75), _clock(7322)
    ('1:15', '2:02:02')
    """
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"
