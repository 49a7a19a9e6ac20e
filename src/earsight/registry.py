"""Names are file names: `slavc` is methods/slavc.py. A dotted path loads a user's own module.

Looking up which names exist reads a folder and imports nothing, so it works without torch.
"""

from __future__ import annotations

import difflib
import importlib
import os
import re
import shlex
import sys
from collections.abc import Collection, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from earsight.errors import CheckpointError, UsageError

FOLDERS = {
    "method": "methods",
    "encoder": "encoders",
    "set": "data/sets",
    "metric": "metrics",
    "sampler": "data/samplers",
}
MODULES = "EARSIGHT_MODULES"
"""Variable of the environment: modules of the user's own, with commas between, that files may name."""
_NOT_ENTRIES = {"__init__", "base", "frontend", "start_weights", "stem", "stem_ops", "stem_kernels"}
"""Files of these folders that are parts of others."""
_NEEDED = {
    "method": ("Config", "Model", "PRESETS"),
    "encoder": (),
    "set": ("SPLITS", "DEFAULTS", "open"),
    "metric": ("RANGE", "HIGHER_IS_BETTER", "compute"),
    "sampler": ("order",),
}


def names(kind: str) -> list[str]:
    """All names of a kind ("method", "encoder", "set", "metric" or "sampler"), sorted.

    >>> "slavc" in names("method")
    True
    """
    folder = Path(__file__).parent / FOLDERS[kind]
    return sorted(p.stem for p in folder.glob("*.py") if p.stem not in _NOT_ENTRIES)


def summary(kind: str, name: str) -> str:
    """First docstring line of the file behind a name, read without importing it."""
    text = (Path(__file__).parent / FOLDERS[kind] / f"{name}.py").read_text(encoding="utf-8")
    found = re.match(r'\s*"""(.*?)(?:"""|\n)', text)
    return found.group(1).strip() if found else ""


def unknown(kind: str, name: str, known: list[str]) -> UsageError:
    """The error for a name that does not exist: suggests the nearest, as papers write it too, and lists the known ones.

    >>> print(unknown("method", "EZ-VSL", ["ezvsl", "slavc"]))
    Unknown method 'EZ-VSL', did you mean 'ezvsl'? Known: ezvsl, slavc.
    >>> print(unknown("method", "slavec", ["ezvsl", "slavc"]))
    Unknown method 'slavec', did you mean 'slavc'? Known: ezvsl, slavc.
    """
    plain = {re.sub(r"[\W_]", "", one).casefold(): one for one in known}
    near = difflib.get_close_matches(re.sub(r"[\W_]", "", name).casefold(), plain, n=1)
    hint = f", did you mean '{plain[near[0]]}'?" if near else "."
    return UsageError(f"Unknown {kind} '{name}'{hint} Known: {', '.join(known)}.")


_CLASSES: dict[str, type] = {}
"""Methods that were given as classes, by name."""


def register(model: type) -> str:
    """Keep a method's class for this process, such as one written in a notebook, and return the name that it goes by.

    Files of runs and weights hold the name. A process that reads them must have the class too: given to this function,
    written in its `__main__`, or in a module that it imports.
    """
    name = f"{model.__module__}.{model.__qualname__}"
    if not isinstance(getattr(model, "Config", None), type):
        raise UsageError(
            f"Expected a class with its settings as Config, but {name} has none. "
            "Write a frozen dataclass, and Config = MyConfig in the class."
        )
    _CLASSES[name] = model
    return name


def _class(name: str) -> type | None:
    """The class of that name, registered or in a module that has been imported."""
    module, _, last = name.rpartition(".")
    found = _CLASSES.get(name, getattr(sys.modules.get(module), last, None))
    return found if isinstance(found, type) else None


def _import(kind: str, name: str) -> ModuleType:
    """The module of that name, or a method's class of that name in the form of one."""
    model = _class(name)
    if kind == "method" and model is None:
        try:
            return importlib.import_module(name)
        except ModuleNotFoundError:
            importlib.import_module(name.rpartition(".")[0])
            model = _class(name)
    if kind != "method" or model is None:
        return importlib.import_module(name)
    module = ModuleType(name)
    own = {key: getattr(model, key) for key in ("Config", "PRESETS") if hasattr(model, key)}
    vars(module).update({"PRESETS": {}, **own, "Model": model})
    return module


