"""The command line: argv becomes settings, and settings one function call. The only file that knows tyro.

Everything heavy is imported by the command that needs it, so that `--help` answers at once.
"""

from __future__ import annotations

import dataclasses
import importlib
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro

import earsight
from earsight import registry
from earsight.commands import train as training
from earsight.commands.listing import Kind
from earsight.commands.outcome import exit_code
from earsight.commands.screen import process, say
from earsight.config import Inputs, Optim

ABOUT = """Finds where in the picture a sound comes from, and says so when nothing visible makes it.

earsight COMMAND --help tells more about a command, earsight --version which earsight this is."""


def _word(metavar: str, *aliases: str, default: str | None = "") -> Any:
    """How a value is shown in the help; `default` None lets tyro tell the default."""
    return tyro.conf.arg(metavar=metavar, aliases=list(aliases) or None, help_behavior_hint=default)


Switch = Annotated[bool, tyro.conf.FlagCreatePairsOff, tyro.conf.arg(help_behavior_hint="")]
Device = Literal["auto", "cpu", "cuda"]
_INPUTS, _OPTIM = Inputs(), Optim()
Many = Annotated[tuple[Path, ...], tyro.conf.Positional]


@dataclass(frozen=True, kw_only=True)
class Demo:
    """Train, evaluate and localize on the built-in set, in minutes on two CPU cores."""

    out: Annotated[Path, _word("DIR", "-o", default=None)] = Path("earsight-demo")
    """Folder for the run, the report, pictures and the video."""
    seed: int = 0
    """Another seed draws other weights."""
    quick: Switch = False
    """Train for a moment only: shows the path, not the quality."""
    force: Switch = False
    """Replace an earlier demo in the folder."""


@dataclass(frozen=True, kw_only=True)
class Train:
    """Train a method. METHOD comes first; earsight train METHOD --help lists its own settings too (--method.*).

    On several GPUs or machines: torchrun --nproc-per-node 8 -m earsight train METHOD ...
    """

    name: Annotated[str, tyro.conf.Positional, _word("METHOD")] = ""
    """What to train (earsight list methods). A recipe or --resume names it too."""
    on: Annotated[str, _word("SET")] = ""
    """Training set, NAME or NAME:SPLIT (earsight list sets)."""
    data: Annotated[str, _word("DIR")] = ""
    """Folder of the data, for sets that need one."""
    out: Annotated[Path, _word("RUN", "-o", default=None)]
    """Folder of the run: settings, log, saved state, weights."""
    preset: Annotated[str, _word("NAME")] = ""
    """Start from the method's settings as one source gives them (earsight list presets)."""
    recipe: Annotated[str, _word("NAME")] = ""
    """Start from all settings of a known run (earsight list recipes)."""
    val: Annotated[str, _word("SET")] = ""
    """Validation set; by default the training set's own split for it. "none" for none."""
    limit: Annotated[int, _word("N")] = 0
    """Use at most this many clips of each set."""
    protocol: Annotated[str, _word("NAME", default=None)] = "exact"
    """Evaluation protocol for validation and calibration (earsight list protocols)."""
    false_alarm: float = 0.1
    """Share of validation negatives that the calibrated verdict may call visible."""
    device: Device = "auto"
    """Where to train."""
    resume: Switch = False
    """Go on with the run in the folder, with the settings it was begun with."""
    force: Switch = False
    """Start over when the folder holds a run already."""
    inputs: Inputs = _INPUTS
    """How clips become what the encoders see."""
    optim: Optim = _OPTIM
    """How training goes."""


@dataclass(frozen=True, kw_only=True)
class Eval:
    """Measure weights on sets: one table with controls, centre prior, floor and ceiling."""

    weights: Annotated[Many, _word("WEIGHTS")]
    """Weights files or folders of runs."""
    on: Annotated[tuple[str, ...], _word("SET", default=None)]
    """Test sets, NAME or NAME:SPLIT (earsight list sets)."""
    data: Annotated[Path | None, _word("DIR")] = None
    """Folder of the data, for sets that need one."""
    protocol: Annotated[str, _word("NAME")] = ""
    """Evaluation protocol (earsight list protocols); by default the one the weights were made with."""
    audio: Literal["real", "shuffled", "silent", "all"] = "real"
    """Which sound is heard: a model that listens does worse with another clip's sound, or with none."""
    batch_size: int = 64
    """Clips at a time; changes the speed and nothing else."""
    device: Device = "auto"
    """Where to compute."""
    workers: int = 0
    """Processes that read clips; 0 reads in this one."""
    limit: Annotated[int, _word("N")] = 0
    """Use at most this many clips of each set."""
    out: Annotated[Path | None, _word("DIR", "-o")] = None
    """Write a report here: numbers, records, table, plots."""
    force: Switch = False
    """Replace a report that is there."""
    json: Switch = False
    """Print JSON instead of the table."""


