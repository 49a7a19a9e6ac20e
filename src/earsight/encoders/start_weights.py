"""Weights for the picture encoder: ImageNet's by name, a local file's, or none; and safe reading of such files."""

from __future__ import annotations

import re
import sys
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import safetensors
import safetensors.torch
import torch
from torch import Tensor, nn
from torchvision.models import ResNet18_Weights

from earsight import download
from earsight.errors import CheckpointError, DataError
from earsight.files import local_path, sha256

IMAGENET_URL: str = ResNet18_Weights.IMAGENET1K_V1.url
"""Where torchvision gets its file from; the name ends in the first digits of the file's sha256."""

_LARGEST = 256 << 20  # bytes; torchvision's ResNet-18 has 45 million
_PREFIXES = ("module.", "encoder.")
_ZIP = b"PK\x03\x04"  # by which torch knows a zip file
_SECRET, _FOLDER = 0x1, 0x10  # bits of a zip file's parts: encrypted, and a folder by MS-DOS's attributes
_SHOWN = 3  # names of each kind in a message; hundreds would hide the first one


def load_image_weights(module: nn.Module, weights: str) -> str:
    """Fill a ResNet-18 picture encoder in place and say in one line what was loaded.

    Args:
        module: encoder whose parts are named as torchvision names them (conv1, bn1, layer1..layer4).
        weights: "imagenet", "random" (leaves the encoder as it is), or the path of a .pth or .safetensors file.
    """
    if weights == "random":
        return "random weights"
    if weights == "imagenet":
        _fill(module, _imagenet(), _name(IMAGENET_URL))
        return "ImageNet ResNet-18 (torchvision IMAGENET1K_V1)"
    path = Path(weights).expanduser()
    _fill(module, read_state(path), str(path))
    return f"file {path.name}, sha256 {sha256(path)[:8]}"


def read_state(path: Path) -> dict[str, Tensor]:
    """The tensors of a .pth or .safetensors file on the CPU, wrappers and name prefixes taken off."""
    if path.suffix == ".safetensors":
        need_file(path)
        try:
            return strip(safetensors.torch.load_file(path))
        except safetensors.SafetensorError as error:
            raise damaged(path, error) from error
    return tensors(read_pickle(path), path)


def tensors(found: object, path: Path) -> dict[str, Tensor]:
    """The state dict in what a file held: itself, or under "model" or "state_dict" as trainers save it."""
    if isinstance(found, Mapping):
        inner = next((found[k] for k in ("model", "state_dict") if isinstance(found.get(k), Mapping)), found)
        state = {k: v for k, v in inner.items() if isinstance(k, str) and isinstance(v, Tensor)}
        if state and len(state) == len(inner):
            return strip(state)
        what = f"a dict with {', '.join(repr(k) for k in list(inner)[:_SHOWN])}" if inner else "an empty dict"
    else:
        what = f"a {type(found).__name__}"
    raise CheckpointError(
        f"Expected {path} to hold a state dict (names and tensors), but got {what}. "
        "Save it with torch.save(model.state_dict(), path)."
    )


