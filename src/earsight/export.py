"""Weights as a folder of ONNX graphs, checked against torch before it is kept, to run where there is no torch.

A `TwoTower` becomes three graphs, so that one picture meets many sounds for the price of one: `picture.onnx` and
`sound.onnx` give features, `compare.onnx` makes maps of aligned rows of both. Any other method is one `model.onnx`.
`config.json` holds what weights say of themselves.
"""

from __future__ import annotations

import copy
import json
import math
import shutil
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.export import Dim, export
from torch.nn.functional import conv1d

from earsight.checkpoint import Weights, load_weights, versions
from earsight.config import Inputs, need, to_json
from earsight.encoders.frontend import SILENCE, Spectrogram, density_window, tukey
from earsight.errors import EarsightError, UsageError, how_to_install
from earsight.header import find_weights
from earsight.methods.base import Features, Method, TwoTower
from earsight.onnxfile import COMPARE, CONFIG, FORMAT, PICTURE, SOUND, WHOLE, OnnxModel
from earsight.types import F32, U8, Maps

OPSET = 18
"""Of ONNX, for which runtimes since 2023 will do."""
LARGEST_DIFFERENCE = 1e-4
"""From torch's answers, with which an export is kept."""
PAIRS = (((0,), (0,)), ((0, 0, 0, 0, 0, 0), (0, 1, 2, 3, 4, 5)), ((0, 1, 2, 1, 0), (5, 4, 3, 2, 2)))
"""Which test pictures are compared with which test sounds: one pair, one picture with all sounds, and some of each."""


@dataclass(frozen=True)
class Exported:
    """What was written.

    Args:
        path: the folder.
        method: what is in it.
        opset: of ONNX.
        size: of all its files, in bytes.
        difference: the largest between its answers and torch's.
    """

    path: Path
    method: str
    opset: int
    size: int
    difference: float


def export_onnx(weights: Path | str, out: Path, opset: int = OPSET) -> Exported:
    """Write a weights file, or a run's, as a folder of ONNX graphs; one that does not answer as torch does is not kept.

    A folder that was exported before is replaced.
    """
    newest = _newest_opset()
    need(OPSET <= opset <= newest, f"an opset from {OPSET} to {newest}", opset, "Leave --opset out for the oldest.")
    loaded, out = load_weights(find_weights(weights)), Path(out)
    out.parent.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(prefix=f".{out.name}.", dir=out.parent) as name:
        folder = Path(name) / "export"
        folder.mkdir()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # torch warns of its own internals
            _write(loaded, folder, opset)
        apart = difference(loaded.model, folder)
        if not apart <= LARGEST_DIFFERENCE:
            raise EarsightError(
                f"Expected answers within {LARGEST_DIFFERENCE:g} of torch's, but those of the exported {loaded.name} "
                f"differ by {apart:.2g}, so nothing was written. Use the weights themselves, or another --opset."
            )
        size = sum(file.stat().st_size for file in folder.iterdir())
        if out.is_dir():
            shutil.rmtree(out)
        folder.rename(out)
    return Exported(out, loaded.name, opset, size, apart)


@torch.inference_mode(False)
def _write(loaded: Weights, folder: Path, opset: int) -> None:
    """Write the graphs and what they say of themselves."""
    model = copy.deepcopy(loaded.model).requires_grad_(False)
    replace_spectrograms(model)
    pictures = torch.from_numpy(example_pictures(loaded.inputs.image_size))
    sounds = torch.from_numpy(example_sounds(loaded.inputs)[:3])

    def write(graph: str, call: Callable[..., dict[str, Tensor]], inputs: dict[str, Tensor], rows: str) -> None:
        outputs = list(call(*inputs.values()))
        _save_graph(_Call(model, call), inputs, outputs, rows, folder / graph, opset, loaded.name)

    if isinstance(model, TwoTower):
        with torch.no_grad():
            image, audio = _named("picture", model.embed_images(pictures)), _named("sound", model.embed_sounds(sounds))

        def compare(*features: Tensor) -> dict[str, Tensor]:
            names = [name.partition("_")[2] for name in (*image, *audio)]
            rows, n = list(zip(names, features, strict=True)), len(image)
            return answers(model.compare(dict(rows[:n]), dict(rows[n:])))

        write(PICTURE, lambda x: _named("picture", model.embed_images(x)), {"pictures": pictures}, "pictures")
        write(SOUND, lambda x: _named("sound", model.embed_sounds(x)), {"sounds": sounds}, "sounds")
        write(COMPARE, compare, {**image, **audio}, "pairs")
    else:
        both = {"pictures": pictures, "sounds": sounds}
        write(WHOLE, lambda x, y: answers(model.localize(x, y)), both, "pairs")
    with torch.no_grad():
        maps = loaded.model.localize(pictures, sounds)
    (folder / CONFIG).write_text(json.dumps(_header(loaded, maps), indent=2) + "\n", encoding="utf-8")