@dataclass(frozen=True, kw_only=True)
class Localize:
    """Show where the sound comes from, in videos and folders of them, or in a picture with a sound."""

    weights: Annotated[Path, tyro.conf.Positional, _word("WEIGHTS", default=None)]
    """Weights file or folder of a run."""
    inputs: Annotated[Many, _word("INPUT")] = ()
    """Video files or folders."""
    image: Annotated[Path | None, _word("FILE")] = None
    """A picture, to go with --audio."""
    audio: Annotated[Path | None, _word("FILE")] = None
    """A sound, to go with --image."""
    out: Annotated[Path, _word("DIR", "-o", default=None)] = Path("localized")
    """Folder for what is written."""
    every: Annotated[float, _word("SECONDS", default=None)] = 0.2
    """Time between two answers of a video."""
    window: Annotated[float | None, _word("SECONDS")] = None
    """Sound heard around each time; by default as much as the model hears."""
    start: Annotated[float | None, _word("SECONDS")] = None
    """Where in the video to begin; with --audio, where in the sound the picture belongs."""
    end: Annotated[float | None, _word("SECONDS")] = None
    """Where in the video to end."""
    format: Annotated[str, _word("KINDS", default=None)] = "mp4,png,json"
    """What to write: overlay video, contact sheet, timeline."""
    batch_size: int = 16
    """Frames at a time; changes the speed and nothing else."""
    device: Device = "auto"
    """Where to compute."""
    force: Switch = False
    """Replace files that are there."""
    json: Switch = False
    """Print the summary as JSON."""


@dataclass(frozen=True, kw_only=True)
class Import:
    """Turn an official SLAVC or EZ-VSL checkpoint into earsight weights."""

    checkpoint: Annotated[Path, tyro.conf.Positional, _word("CHECKPOINT", default=None)]
    """The .pth file as its authors published it. Its code is not run."""
    out: Annotated[Path, _word("FILE", "-o", default=None)]
    """The .safetensors file to write."""
    force: Switch = False
    """Replace a file that is there."""
    json: Switch = False
    """Print JSON."""


@dataclass(frozen=True, kw_only=True)
class List:
    """Names that other commands take, each with one line about it."""

    kind: Annotated[Kind, tyro.conf.Positional]
    """What to list."""
    json: Switch = False
    """Print JSON."""


@dataclass(frozen=True, kw_only=True)
class Show:
    """Tell what weights, a run, a report or a media file is."""

    path: Annotated[Path, tyro.conf.Positional, _word("WEIGHTS|RUN|REPORT|MEDIA", default=None)]
    """The file or folder."""
    json: Switch = False
    """Print JSON."""


@dataclass(frozen=True, kw_only=True)
class Doctor:
    """Check that everything earsight needs is here and works."""

    json: Switch = False
    """Print JSON."""


COMMANDS: dict[str, tuple[type, str]] = {
    "demo": (Demo, "earsight.demo"),
    "train": (Train, "earsight.commands.train"),
    "eval": (Eval, "earsight.commands.evaluate"),
    "localize": (Localize, "earsight.commands.localize"),
    "import": (Import, "earsight.commands.imports"),
    "list": (List, "earsight.commands.listing"),
    "show": (Show, "earsight.commands.show"),
    "doctor": (Doctor, "earsight.commands.doctor"),
}
"""Each command's settings, and the module whose `run` takes them by name."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command line and return its exit code: 0, 1 when something failed, 2 when the command itself is wrong."""
    args = list(sys.argv[1:] if argv is None else argv)
    return exit_code(lambda: _command(args))


def _command(args: list[str]) -> int:
    if args[:1] == ["--version"]:
        say(f"earsight {earsight.__version__}")
        return 0
    if not args or args[0] not in COMMANDS:
        return _top_level(args)
    name, *rest = args
    settings, module = COMMANDS[name]
    values = _parse_train(rest) if settings is Train else vars(_parse(settings, rest, f"earsight {name}"))
    return importlib.import_module(module).run(**values) or 0


def _top_level(args: list[str]) -> int:
    """Help, or what is wrong with a command that does not exist."""
    if args and not args[0].startswith("-"):
        raise registry.unknown("command", args[0], list(COMMANDS))
    commands: Any = None
    for name, (settings, _) in COMMANDS.items():
        about = (settings.__doc__ or "").split("\n")[0]
        one: Any = Annotated[settings, tyro.conf.subcommand(name, description=about)]
        commands = one if commands is None else commands | one
    _parse(commands, args or ["--help"], "earsight", description=ABOUT)
    return 2


def _parse_train(args: list[str]) -> dict[str, Any]:
    """Parse in two steps: first what says which settings there are, then everything against these settings."""
    given = training.peek(args)
    if not given.enough:
        plain = _parse(Train, args, "earsight train")
        raise training.no_method(plain.out, plain.resume)
    begin = training.start(given)
    whole: Any = dataclasses.make_dataclass(
        "Train",
        [("method", type(begin.config))],
        bases=(Train,),
        namespace={"__doc__": Train.__doc__, "__module__": __name__},
        frozen=True,
        kw_only=True,
    )
    defaults = whole(out=tyro.MISSING, **training.defaults(given, begin))
    parsed = _parse(whole, args, f"earsight train {begin.method}", default=defaults)
    return {"given": given, "begin": begin, **vars(parsed)}


def _parse(settings: Any, args: list[str], prog: str, **more: Any) -> Any:
    return tyro.cli(settings, prog=prog, args=args, console_outputs=process() == 0, **more)
