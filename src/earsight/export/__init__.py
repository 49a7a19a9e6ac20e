"""Weights as one ONNX file, checked against torch before it is kept, for people who ship a model without torch."""

from __future__ import annotations

import copy
import json
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.export import Dim

from earsight.checkpoint import Weights, load_weights, versions
from earsight.config import need, to_json
from earsight.errors import EarsightError, UsageError
from earsight.export.check import difference, pictures, remembers, sounds
from earsight.export.front import replace_spectrograms
from earsight.export.parts import HEARD, answers, cannot, take_apart
from earsight.export.parts import SEEN as FRAMES
from earsight.files import write_atomically
from earsight.header import find_weights
from earsight.onnxfile import FORMAT, INSTALL, KEY, KNOWN, SEEN
from earsight.types import Maps

OPSET = 18
"""Of ONNX, for which runtimes since 2023 will do."""
MOST_APART = 1e-4
"""Largest difference from torch's answers with which a file is kept."""


@dataclass(frozen=True)
class Exported:
    """What was written.

    Args:
        path: the file.
        method: what is in it.
        opset: of ONNX.
        size: of the file, in bytes.
        difference: the largest between its answers and torch's.
    """

    path: Path
    method: str
    opset: int
    size: int
    difference: float


def export_onnx(weights: Path | str, out: Path, opset: int = OPSET) -> Exported:
    """Write a weights file, or a run's, as ONNX; a file that does not answer as torch does is not kept.

    The graph takes `frames` uint8 (P, 3, S, S), `waveforms` float32 (M, N), and `picture` and `sound`, int64 (B,),
    which say what each pair consists of: every picture and every sound is encoded once. It gives `dense` (B, h, w),
    `native` where the method draws another map, and `confidence` (B,) where it has one.
    """
    latest = _latest_opset()
    need(OPSET <= opset <= latest, f"an opset from {OPSET} to {latest}", opset, "Leave --opset out for the oldest.")
    loaded = load_weights(find_weights(weights))
    apart = 0.0

    def write(beside: Path) -> None:
        nonlocal apart
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # torch warns of its own insides
            _write(loaded, beside, opset)
            if not remembers(loaded.inputs, beside):
                _write(loaded, beside, opset, remember=False)
        apart = difference(loaded.model, beside)
        if not apart <= MOST_APART:
            raise EarsightError(
                f"Expected answers within {MOST_APART:g} of torch's, but those of the exported {loaded.name} differ by "
                f"{apart:.2g}, so no file was written. Use the weights themselves, or another --opset."
            )

    write_atomically(Path(out), write)
    return Exported(Path(out), loaded.name, opset, Path(out).stat().st_size, apart)


@torch.inference_mode(False)
def _write(loaded: Weights, path: Path, opset: int, remember: bool = True) -> None:
    """Write the graph and what it says of itself; with `remember`, one that can be given what it made of pictures."""
    model = copy.deepcopy(loaded.model).requires_grad_(False)
    replace_spectrograms(model)
    seen, heard = torch.from_numpy(pictures(loaded.inputs.image_size)), torch.from_numpy(sounds(loaded.inputs)[:3])
    pairs = take_apart(model, seen, heard)
    known = [x[:2] for x in pairs.see(seen)] if remember else []
    maps = loaded.model.localize(seen, heard)
    picture, sound = torch.tensor([0, 1, 2, 2, 4 if known else 0]), torch.tensor([0, 1, 0, 1, 1])
    count, more = Dim("pairs"), Dim("known_pictures")
    try:
        program = torch.onnx.export(
            pairs,
            (seen, heard[:2], picture, sound, known),
            dynamo=True,
            opset_version=opset,
            input_names=[FRAMES, HEARD, "picture", "sound", *(f"{KNOWN}{i}" for i in range(len(known)))],
            output_names=[*answers(maps), *(f"{SEEN}{i}" for i in range(len(known)))],
            dynamic_shapes=({0: Dim("pictures")}, {0: Dim("sounds")}, {0: count}, {0: count}, [{0: more}] * len(known)),
            verbose=False,
        )
    except torch.onnx.OnnxExporterError as error:
        raise cannot(loaded.name, error) from error
    if program is None:
        raise EarsightError("Expected a program from torch.onnx.export, but got none. Update torch.")
    _leave_out(program.model.graph, known)
    program.model.metadata_props[KEY] = json.dumps(_header(loaded, maps))
    program.save(path, external_data=False)


def _leave_out(graph: Any, known: Sequence[Tensor]) -> None:
    """Let what is known of pictures be left out when a file is run: none is known then."""
    import onnx_ir

    given = {value.name: value for value in graph.inputs}
    for i, made in enumerate(known):
        value = given[f"{KNOWN}{i}"]
        value.const_value = onnx_ir.tensor(made[:0].numpy(), name=value.name)
        graph.register_initializer(value)


def _header(loaded: Weights, maps: Maps) -> dict[str, Any]:
    """What `localize` has to know, and where the file comes from."""
    kept = {key: value for key, value in loaded.meta.items() if key != "versions"}
    trained = loaded.meta.get("versions", {})
    return {
        **kept,
        "format": FORMAT,
        "config": to_json(loaded.config),
        "inputs": to_json(loaded.inputs),
        "bounds": maps.bounds,
        "native_bounds": maps.native_bounds,
        "remark": loaded.model.note,
        "versions": versions(),
        "trained_with": trained,
    }


def _latest_opset() -> int:
    """The newest opset that can be written here; what is needed to write any is asked for."""
    try:
        import onnx
        import onnxruntime  # noqa: F401
        import onnxscript  # noqa: F401
    except ImportError as error:
        raise UsageError(
            f"Expected onnx, onnxscript and onnxruntime, to export and check, but one is not here ({error}). {INSTALL}"
        ) from error
    return int(onnx.defs.onnx_opset_version())
