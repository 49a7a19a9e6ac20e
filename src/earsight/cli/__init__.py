"""The command line: argv becomes settings, and settings one function call. The only folder that knows tyro.

Everything heavy is imported by the command that needs it, so that `--help` answers at once.
"""

from __future__ import annotations

import dataclasses
import gc
import importlib
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import tyro

import earsight
from earsight import registry
from earsight.cli.data import Audit, Check, Negatives, Prepare
from earsight.cli.export import Export
from earsight.cli.measuring import Compare, Curves, Eval, Score
from earsight.cli.training import Demo, Train
from earsight.cli.using import App, Doctor, Import, List, Localize, Show
from earsight.commands import train as training
from earsight.commands.outcome import exit_code
from earsight.commands.screen import process, say
from earsight.files import local_path

ABOUT = """Finds where in the picture a sound comes from, and says so when nothing visible makes it.

earsight COMMAND --help tells more about a command, earsight --version which earsight this is."""

COMMANDS: dict[str, tuple[type, str]] = {
    "demo": (Demo, "earsight.demo"),
    "train": (Train, "earsight.commands.train"),
    "eval": (Eval, "earsight.commands.evaluate"),
    "score": (Score, "earsight.commands.score"),
    "compare": (Compare, "earsight.commands.compare"),
    "curves": (Curves, "earsight.commands.curves"),
    "data check": (Check, "earsight.commands.data_check"),
    "data prepare": (Prepare, "earsight.commands.data_prepare"),
    "data audit": (Audit, "earsight.commands.data_audit"),
    "data negatives": (Negatives, "earsight.commands.data_negatives"),
    "localize": (Localize, "earsight.commands.localize"),
    "app": (App, "earsight.commands.app"),
    "export": (Export, "earsight.commands.export"),
    "import": (Import, "earsight.commands.imports"),
    "list": (List, "earsight.commands.listing"),
    "show": (Show, "earsight.commands.show"),
    "doctor": (Doctor, "earsight.commands.doctor"),
}
"""Each command's settings, and the module whose `run` takes them by name. Two words are a command of a group."""
GROUPS = {"data": "Check, pack, audit and extend data sets."}


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command line and return its exit code: 0, 1 when something failed, 2 when the command itself is wrong."""
    args = list(sys.argv[1:] if argv is None else argv)
    return exit_code(lambda: _command(args, alone=argv is None))


def _command(args: list[str], alone: bool) -> int:
    """Run a command; `alone` says that this process does nothing else."""
    if args[:1] == ["--version"]:
        say(f"earsight {earsight.__version__}")
        return 0
    words = 2 if args[:1] and args[0] in GROUPS else 1
    name, rest = " ".join(args[:words]), args[words:]
    if name not in COMMANDS:
        return _help(args)
    settings, module = COMMANDS[name]
    for before, word in zip(["", *rest], rest, strict=False):  # as typed: a Path would lose a slash
        flag, _, value = word.partition("=")
        if "--name" not in (before, flag):
            local_path(value if flag.startswith("--") else word)
    values = _parse_train(rest) if settings is Train else vars(_parse(settings, rest, f"earsight {name}"))
    run = importlib.import_module(module).run
    if alone:  # what was imported stays; to search it for garbage takes a tenth of a second, for which a GPU can wait
        gc.freeze()
    return run(**values) or 0


def _help(args: list[str]) -> int:
    """Help on all commands or on those of a group, or what is wrong with a command that does not exist."""
    group = args[0] if args and args[0] in GROUPS else ""
    inside = {name.removeprefix(f"{group} "): one for name, one in COMMANDS.items() if name.startswith(f"{group} ")}
    known = inside or COMMANDS
    rest = args[1:] if group else args
    if rest and not rest[0].startswith("-"):
        raise registry.unknown(f"command of '{group}'" if group else "command", rest[0], list(known))
    commands: Any = None
    for name, (settings, _) in known.items():
        about = (settings.__doc__ or "").split("\n")[0]
        one: Any = Annotated[settings, tyro.conf.subcommand(name, description=about)]
        commands = one if commands is None else commands | one
    prog = f"earsight {group}".rstrip()
    _parse(commands, rest or ["--help"], prog, description=GROUPS.get(group, ABOUT))
    return 2


def _parse_train(args: list[str]) -> dict[str, Any]:
    """Parse in two steps: first what says which settings there are, then everything against these settings."""
    given = training.peek(args)
    if not given.enough and not {"-h", "--help"}.intersection(args):
        raise training.no_method(Path(given.out), given.resume)
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
