"""What the settings of all commands share: how values are shown in the help, and settings as a command line again.

A command is one dataclass of settings and a function `run` that takes it. Both are imported for `--help`, so whatever
is heavy is imported when the command runs.
"""

from __future__ import annotations

import dataclasses
import gc
import re
import sys
import typing
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro

from earsight import registry
from earsight.cli.screen import process
from earsight.config import need
from earsight.errors import UsageError, how_to_install


def word(metavar: str | None, *aliases: str, default: str | None = "", help: str | None = None) -> Any:
    """How a value is shown in the help; `default` None lets tyro show the default, `help` None the docstring."""
    return tyro.conf.arg(metavar=metavar, aliases=list(aliases) or None, help_behavior_hint=default, help=help)


Switch = Annotated[bool, tyro.conf.FlagCreatePairsOff, word(None)]
Many = Annotated[tuple[Path, ...], tyro.conf.Positional]
# Flags of several commands, with their help:
Data = Annotated[Path | None, word("DIR", help="Folder of the data, for sets that need one.")]
Device = Annotated[Literal["auto", "cpu", "cuda"], word(None, default=None, help="Where to compute.")]
Force = Annotated[bool, tyro.conf.FlagCreatePairsOff, word(None, help="Replace files that are there.")]
Json = Annotated[bool, tyro.conf.FlagCreatePairsOff, word(None, help="Print JSON.")]

EXTRAS = {
    "app": ("starlette", "uvicorn"),
    "export": ("onnx", "onnxscript"),
    "log": ("tensorboard",),
    "train": ("torch", "torchvision", "pyarrow"),
}
"""What can be installed beside the core, and the modules that each extra brings."""


def parse_args(settings: Any, args: Sequence[str], prog: str, **more: Any) -> Any:
    """An instance of the class `settings` from the words after a command; SystemExit where they are wrong."""
    return tyro.cli(settings, prog=prog, args=args, console_outputs=process() == 0, **more)


def missing(modules: Sequence[str]) -> list[str]:
    """Those of the modules that are not installed, found without importing any."""
    return [name for name in modules if not _is_there(name)]


def _is_there(name: str) -> bool:
    try:
        return name in sys.modules or find_spec(name) is not None
    except (ImportError, ValueError):
        return False


def require(extra: str, *modules: str) -> None:
    """Refuse a command that needs `modules` of an extra, all that it brings by default, where one is not installed."""
    needed = modules or EXTRAS[extra]
    if gone := missing(needed):
        raise UsageError(
            f"Expected {', '.join(needed)} for this command, but {', '.join(gone)} is not installed. "
            f"Install the extra '{extra}': {how_to_install(extra)}"
        )


def need_once(expected: str, values: Sequence[str | Path]) -> None:
    """Refuse a value that is there twice, under two paths too."""
    same = [value.resolve() if isinstance(value, Path) else value for value in values]
    twice = next((value for i, value in enumerate(values) if same[i] in same[:i]), None)
    need(twice is None, expected, f"{twice} twice", "Leave one out.")


def command_line(settings: Any, *modules: str) -> str:
    """What to type for these settings: those that differ from their defaults.

    Modules from outside earsight that the command reads names of are allowed in front of it.
    """
    hints = typing.get_type_hints(type(settings), include_extras=True)
    names = [name for name, hint in hints.items() if tyro.conf.Positional in getattr(hint, "__metadata__", ())]
    words = [word for name in names for word in _values(getattr(settings, name))]
    flags = _flags(settings, "--", skip=names)
    command = re.sub(r"(?<!^)(?=[A-Z])", " ", type(settings).__name__).lower()  # DataCheck is "data check"
    return registry.command(["earsight", *command.split(), *words, *flags], *modules)


def _flags(settings: Any, before: str, skip: Sequence[str] = ()) -> Iterator[str]:
    for field in dataclasses.fields(settings):
        value, factory = getattr(settings, field.name), field.default_factory
        if field.name in skip or value == (field.default if factory is dataclasses.MISSING else factory()):
            continue
        name = field.name.replace("_", "-")
        if dataclasses.is_dataclass(value):
            yield from _flags(value, f"{before}{name}.")
        elif isinstance(value, bool):
            yield f"{before}{'' if value else 'no-'}{name}"
        else:
            yield from (f"{before}{name}", *_values(value))


def _values(value: Any) -> list[str]:
    return list(map(str, value)) if isinstance(value, tuple) else [str(value)] if value != "" else []


@contextmanager
def gc_frozen() -> Iterator[None]:
    """Leave out what was imported where Python looks for garbage, which takes a tenth of a second each time."""
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()
