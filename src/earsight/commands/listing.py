"""`earsight list`: the names that other commands take, each with one line about it."""

from __future__ import annotations

import inspect
from dataclasses import asdict
from typing import Literal, get_args

from earsight import registry
from earsight.commands.screen import columns, say, say_json
from earsight.config import need

Kind = Literal["methods", "sets", "metrics", "protocols", "recipes", "presets", "tables"]


def run(kind: str, *, json: bool = False) -> int:
    rows = entries(kind)
    if json:
        say_json([{"name": name, "summary": summary} for name, summary in rows])
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
        from earsight.published import tables

        return tables()
    if kind == "recipes":
        from earsight.recipes import RECIPES

        return [(name, _first_line(function)) for name, function in sorted(RECIPES.items())]
    if kind == "presets":
        return [
            (f"{method} {name}", _first_line(function))
            for method in registry.names("method")
            for name, function in sorted(registry.load("method", method).PRESETS.items())
        ]
    one = kind.removesuffix("s")
    return [(name, registry.summary(one, name)) for name in registry.names(one)]


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
