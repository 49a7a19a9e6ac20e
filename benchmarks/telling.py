"""What a measurement of its own says: the command that made it, its numbers on the screen, and all of it as JSON."""

from __future__ import annotations

import argparse
import json
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.hardware import commit, device
from earsight.files import write_text


def parser(module: str, description: str, pack: str = "") -> argparse.ArgumentParser:
    """What every measurement of its own is asked; `pack` is how the one that it reads is made, if it reads one."""
    found = argparse.ArgumentParser(prog=f"python -m benchmarks.{module}", description=description)
    if pack:
        found.add_argument("--pack", type=Path, required=True, help=f"made by {pack}")
    found.add_argument("--device", type=device, choices=("cpu", "cuda"), default="cuda")
    found.add_argument("--json", type=Path)
    found.add_argument("--commit", default=commit(), help="of the code, where there is no checkout to tell")
    return found


def told(module: str, words: Sequence[str]) -> str:
    """The command without the places of this machine.

    >>> told("epoch", ["--pack", "here/p", "--out=r", "--epochs", "2", "--commit", "abc", "--json", "x/epoch.json"])
    'python -m benchmarks.epoch --pack PACK --out RUN --epochs 2 --json benchmarks/results/epoch.json'
    """
    words = [part for word in words for part in (word.split("=", 1) if word.startswith("--") else [word])]
    places = {"--pack": "PACK", "--out": "RUN"}
    kept: list[str] = []
    for before, word in zip(["", *words], words, strict=False):
        if before == "--commit":
            kept.pop()
        elif before == "--json":
            kept.append(f"benchmarks/results/{Path(word).name}")
        else:
            kept.append(places.get(before, word))
    return f"python -m benchmarks.{module} " + shlex.join(kept)


def tell(found: Mapping[str, Any], path: Path | None) -> None:
    """Print the numbers of a measurement, and keep all of it in a file."""
    for name, value in found["numbers"].items():
        print(f"{name}: {value:,.4g}")
    keep(found, path)


def keep(found: Mapping[str, Any], path: Path | None) -> None:
    """A measurement in a file, if there is one for it."""
    if path is not None:
        write_text(path, json.dumps(found, indent=1) + "\n")
