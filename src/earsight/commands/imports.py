"""`earsight import`: an official checkpoint becomes an earsight weights file."""

from __future__ import annotations

import shlex
from pathlib import Path

from earsight.commands.screen import note, pairs, say, say_json
from earsight.config import need
from earsight.errors import UsageError
from earsight.escape import visible
from earsight.official import import_checkpoint


def run(checkpoint: Path, out: Path, *, method: str = "", force: bool = False, json: bool = False) -> int:
    need(out.suffix == ".safetensors", "an output name that ends in .safetensors", out, "Add the ending.")
    if out.exists() and not force:
        raise UsageError(f"Expected no file at {out} yet, but got one. Use --force to replace it.")
    imported = import_checkpoint(checkpoint, out, method)
    facts = {**imported.meta["imported"], "method": imported.method, "protocol": imported.meta["protocol"]}
    if json:
        say_json({**facts, "weights": str(out)})
    else:
        say(f"{visible(str(out))}\n{pairs(facts)}")
        note(f"next: {shlex.join(['earsight', 'localize', str(out), 'VIDEO'])}")
    return 0
