"""`earsight train`: finds the settings a run starts from, and checks what was given against a run that goes on.

A method's settings are known only once its name is: so its name, the preset and the recipe are looked up first, and the
whole command line is parsed against the settings they give.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from earsight import protocols, registry
from earsight.commands.screen import flat, note, say
from earsight.config import Inputs, Optim, need
from earsight.errors import UsageError
from earsight.training.job import Job, deciding

SMOKE_BATCH = 8
"""Clips in a batch of a smoke test, at most."""
NONE = "none"
"""`--val none`: no validation."""
_SAME = ("on", "data", "val", "limit", "protocol", "false_alarm", "inputs", "optim", "supervision")
"""What the command line and a job call by the same name."""
_SWITCHES = {"--help", "-h", "--resume", "--force"}


@dataclass(frozen=True)
class Given:
    """What of a command line decides which settings there are."""

    method: str = ""
    preset: str = ""
    recipe: str = ""
    out: str = ""
    resume: bool = False
    sets: tuple[str, ...] = ()
    sampler: str = ""
    smoke: bool = False
    """Whether there is a limit, and no number of epochs: a smoke test."""

    @property
    def named(self) -> set[str]:
        """Modules that the user wants to have run."""
        return {self.method, self.sampler, *(one.partition(":")[0] for one in self.sets)}

    @property
    def run(self) -> Path | None:
        """The folder of the run to go on with, if it was begun before."""
        return Path(self.out) if self.resume and self.out and (Path(self.out) / "run.json").is_file() else None

    @property
    def enough(self) -> bool:
        return bool(self.method or self.recipe or self.run)


def peek(args: Sequence[str]) -> Given:
    """Read ahead: METHOD is the first word that belongs to no flag.

    >>> peek(["--on", "toybox", "slavc", "--preset=paper", "--resume", "-o", "r"])
    Given(method='slavc', preset='paper', recipe='', out='r', resume=True, sets=('toybox',), sampler='', smoke=False)
    """
    found: dict[str, str] = {}
    words: list[str] = []
    at = 0
    while at < len(args):
        flag, equals, value = args[at].partition("=")
        at += 1
        if not flag.startswith("-"):
            words.append(args[at - 1])
        elif not equals and flag not in _SWITCHES and ".no-" not in flag:
            value = args[at] if at < len(args) else ""
            at += not value.startswith("--")
            found[flag] = value
        else:
            found[flag] = value
    out = found.get("--out", found.get("-o", ""))
    method = words[0] if words else ""
    sets = tuple(found[flag] for flag in ("--on", "--val") if flag in found)
    smoke = found.get("--limit", "0") != "0" and "--optim.epochs" not in found
    sampler = found.get("--optim.sampler", "")
    return Given(method, found.get("--preset", ""), found.get("--recipe", ""), out, "--resume" in found, sets, sampler,
                 smoke)  # fmt: skip


def start(given: Given) -> Job:
    """The settings before any flag: those of the run that goes on, of a recipe or a preset, or the method's own.

    The training set is empty when nothing names it yet. A limit makes a smoke test of what is begun: little is trained,
    in small batches.
    """
    job = _start(given)
    if not given.smoke or (given.run and not (given.preset or given.recipe)):
        return job
    epochs = min(job.optim.epochs, getattr(job.config, "least_epochs", 1))
    small = replace(job.optim, epochs=epochs, batch_size=min(job.optim.batch_size, SMOKE_BATCH))
    return replace(job, optim=small)


def _start(given: Given) -> Job:
    if given.recipe:
        from earsight.recipes import RECIPES

        if given.recipe not in RECIPES:
            raise registry.unknown("recipe", given.recipe, sorted(RECIPES))
        need(not given.preset, "--recipe or --preset", "both", "A recipe holds all settings already.")
        job = RECIPES[given.recipe]()
        _need_method(given, job.method, f"the recipe {given.recipe} trains")
        return _as_begun(given, job)
    if given.run and not given.preset:
        from earsight.training.folder import load_job

        job = load_job(given.run, given.named)
        _need_method(given, job.method, f"the run {given.run} trains")
        return job
    need(bool(given.method), "METHOD with --preset", "none", "Name it first: earsight train METHOD --preset NAME")
    module = registry.load("method", given.method)
    if not given.preset:
        return Job(given.method, module.Config(), Inputs(), Optim(), on="")
    if given.preset not in module.PRESETS:
        raise registry.unknown("preset", given.preset, sorted(module.PRESETS))
    preset = module.PRESETS[given.preset]()
    job = Job(given.method, preset.config, preset.inputs, preset.optim, on="", protocol=preset.protocol)
    return _as_begun(given, job)


def _as_begun(given: Given, job: Job) -> Job:
    """The settings with those of the run that goes on, if one does, which only flags may change."""
    if given.run is None:
        return job
    from earsight.training.folder import load_job

    return job.worked_on_like(load_job(given.run, given.named))


def defaults(given: Given, begin: Job) -> dict[str, Any]:
    """What the flags of the command line are when they are not given."""
    values = {name: getattr(begin, name) for name in _SAME}
    # A job without validation says so with an empty name; on the command line that stands for the set's own split.
    val = begin.val or (NONE if begin.on else "")
    return {**values, "name": begin.method, "method": begin.config, "preset": given.preset, "recipe": given.recipe,
            "val": val}  # fmt: skip


def no_method(out: Path, resume: bool) -> UsageError:
    """The error for a command line from which no method can be told."""
    wanted = f"a run to resume in {out}, or METHOD" if resume else "METHOD"
    known = ", ".join(registry.names("method"))
    how = "Name it first: earsight train METHOD --on SET --out RUN"
    return UsageError(f"Expected {wanted}, but got none. {how}. Known: {known}.")


def run(
    given: Given,
    begin: Job,
    *,
    name: str,
    method: Any,
    out: Path,
    device: str = "auto",
    resume: bool = False,
    force: bool = False,
    **values: Any,
) -> int:
    """Train `method` (the settings of the method `name`), or go on training when `resume` finds a run.

    `values` are the flags that a job holds under the same name, and `preset` and `recipe`, which `begin` comes from.
    """
    need(not (resume and force), "--resume or --force", "both", "One goes on with the run, the other starts it over.")
    need(name == begin.method, "METHOD first", f"{name} after flags", f"Write: earsight train {name} ...")
    job = Job(method=name, config=method, **{key: values[key] for key in _SAME})
    need(bool(job.on), "a training set", "none", f"Add --on SET, one of: {', '.join(registry.names('set'))}.")
    _need_protocol(job.protocol)  # said before the first epoch, not after it
    job = replace(job, val=validation(job, begin))
    if given.run:
        from earsight.training.folder import load_job

        refuse_changes(load_job(given.run, given.named), job, given.run)
    if given.smoke and not given.run:
        note(
            f"--limit makes this a smoke test: {job.optim.epochs} epoch{'s' * (job.optim.epochs > 1)} in batches of "
            f"{job.optim.batch_size} at most. Add --optim.epochs N to train in earnest."
        )
    from earsight.checkpoint import WEIGHTS
    from earsight.training.loop import train
    from earsight.training.state import STATE

    if resume and (out / WEIGHTS).exists():
        note(f"{out} is finished; train further in another folder")
    try:
        weights = train(job, out, device=device, resume=resume, force=force)
    except KeyboardInterrupt:
        if (out / STATE).exists():
            words = ["earsight", "train", "--out", str(out), "--resume"]
            note(f"stopped; go on with: {registry.command(words, *_modules(job))}")
        raise
    note(f"next: {_next(job, weights)}")
    say(str(weights))
    return 0


def refuse_changes(begun: Job, now: Job, run: Path) -> None:
    """A run goes on with the settings it was begun with, but for those that do not decide its result."""
    was, wanted = flat(deciding(begun.to_json())), flat(deciding(now.to_json()))
    changed = [name for name in wanted if wanted[name] != was.get(name)]
    if changed:
        told = "; ".join(f"{_flag(name)} {wanted[name]!r} where the run has {was.get(name)!r}" for name in changed[:3])
        more = f" and {len(changed) - 3} more" if len(changed) > 3 else ""
        again = registry.command(["earsight", "train", "--out", str(run), "--resume"], *_modules(begun))
        raise UsageError(
            f"Expected the settings that {run} was begun with, but got {told}{more}. "
            f"Go on with: {again}; or start a new run in another folder."
        )


def _modules(job: Job) -> list[str]:
    """What a run's folder names."""
    return [job.method, job.optim.sampler, *(spec.partition(":")[0] for spec in (job.on, job.val))]


