"""`earsight train`: which settings a run starts from, and whether a run that goes on is asked for the same.

A method's settings are known only once its name is: so its name, the preset and the recipe are looked up first, and the
whole command line is parsed against the settings they give.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, make_dataclass, replace
from pathlib import Path
from typing import Annotated, Any, ClassVar

import tyro

from earsight import protocols, registry
from earsight.cli.evaluate import Eval
from earsight.cli.localize import Localize
from earsight.cli.screen import flat, note, say
from earsight.cli.settings import Device, Switch, command_line, gc_frozen, parse_args, require, word
from earsight.config import Inputs, Optim, Supervision, need, to_json
from earsight.errors import UsageError
from earsight.training.job import Job, deciding

SMOKE_BATCH = 8
"""Clips in a batch of a smoke test, at most."""
NONE = "none"
"""`--val none`: no validation."""
SAME = ("on", "data", "val", "limit", "protocol", "false_alarm", "inputs", "optim", "supervision")
"""What the command line and a job call by the same name."""
SHORT = {"--image-encoder": "--method.encoders.image", "--audio-encoder": "--method.encoders.audio"}
"""Short spellings of flags."""
SWITCHES = {"--help", "-h", "--resume", "--force"}
MODULES = ("--on", "--val", "--optim.sampler", "--method.encoders.image", "--method.encoders.audio")
"""Flags whose values may be modules of the user's own."""


@dataclass(frozen=True, kw_only=True)
class Train:
    """Train a method. METHOD comes first; earsight train METHOD --help lists its own settings too (--method.*).

    --image-encoder and --audio-encoder are short for --method.encoders.image and --method.encoders.audio.
    On several GPUs or machines: torchrun --nproc-per-node 8 -m earsight train METHOD ...
    """

    name: Annotated[str, tyro.conf.Positional, word("METHOD")] = ""
    """What to train (earsight list methods). A recipe or --resume names it too."""
    on: Annotated[str, word("SET")] = ""
    """Training set, NAME or NAME:SPLIT (earsight list sets)."""
    data: Annotated[str, word("DIR")] = ""
    """Folder of the data, for sets that need one."""
    out: Annotated[Path, word("RUN", "-o", default=None)]
    """Folder of the run: settings, log, saved state, weights."""
    preset: Annotated[str, word("NAME")] = ""
    """Start from the method's settings as one source gives them (earsight list presets)."""
    recipe: Annotated[str, word("NAME")] = ""
    """Start from all settings of a known run (earsight list recipes)."""
    val: Annotated[str, word("SET")] = ""
    """Validation set; by default the training set's own split for it. "none" for none."""
    limit: Annotated[int, word("N")] = 0
    """Use at most this many clips of each set."""
    protocol: Annotated[str, word("NAME", default=None)] = "exact"
    """Evaluation protocol for validation and calibration (earsight list protocols)."""
    false_alarm: float = 0.1
    """Share of validation negatives that the calibrated verdict may call visible."""
    device: Device = "auto"
    resume: Switch = False
    """Go on with the run in the folder, with the settings it was begun with."""
    force: Switch = False
    """Start over when the folder holds a run already."""
    inputs: Inputs = field(default_factory=Inputs)
    """How clips become what the encoders see."""
    optim: Optim = field(default_factory=Optim)
    """How training goes."""
    supervision: Supervision = field(default_factory=Supervision)
    """Ground truth in training."""
    # What `parse` adds once the method's name is known: a field for its settings, and all settings before the flags.
    method: ClassVar[Any]
    begin: ClassVar[Start]


@dataclass(frozen=True)
class Start:
    """The settings before any flag: a run's that goes on, a recipe's, a preset's, or the method's own.

    The training set is empty when nothing names it. `begun` are the settings of the run that goes on. A limit makes a
    smoke test of what is begun: little is trained, in small batches.
    """

    job: Job
    begun: Job | None = None
    smoke: bool = False


