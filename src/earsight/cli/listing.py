"""`earsight list`: the names that other commands take, each with one line about it."""

from __future__ import annotations

import inspect
from dataclasses import asdict, dataclass
from typing import Annotated, Literal, get_args

import tyro

from earsight import registry
from earsight.cli.screen import columns, say, say_json
from earsight.cli.settings import Switch, require
from earsight.config import need
from earsight.recipes import RECIPES, Recipe

Kind = Literal["methods", "samplers", "sets", "metrics", "protocols", "recipes", "presets", "tables"]


@dataclass(frozen=True, kw_only=True)
class List:
    """Names that other commands take, each with one line about it."""

    kind: Annotated[Kind, tyro.conf.Positional]
    """What to list."""
    json: Switch = False
    """Print JSON."""


def run(settings: List) -> int:
    kind = settings.kind
    rows = entries(kind)
    if settings.json:
        more = {name: _facts(recipe) for name, recipe in RECIPES.items()} if kind == "recipes" else {}
        say_json([{"name": name, "summary": summary, **more.get(name, {})} for name, summary in rows])
    elif kind == "recipes":
        say(recipes())
    elif rows:
        say(columns(rows))
    return 0


def entries(kind: str) -> list[tuple[str, str]]:
    """Name and summary of everything of a kind. Only protocols and presets may import torch.

    >>> [name for name, _ in entries("sets") if name == "toybox"]
    ['toybox']
    """
    need(kind in get_args(Kind), f"one of {', '.join(get_args(Kind))}", kind)
    if kind == "protocols":
        return _protocols()
    if kind == "tables":
        from earsight.report.published import tables

        return tables()
    if kind == "recipes":
        return [(name, recipe.source) for name, recipe in RECIPES.items()]
    if kind == "presets":
        require("train", "torch", "torchvision")
        return [
            (f"{method} {name}", _first_line(function))
            for method in registry.names("method")
            for name, function in sorted(registry.load("method", method).PRESETS.items())
        ]
    one = kind.removesuffix("s")
    return [(name, registry.summary(one, name)) for name in registry.names(one)]


def recipes() -> str:
    """All recipes by what they train on and how they are measured, each with its source."""
    groups: dict[str, dict[str, list[tuple[str, str]]]] = {}
    for name, recipe in RECIPES.items():
        head = f"trained on {recipe.on}: {recipe.train}"
        groups.setdefault(head, {}).setdefault(recipe.evaluate, []).append((f"    {name}", recipe.source))
    parts = []
    for head, commands in groups.items():
        parts += ["\n".join([head, *(f"  {command}\n{columns(rows)}" for command, rows in commands.items())])]
    return "\n\n".join(parts)


def _facts(recipe: Recipe) -> dict[str, str]:
    train = recipe.train.replace("NAME", recipe.name)
    return {"method": recipe.method, "on": recipe.on, "train": train, "evaluate": recipe.evaluate}


def _protocols() -> list[tuple[str, str]]:
    """Each protocol by what sets it apart from `exact`."""
    from earsight.protocols import PROTOCOLS

    plain = asdict(PROTOCOLS["exact"])
    rows = []
    for name, protocol in sorted(PROTOCOLS.items()):
        differs = [f"{key} {value}" for key, value in asdict(protocol).items() if key != "name" and value != plain[key]]
        choices = ("threshold", "level", "confidence", "ciou", "gamma")
        words = [f"{key} {plain[key]}" for key in choices] if name == "exact" else ["as exact, but", *differs]
        rows.append((name, f"{protocol.hash}  {', '.join(words).replace('but,', 'but')}"))
    return rows


def _first_line(function: object) -> str:
    return (inspect.getdoc(function) or "").split("\n")[0]
