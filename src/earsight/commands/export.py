"""`earsight export`: weights become one ONNX file, checked against torch, that `earsight localize` runs without it."""

from __future__ import annotations

import shlex
from pathlib import Path

from earsight.commands.screen import note, pairs, say, say_json
from earsight.config import need
from earsight.escape import visible
from earsight.files import refuse_existing


def run(weights: Path, out: Path, *, opset: int = 18, force: bool = False, json: bool = False) -> int:
    need(out.suffix == ".onnx", "an output name that ends in .onnx", out, "Add the ending.")
    refuse_existing([out], force)
    from earsight.export import export_onnx  # imports torch, which takes a while: what was typed is checked first

    done = export_onnx(weights, out, opset)
    facts = {"method": done.method, "opset": done.opset, "bytes": done.size, "difference": done.difference}
    if json:
        say_json({"file": str(done.path), **facts})
    else:
        say(f"{visible(str(done.path))}\n{pairs({**facts, 'difference': f'{done.difference:.1e} at most from torch'})}")
        note(f"next: {shlex.join(['earsight', 'localize', str(done.path), 'VIDEO'])}")
    return 0