def load(kind: str, name: str) -> ModuleType:
    """Import the module behind a name; a name with a dot is a module of the user's own, or a method's class in one."""
    if "." in name:
        try:
            module = _import(kind, name)
        except (ModuleNotFoundError, TypeError, ValueError) as error:  # the last two: names such as ".x" and "x..y"
            raise UsageError(
                f"Expected an importable module for {kind} '{name}', but got: {error}. "
                "Put its folder on PYTHONPATH, or use a built-in name."
            ) from error
        missing = [needed for needed in _NEEDED[kind] if not hasattr(module, needed)]
        if missing:
            raise UsageError(
                f"Expected {', '.join(_NEEDED[kind])} in the module '{name}' of a {kind}, but got no "
                f"{', '.join(missing)}. Define them there."
            )
        return module
    if name not in names(kind):
        raise unknown(kind, name, names(kind))
    return importlib.import_module(f"earsight.{FOLDERS[kind].replace('/', '.')}.{name}")


def may_import(name: str) -> bool:
    """Whether a file may name this: what is part of earsight, or a module that the user has named or imported.

    >>> may_import("slavc"), may_import("somebody.elses.module"), may_import("os.path")
    (True, False, True)
    """
    return "." not in name or name in sys.modules or _class(name) is not None or _is_allowed(name)


def _allowed() -> list[str]:
    return [one.strip() for one in os.environ.get(MODULES, "").split(",") if one.strip()]


def _is_allowed(name: str) -> bool:
    return any(f"{name}.".startswith(f"{one}.") for one in _allowed())


def command(words: Sequence[str], *names: str) -> str:
    """What to type in a shell, where files that the command reads name these methods and sets.

    Modules outside earsight are allowed in front of it, and found in this folder if they were found here.

    >>> command(["earsight", "eval", "my run"], "slavc")
    "earsight eval 'my run'"
    """
    outside = [name for name in dict.fromkeys(names) if "." in name]
    # What is set already may have been set for this one command, as in those that are printed here.
    allowed = [*_allowed(), *(name for name in outside if not _is_allowed(name))]
    before = [f"{MODULES}={shlex.quote(','.join(allowed))}"] if outside else []
    paths = [path for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path not in ("", ".")]
    tops = [sys.modules[top] for name in outside if (top := name.partition(".")[0]) in sys.modules]
    found = {Path(folder).resolve().parent for module in tops for folder in getattr(module, "__path__", ())}
    if Path.cwd() in found - {Path(path).resolve() for path in paths}:  # as python -m finds them, and earsight does not
        before.append(f"PYTHONPATH={shlex.quote(os.pathsep.join(['.', *paths]))}")
    return " ".join([*before, shlex.join(words)])


def need_known(path: Path, kind: str, name: str) -> None:
    """Refuse a module that only the file at `path` names, which may be a stranger's: importing it would run it."""
    if may_import(name):
        return
    if name.startswith("__main__.") or "<locals>" in name:
        raise CheckpointError(
            f"Expected the class '{name}', by which {path} was trained, but this process has no such class. Write it "
            "again, and give it to earsight.registry.register or, to go on training, to earsight.train; or keep it in "
            "a module."
        )
    article = "an" if kind == "encoder" else "a"
    raise CheckpointError(
        f"Expected {article} {kind} of earsight in {path}, but got the module '{name}', which is not run because a "
        f"file says so. If you know it, set {MODULES}={name}."
    )


def encoders_in(config: Any) -> list[str]:
    """The encoders that a method's settings name, as plain JSON."""
    encoders = config.get("encoders") if isinstance(config, dict) else None
    return [str(encoders.get(side, "")) for side in ("image", "audio")] if isinstance(encoders, dict) else []


def need_known_encoders(path: Path, config: Any, named: Collection[str] = ()) -> None:
    """The same of the encoders in a file's settings of a method, but for those that the user has `named`."""
    for name in encoders_in(config):
        if name not in named:
            need_known(path, "encoder", name)