def _named(side: str, features: Features) -> Features:
    """Features under the names that they have in a graph."""
    return {f"{side}_{name}": x for name, x in features.items()}


class _Call(nn.Module):
    """A function of a model as a module from tensors to tensors, which is what can be traced."""

    def __init__(self, model: Method, call: Callable[..., dict[str, Tensor]]) -> None:
        super().__init__()
        self.model, self.call = model, call

    def forward(self, *inputs: Tensor) -> tuple[Tensor, ...]:
        return tuple(self.call(*inputs).values())


def _largest(x: Tensor, size: list[int]) -> tuple[Tensor, Tensor]:
    """A pooling to one place, of which ONNX has no translation: the largest value, and its place, which nobody uses."""
    if tuple(size) != (1, 1):
        raise NotImplementedError(f"adaptive max pooling to {size}")
    return x.amax((2, 3), keepdim=True), x.new_zeros((), dtype=torch.int64)


def _save_graph(
    call: _Call, inputs: dict[str, Tensor], outputs: Sequence[str], rows: str, path: Path, opset: int, method: str
) -> None:
    """Trace a function of tensors whose first dimension counts `rows`, and write it as ONNX."""
    count = Dim(rows)
    try:
        with torch.no_grad():
            program = export(call, tuple(inputs.values()), dynamic_shapes=((({0: count},) * len(inputs)),))
            program = program.run_decompositions({torch.ops.aten.adaptive_max_pool2d.default: _largest})
            graph = torch.onnx.export(
                program, (), input_names=list(inputs), output_names=list(outputs), opset_version=opset, verbose=False
            )
    except Exception as error:  # torch raises many kinds, of which none says more than its words
        reason = " ".join(str(error).split())[:300]
        raise UsageError(
            f"Expected a method whose localize can be written as ONNX graphs, but got {method}: {reason} "
            "Use the weights; in a method of your own, use tensor operations alone, and x.shape[0] for len(x)."
        ) from error
    if graph is None:
        raise EarsightError("Expected a program from torch.onnx.export, but got none. Update torch.")
    for value in (*graph.model.graph.inputs, *graph.model.graph.outputs):
        if value.shape is not None:
            value.shape[0] = rows  # in place of the name that torch made up
    graph.save(path, external_data=False)


def answers(maps: Maps) -> dict[str, Tensor]:
    """A method's answers by name: dense, native where it is another map, and confidence where there is one."""
    found = {"dense": maps.dense, "native": maps.native, "confidence": maps.confidence}
    return {name: x for name, x in found.items() if x is not None and (name != "native" or x is not maps.dense)}


def _header(loaded: Weights, maps: Maps) -> dict[str, Any]:
    """What `localize` has to know, and where the model comes from."""
    kept = {key: value for key, value in loaded.meta.items() if key != "versions"}
    return {
        **kept,
        "format": FORMAT,
        "config": to_json(loaded.config),
        "inputs": to_json(loaded.inputs),
        "bounds": maps.bounds,
        "native_bounds": maps.native_bounds,
        "note": loaded.model.note,
        "versions": versions(),
        "trained_with": loaded.meta.get("versions", {}),
    }


def _newest_opset() -> int:
    """The newest opset that can be written here; what is needed to write any is asked for."""
    try:
        import onnx
        import onnxruntime  # noqa: F401
        import onnxscript  # noqa: F401
    except ImportError as error:
        raise UsageError(
            f"Expected onnx, onnxscript and onnxruntime, to export and check, but one is not here ({error}). "
            f"Install them: {how_to_install('export')}"
        ) from error
    return int(onnx.defs.onnx_opset_version())


