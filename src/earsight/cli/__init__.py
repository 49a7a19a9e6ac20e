"""The command line: argv becomes settings, and settings one function call. The only folder that knows tyro.

Each command is a file here, with a dataclass of settings and `run(settings)`, which gives the exit code.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence
from typing import Annotated, Any

import earsight
from earsight import registry
from earsight.cli.screen import exit_code, say
from earsight.files import local_path

ABOUT = """Finds where in the picture a sound comes from, and says so when nothing visible makes it.

earsight COMMAND --help tells more about a command, earsight --version which earsight this is."""

COMMANDS = {
    "demo": "demo",
    "train": "train",
    "eval": "evaluate",
    "score": "score",
    "compare": "compare",
    "curves": "compare",
    "data check": "data_check",
    "data prepare": "data_prepare",
    "data audit": "data_lists",
    "data negatives": "data_lists",
    "localize": "localize",
    "app": "app",
    "export": "convert",
    "import": "convert",
    "list": "about",
    "show": "show",
    "doctor": "about",
}
"""Each command's file in this folder. Two words are a command of a group."""
GROUPS = {"data": "Check, pack, audit and extend data sets."}


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command line and return its exit code: 0, 1 when something failed, 2 when the command itself is wrong."""
    args = list(sys.argv[1:] if argv is None else argv)
    return exit_code(lambda: _command(args))


def settings_of(command: str) -> Any:
    """The settings of a command, a dataclass: "data check" has DataCheck."""
    module = importlib.import_module(f"{__name__}.{COMMANDS[command]}")
    return getattr(module, command.title().replace(" ", ""))


def _command(args: list[str]) -> int:
    if args[:1] == ["--version"]:
        say(f"earsight {earsight.__version__}")
        return 0
    words = 2 if args[:1] and args[0] in GROUPS else 1
    name, rest = " ".join(args[:words]), args[words:]
    if name not in COMMANDS:
        return _help(args)
    for before, word in zip(["", *rest], rest, strict=False):  # as typed: a Path would lose a slash
        flag, _, value = word.partition("=")
        if "--name" not in (before, flag):
            local_path(value if flag.startswith("--") else word)
    from earsight.cli.settings import parse_args

    settings, module = settings_of(name), importlib.import_module(f"{__name__}.{COMMANDS[name]}")
    values = module.parse(rest) if name == "train" else parse_args(settings, rest, f"earsight {name}")
    code: int = module.run(values)
    return code


def _help(args: list[str]) -> int:
    """Help on all commands or on those of a group, or what is wrong with a command that does not exist."""
    group = args[0] if args and args[0] in GROUPS else ""
    inside = {name.removeprefix(f"{group} "): name for name in COMMANDS if name.startswith(f"{group} ")}
    known = inside or {name: name for name in COMMANDS}
    rest = args[1:] if group else args
    if rest and not rest[0].startswith("-"):
        raise registry.unknown(f"command of '{group}'" if group else "command", rest[0], list(known))
    import tyro

    from earsight.cli.settings import parse_args

    commands: Any = None
    for word, name in known.items():
        settings = settings_of(name)
        about = settings.__doc__.split("\n")[0]
        one: Any = Annotated[settings, tyro.conf.subcommand(word, description=about)]
        commands = one if commands is None else commands | one
    parse_args(commands, rest or ["--help"], f"earsight {group}".rstrip(), description=GROUPS.get(group, ABOUT))
    return 2