def parse(args: Sequence[str]) -> Train:
    """The settings of a command line, with those of the method that it names."""
    for short, whole_flag in SHORT.items():
        args = [re.sub(rf"^{short}(?==|$)", whole_flag, word) for word in args]
    method, flags = read_ahead(args)
    begin = start(method, flags)
    if begin is None:
        if {"-h", "--help"} & flags.keys():
            parse_args(Train, args, "earsight train")
        wanted = "METHOD"
        if "--resume" in flags:
            wanted = f"a run to resume in {Path(flags.get('--out', flags.get('-o', '')))}, or METHOD"
        known = f"Known: {', '.join(registry.names('method'))}."
        how = "Name it first: earsight train METHOD --on SET --out RUN."
        raise UsageError(f"Expected {wanted}, but got none. {how} {known}")
    job = begin.job
    whole: Any = make_dataclass(
        "Train",
        [("method", type(job.config))],
        bases=(Train,),
        namespace={"__doc__": Train.__doc__, "begin": begin},
        frozen=True,
        kw_only=True,
    )
    values = {name: getattr(job, name) for name in SAME}
    # A job without validation says so with an empty name; on the command line that stands for the set's own split.
    values["val"] = job.val or (NONE if job.on else "")
    values |= {"preset": flags.get("--preset", ""), "recipe": flags.get("--recipe", "")}
    default = whole(name=job.method, method=job.config, out=tyro.MISSING, **values)
    parsed: Train = parse_args(whole, args, f"earsight train {job.method}", default=default)
    return parsed


def read_ahead(args: Sequence[str]) -> tuple[str, dict[str, str]]:
    """METHOD, which is the first word that belongs to no flag, and the last value of each flag.

    >>> read_ahead(["--on", "toybox", "slavc", "--preset=paper", "--resume", "-o", "r"])
    ('slavc', {'--on': 'toybox', '--preset': 'paper', '--resume': '', '-o': 'r'})
    """
    method, flags, rest = "", dict[str, str](), list(args)
    while rest:
        flag, equals, value = rest.pop(0).partition("=")
        if not flag.startswith("-"):
            method = method or flag + equals + value
            continue
        takes_value = not equals and flag not in SWITCHES and ".no-" not in flag
        if takes_value and rest:
            value = rest[0] if rest[0].startswith("--") else rest.pop(0)
        flags[flag] = value
    return method, flags


def start(method: str, flags: Mapping[str, str]) -> Start | None:
    """Where the settings start, or None where nothing says what to train."""
    out, preset, recipe = flags.get("--out", flags.get("-o", "")), flags.get("--preset", ""), flags.get("--recipe", "")
    goes_on = bool("--resume" in flags and out and (Path(out) / "run.json").is_file())
    if not (method or recipe or goes_on):
        return None
    require("train")
    begun = None
    if goes_on:
        from earsight.training.folder import load_job

        specs = (flags.get(flag, "") for flag in MODULES)
        named = {method, *(spec.partition(":")[0] for spec in specs)}
        begun = load_job(Path(out), named)
    if recipe:
        from earsight.recipes import RECIPES

        need(not preset, "--recipe or --preset", "both", "A recipe holds all settings already.")
        if recipe not in RECIPES:
            raise registry.unknown("recipe", recipe, sorted(RECIPES))
        job = RECIPES[recipe]()
        source = f"the recipe {recipe} trains"
    elif begun is not None and not preset:
        job, source = begun, f"the run {out} trains"
    else:
        need(bool(method), "METHOD with --preset", "none", "Name it first: earsight train METHOD --preset NAME")
        job, source = own_job(method, preset), ""
    need(method in ("", job.method), f"METHOD {job.method}, which {source}", method)
    if begun is not None:
        job = job.worked_on_like(begun)
    smoke = flags.get("--limit", "0") != "0" and "--optim.epochs" not in flags
    if smoke and (begun is None or preset or recipe):
        epochs = min(job.optim.epochs, getattr(job.config, "least_epochs", 1))
        job = replace(job, optim=replace(job.optim, epochs=epochs, batch_size=min(job.optim.batch_size, SMOKE_BATCH)))
    return Start(job, begun, smoke)


def own_job(method: str, preset: str) -> Job:
    """The settings of a method, or of one of its presets, without a training set."""
    module = registry.load("method", method)
    if not preset:
        return Job(method, module.Config(), Inputs(), Optim(), on="")
    if preset not in module.PRESETS:
        raise registry.unknown("preset", preset, sorted(module.PRESETS))
    one = module.PRESETS[preset]()
    return Job(method, one.config, one.inputs, one.optim, on="", protocol=one.protocol)