def _need_protocol(spec: str) -> None:
    """Refuse a protocol that does not exist, or one whose level only the validation that it is for would tell."""
    protocol = protocols.get(spec)
    need(
        protocol.threshold != "universal" or not math.isnan(protocol.level),
        "a protocol to validate with that has a level",
        spec,
        "Write universal:level=SCORE, or use another; a universal level is stored with the weights in any case.",
    )


def _flag(name: str) -> str:
    """The flag of a job's setting: config.dim -> --method.dim."""
    return "--" + name.replace("config.", "method.", 1).replace("_", "-")


def _next(job: Job, weights: Path) -> str:
    """What to do with the weights: measure them, or use them where there is nothing to measure on."""
    from earsight.data.clips import missing_list, with_split

    tested = _tested_on(job.on)
    if registry.load("set", tested).DEFAULTS.get("test") and missing_list(with_split(tested), job.folder):
        return registry.command(["earsight", "localize", str(weights), "VIDEO"], job.method)
    words = ["earsight", "eval", str(weights), "--on", tested, *(["--data", job.data] if job.data else [])]
    return registry.command(words, job.method, tested)


def _tested_on(on: str) -> str:
    """The set that a model trained on `on` is tested on: the same, or where that has no test split, its first test."""
    name = on.partition(":")[0]
    module = registry.load("set", name)
    tests: Sequence[str] = getattr(module, "TESTS", ())
    return name if module.DEFAULTS.get("test") or not tests else tests[0].partition(":")[0]


def _need_method(given: Given, method: str, source: str) -> None:
    need(given.method in ("", method), f"METHOD {method}, which {source}", given.method)


def validation(job: Job, begin: Job) -> str:
    """The validation set: as given, none, or the training set's own split for it."""
    name, _, split = job.on.partition(":")
    moved = begin.on != "" and begin.on.partition(":")[0] != name and job.val == begin.val
    if job.val and not moved:  # a recipe's validation set does not belong to another training set
        return "" if job.val == NONE else job.val
    splits: dict[str, str] = registry.load("set", name).DEFAULTS
    own = splits.get("val", "")
    if own in ("", split or splits.get("train")):
        return ""
    from earsight.data.clips import missing_list

    why = missing_list(f"{name}:{own}", job.folder)
    if why:
        note(f"no validation: {why}")
    return "" if why else f"{name}:{own}"