class ExportSpectrogram(Spectrogram):
    """The spectrogram as one convolution, up to rounding.

    A window loses its mean, is tapered and transformed, and its first and last bin count half: all of that is linear,
    and so is one matrix. A convolution with it needs a hundredth of a ResNet's work, and unlike ONNX's own Fourier
    transform it is fast in every runtime.
    """

    kernels: Tensor

    def __init__(self, inputs: Inputs) -> None:
        super().__init__(inputs)
        self.register_buffer("kernels", dft_kernels(inputs), persistent=False)

    def forward(self, waveforms: Tensor) -> Tensor:
        sounds = waveforms.float().clamp(-1.0, 1.0).unsqueeze(1)
        real, imaginary = conv1d(sounds, self.kernels, stride=self.inputs.hop).square().chunk(2, 1)
        return ((real + imaginary + SILENCE).log() / 12).unsqueeze(1)


def dft_kernels(inputs: Inputs) -> Tensor:
    """Real and imaginary parts of a density's Fourier transform as filters, float32 (2 F, 1, window).

    >>> tuple(dft_kernels(Inputs()).shape)
    (514, 1, 512)
    """
    length = inputs.window
    window = density_window(tukey(length), inputs.rate).double()
    at = torch.arange(length, dtype=torch.float64)
    turns = torch.outer(torch.arange(inputs.bins, dtype=torch.float64), at) % length  # exact for sines of large angles
    angles = 2 * math.pi * turns / length
    parts = torch.stack([torch.cos(angles), -torch.sin(angles)]) * window
    parts = parts - parts.mean(-1, keepdim=True)
    parts[:, :: length // 2] *= 0.5**0.5
    return parts.flatten(0, 1).unsqueeze(1).float()


def replace_spectrograms(model: nn.Module) -> None:
    """Put convolutions in the place of a model's spectrograms."""
    for module in list(model.modules()):
        for name, child in module.named_children():
            if type(child) is Spectrogram:
                setattr(module, name, ExportSpectrogram(child.inputs))


def example_pictures(side: int) -> U8:
    """Noise, a flat grey and a soft gradient with a bright square, uint8 (3, 3, side, side)."""
    random = np.random.default_rng(0)
    noise = random.integers(0, 256, (3, side, side), dtype=np.uint8)
    slope = np.broadcast_to(np.linspace(0, 200, side, dtype=np.float32), (3, side, side)).astype(np.uint8)
    slope[:, side // 4 : side // 2, side // 4 : side // 2] = 255
    return np.stack([noise, np.full_like(noise, 128), slope])


def example_sounds(inputs: Inputs) -> F32:
    """Noise, quiet noise, a tone, a loud tone with an offset, clicks and silence, float32 (6, samples)."""
    random, at = np.random.default_rng(1), np.arange(inputs.samples) / inputs.rate
    noise = 0.2 * random.standard_normal(inputs.samples)
    tone = np.sin(2 * np.pi * 440 * at)
    clicks = (np.arange(inputs.samples) % (inputs.rate // 8) == 0).astype(np.float64)
    every = np.stack([noise, 1e-3 * noise, 0.5 * tone, 1.2 * tone + 0.3, clicks, np.zeros_like(tone)])
    return every.astype(np.float32)


@torch.inference_mode()
def difference(model: Method, folder: Path) -> float:
    """The largest difference between the answers of an export and of the method that it was made of.

    It is a share of the largest value where that is above 1, as for maps that are distances.
    """
    exported = OnnxModel(folder, "cpu")
    pictures, sounds = example_pictures(model.inputs.image_size), example_sounds(model.inputs)
    largest = 0.0
    for which in PAIRS:
        picture, sound = (np.array(one) for one in which)
        found = exported.localize(pictures[: picture.max() + 1], sounds, picture, sound)
        maps = model.localize(torch.from_numpy(pictures[picture]), torch.from_numpy(sounds[sound]))
        for name, wanted in answers(maps).items():
            got, value = getattr(found, name), wanted.numpy()
            if got is None or got.shape != value.shape:
                return float("inf")
            apart = np.abs(got - value).max() / max(1.0, float(np.abs(value).max()))
            largest = max(largest, float(np.nan_to_num(apart, nan=np.inf)))
    return largest