def run(settings: Train) -> int:
    """Train, or go on training where `resume` finds a run."""
    out, resume, force, begin = settings.out, settings.resume, settings.force, settings.begin
    need(not (resume and force), "--resume or --force", "both", "One goes on with the run, the other starts it over.")
    name = settings.name
    need(name == begin.job.method, "METHOD first", f"{name} after flags", f"Write: earsight train {name} ...")
    job = Job(method=name, config=settings.method, **{key: getattr(settings, key) for key in SAME})
    need(bool(job.on), "a training set", "none", f"Add --on SET, one of: {', '.join(registry.names('set'))}.")
    protocol = protocols.get(job.protocol)
    need(  # said before the first epoch, not after it
        protocol.threshold != "universal" or not math.isnan(protocol.level),
        "a protocol to validate with that has a level",
        job.protocol,
        "Write universal:level=SCORE, or use another; a universal level is stored with the weights in any case.",
    )
    job = replace(job, val=validation(job, begin.job))
    if begin.begun is not None:
        refuse_changes(begin.begun, job, out)
    elif begin.smoke:
        note(
            f"--limit makes this a smoke test: {job.optim.epochs} epoch{'s' * (job.optim.epochs > 1)} in batches of "
            f"{job.optim.batch_size} at most. Add --optim.epochs N to train in earnest."
        )
    from earsight.header import WEIGHTS
    from earsight.training.loop import train
    from earsight.training.state import STATE

    if resume and (out / WEIGHTS).exists():
        note(f"{out} is finished; train further in another folder")
    try:
        with gc_frozen():
            weights = train(job, out, device=settings.device, resume=resume, force=force)
    except KeyboardInterrupt:
        if (out / STATE).exists():
            note(f"stopped; go on with: {resuming(out, job.to_json())}")
        raise
    note(f"next: {next_command(job, weights)}")
    say(str(weights))
    return 0


def resuming(out: Path, begun: Mapping[str, Any]) -> str:
    """The command that goes on with the run in `out`, which was begun with these settings, as in its run.json."""
    specs = (begun.get("method"), begun["optim"].get("sampler"), begun.get("on"), begun.get("val"))
    modules = [str(spec or "").partition(":")[0] for spec in specs]
    return command_line(Train(out=out, resume=True), *modules, *registry.encoders_in(begun.get("config")))


def refuse_changes(begun: Job, now: Job, out: Path) -> None:
    """A run goes on with the settings it was begun with, but for those that do not decide its result."""
    was, wanted = flat(deciding(begun.to_json())), flat(deciding(now.to_json()))
    changed = [name for name in wanted if wanted[name] != was.get(name)]
    if changed:
        flags = [f"--{name.replace('config.', 'method.', 1).replace('_', '-')}" for name in changed]  # of config.dim
        pairs = zip(flags, changed[:3], strict=False)
        told = "; ".join(f"{flag} {wanted[name]!r} where the run has {was.get(name)!r}" for flag, name in pairs)
        more = f" and {len(changed) - 3} more" if len(changed) > 3 else ""
        raise UsageError(
            f"Expected the settings that {out} was begun with, but got {told}{more}. "
            f"Go on with: {resuming(out, begun.to_json())}; or start a new run in another folder."
        )


def next_command(job: Job, weights: Path) -> str:
    """What to do with the weights: measure them, or use them where there is nothing to measure on."""
    from earsight.data.clips import missing_list, with_split

    tested, modules = job.on.partition(":")[0], (job.method, *registry.encoders_in(to_json(job.config)))
    module = registry.load("set", tested)
    tests: Sequence[str] = getattr(module, "TESTS", ())
    if tests and not module.DEFAULTS.get("test"):  # measured on the first set that is made for it
        tested = tests[0].partition(":")[0]
    if registry.load("set", tested).DEFAULTS.get("test") and missing_list(with_split(tested), job.folder):
        return command_line(Localize(weights=weights, inputs=(Path("VIDEO"),)), *modules)
    return command_line(Eval(weights=(weights,), on=(tested,), data=job.folder), *modules, tested)


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
