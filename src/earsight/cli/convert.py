"""`earsight import` and `earsight export`: weights from published checkpoints, and for programs without torch."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import tyro

from earsight.cli.localize import Localize
from earsight.cli.screen import note, pairs, say, say_json
from earsight.cli.settings import Force, Json, command_line, require, word
from earsight.config import need
from earsight.escape import visible
from earsight.files import refuse_existing
from earsight.onnxfile import is_export


@dataclass(frozen=True, kw_only=True)
class Import:
    """Turn an official SLAVC, EZ-VSL, FNAC, MarginNCE or LVS checkpoint into earsight weights."""

    checkpoint: Annotated[Path, tyro.conf.Positional, word("CHECKPOINT", default=None)]
    """The .pth file as its authors published it. Its code is not run."""
    out: Annotated[Path, word("FILE", "-o", default=None)]
    """The .safetensors file to write."""
    method: Annotated[str, word("NAME")] = ""
    """What a file with the network of EZ-VSL becomes: ezvsl (by default), fnac, marginnce or slavc. All give the same
    maps; the name says what they are called and how they would be trained further."""
    force: Force = False
    json: Json = False


@dataclass(frozen=True, kw_only=True)
class Export:
    """Write weights as a folder of ONNX graphs, checked against torch, to localize with where there is no torch."""

    weights: Annotated[Path, tyro.conf.Positional, word("WEIGHTS", default=None)]
    """Weights file or folder of a run."""
    out: Annotated[Path, word("DIR", "-o", default=None)]
    """The folder to write."""
    opset: Annotated[int, word("N", default=None)] = 18
    """Version of ONNX's operators; 18 runs on every runtime since 2023."""
    force: Force = False
    json: Json = False


def run(settings: Import | Export) -> int:
    return run_import(settings) if isinstance(settings, Import) else run_export(settings)


def run_import(settings: Import) -> int:
    out = settings.out
    need(out.suffix == ".safetensors", "an output name that ends in .safetensors", out, "Add the ending.")
    refuse_existing([out], settings.force)
    require("train", "torch", "torchvision")
    from earsight.official import import_checkpoint

    imported = import_checkpoint(settings.checkpoint, out, settings.method)
    facts = {**imported.meta["imported"], "method": imported.method, "protocol": imported.meta["protocol"]}
    present(out, settings, {**facts, "weights": str(out)}, facts)
    return 0


def run_export(settings: Export) -> int:
    out = settings.out
    if out.exists() and not (out.is_dir() and not any(out.iterdir())):
        need(is_export(out), f"a new or empty folder at {out}", "something else", "Name another --out.")
        need(settings.force, f"no export at {out}", "one", "Use --force to replace it.")
    require("export", "onnx", "onnxscript", "torch")
    from earsight.export import export_onnx

    done = export_onnx(settings.weights, out, settings.opset)
    facts = {"method": done.method, "opset": done.opset, "bytes": done.size, "difference": done.difference}
    said = {**facts, "difference": f"{done.difference:.1e} at most from torch"}
    present(done.path, settings, {"folder": str(done.path), **facts}, said)
    return 0


def present(written: Path, settings: Import | Export, values: dict[str, Any], said: dict[str, Any]) -> None:
    """Print what was written, and how to use it."""
    if settings.json:
        say_json(values)
    else:
        say(f"{visible(str(written))}\n{pairs(said)}")
        note(f"next: {command_line(Localize(weights=written, inputs=(Path('VIDEO'),)))}")