def strip(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Names without the prefixes that wrappers add.

    >>> list(strip({"module.encoder.conv1.weight": torch.zeros(1)}))
    ['conv1.weight']
    """
    names = list(state)
    while any(names and all(n.startswith(prefix) for n in names) for prefix in _PREFIXES):
        names = [n.split(".", 1)[1] for n in names]
    return dict(zip(names, state.values(), strict=True))


def read_pickle(path: Path, allow: Sequence[Any] = ()) -> object:
    """What a file written by torch.save holds, on the CPU. Runs no code but torch's own and what `allow` lists."""
    need_file(path)
    try:
        _need_plain(path)
        with torch.serialization.safe_globals(list(allow)):
            return torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # flipped bytes make the reader raise nearly any class there is
        forbidden = re.search(r"GLOBAL (\S+)", str(error))
        if forbidden:
            raise CheckpointError(
                f"Expected only tensors and numbers in {path}, but got the code reference '{forbidden.group(1)}'. "
                "It was not run. Do not trust this file; if it is yours, save its state dict alone."
            ) from error
        raise damaged(path, error) from error


def _need_plain(path: Path) -> None:
    """Refuse a zip file with a changed byte, or one whose parts are not stored as torch stores them.

    torch reads changed values without a word, and of packed parts a few bytes could stand for terabytes.
    """
    with path.open("rb") as file:
        if file.read(len(_ZIP)) != _ZIP:
            return  # the format before zip files: its values are as long as the file
    with zipfile.ZipFile(path) as archive:
        parts = archive.infolist()
        plain = all(
            part.compress_type == zipfile.ZIP_STORED
            and not part.flag_bits & _SECRET
            and not part.external_attr & _FOLDER
            for part in parts
        )
        if not plain or sum(part.file_size for part in parts) > path.stat().st_size or archive.testzip() is not None:
            raise ValueError("not the bytes that torch.save wrote")


def need_file(path: Path) -> None:
    """Refuse a path that is no file, in words that fit a mistyped name too."""
    local_path(path)
    if not path.is_file():
        what = "a folder" if path.is_dir() else "nothing there"
        raise CheckpointError(f"Expected a weights file at {path}, but got {what}. Check the path.")


def damaged(path: Path, error: Exception) -> CheckpointError:
    """The error for a file whose bytes make no sense."""
    reason = next(iter(str(error).splitlines()), "") or type(error).__name__
    return CheckpointError(
        f"Expected readable weights in {path}, but got a damaged file or another format ({reason[:120]}). "
        "Get it again, or name another file."
    )


def layout_faults(expected: Mapping[str, Sequence[int]], found: Mapping[str, Tensor]) -> str:
    """How the tensors found differ from the names and shapes expected; empty when they do not.

    >>> layout_faults({"a": (2,), "b": (1,)}, {"a": torch.zeros(3), "c": torch.zeros(1)})
    'missing b; unknown c; shape of a is (3,) where (2,) is needed'
    """
    lists = {
        "missing ": [k for k in expected if k not in found],
        "unknown ": [k for k in found if k not in expected],
        "shape of ": [
            f"{k} is {tuple(found[k].shape)} where {tuple(shape)} is needed"
            for k, shape in expected.items()
            if k in found and tuple(found[k].shape) != tuple(shape)
        ],
    }
    return "; ".join(
        word + ", ".join(names[:_SHOWN]) + (f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else "")
        for word, names in lists.items()
        if names
    )


def _fill(module: nn.Module, state: dict[str, Tensor], source: str) -> None:
    own = module.state_dict()
    state = {k: v for k, v in state.items() if not k.startswith("fc.")}
    # Files older than the batch counters lack them; nothing computes with them here.
    expected = {k: v.shape for k, v in own.items() if k in state or not k.endswith(".num_batches_tracked")}
    faults = layout_faults(expected, state)
    if faults:
        raise CheckpointError(
            f"Expected {source} to hold the {len(own)} tensors of this encoder in torchvision's ResNet-18 layout, "
            f"but got {len(state)}: {faults}. Name a file of a ResNet-18: {_HOW}."
        )
    module.load_state_dict(state, strict=False)  # copies into float32, whatever the file's precision


_HOW = "--method.encoders.weights FILE (--object-weights FILE for an object prior), or random"


def _imagenet() -> dict[str, Tensor]:
    """Torchvision's file out of torch's hub cache, where it may have been for years, downloaded there if it is not."""
    name = _name(IMAGENET_URL)
    folder = Path(torch.hub.get_dir()) / "checkpoints"
    digits = re.sub(r".*-([0-9a-f]+)\..*", r"\1", name)
    if not (folder / name).exists():
        sys.stderr.write(f"Downloading {IMAGENET_URL} to {folder}\n")
    try:
        file = download.fetch(IMAGENET_URL, digits, name, folder, max_bytes=_LARGEST, moved_by="TORCH_HOME")
    except DataError as error:
        raise CheckpointError(f"{error} Or name a local file: {_HOW}.") from error
    return read_state(file)


def _name(url: str) -> str:
    return url.rsplit("/", 1)[-1]
