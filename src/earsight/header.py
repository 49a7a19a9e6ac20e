"""What weights and exported models say of themselves: plain JSON, out of a file that may be a stranger's."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from earsight import registry
from earsight.errors import CheckpointError
from earsight.files import local_path, parse_json

FORMAT = 1
WEIGHTS = "weights.safetensors"
_NUMBER = (int, float)
_TEXT = (str,)
_PART = (dict,)
_NONE = type(None)

_OPTIONAL: dict[str, tuple[type, ...]] = {
    "protocol": _TEXT,
    "universal_level": (*_NUMBER, _NONE),
    "calibration": (*_PART, _NONE),
    "uncalibrated": _TEXT,
    "calibration.threshold": _NUMBER,
    "calibration.recall": _NUMBER,
    "calibration.false_alarm": _NUMBER,
    "calibration.negatives": _NUMBER,
    "metrics": _PART,
    "imported": _PART,
    "knows": _TEXT,
    "training": _PART,
    "training.job": _PART,
    "training.job.on": _TEXT,
    "training.job.val": _TEXT,
    "training.job.data": (*_TEXT, _NONE),
    "training.job.optim": _PART,
    "training.job.supervision": _PART,
    "training.job.supervision.weight": _NUMBER,
}
"""What may be missing from weights and exported models, but is read where it is there."""
_NOT_WITHOUT = ("calibration.threshold",)
"""What the part around it has to have."""


def unusable(
    header: dict[str, Any], needed: Mapping[str, type], optional: Mapping[str, tuple[type, ...]] = _OPTIONAL
) -> list[str]:
    """Names of what is missing or of another kind than it has to be, so that nobody who reads it looks again.

    >>> unusable({"method": 3, "calibration": {"threshold": "high"}}, {"method": str})
    ['method', 'calibration.threshold']
    >>> unusable({"method": "slavc", "calibration": {}}, {"method": str})
    ['calibration.threshold']
    """
    wrong = [key for key, kind in needed.items() if not isinstance(header.get(key), kind)]
    for key, kinds in optional.items():
        *above, last = key.split(".")
        part: Any = header
        for name in above:
            part = part.get(name) if isinstance(part, dict) else None
        if isinstance(part, dict) and (last in part or key in _NOT_WITHOUT) and not _is_one(part.get(last), kinds):
            wrong.append(key)
    return wrong


def _is_one(value: Any, kinds: tuple[type, ...]) -> bool:
    if isinstance(value, float) and not math.isfinite(value):
        return False
    return isinstance(value, kinds) and not isinstance(value, bool)


def find_weights(path: Path | str) -> Path:
    """The weights file meant by a path: the file itself, or the one inside a run's folder."""
    path = local_path(path)
    if path.is_dir():
        if not (path / WEIGHTS).is_file():
            do = "Let the training finish (earsight train ... --resume), or name a weights file."
            if runs := sorted(str(file.parent) for file in path.glob(f"*/{WEIGHTS}")):
                do = f"Name the run in it: {' or '.join(runs[:3])}."
            raise CheckpointError(f"Expected {WEIGHTS} in the run {path}, but it is not there. {do}")
        return path / WEIGHTS
    if not path.is_file():
        do = "Check the path."
        if str(path) in registry.names("method"):
            do = f"That is a method: train it (earsight train {path} --on SET --out RUN), then name RUN."
        raise CheckpointError(f"Expected a weights file or a run's folder, but there is nothing at {path}. {do}")
    return path


def read_header(path: Path | str) -> dict[str, Any]:
    """What a weights file says about itself, without reading the weights or importing the method."""
    import safetensors  # which an exported model does without

    path = find_weights(path)
    try:
        with safetensors.safe_open(path, framework="np") as file:
            text = (file.metadata() or {}).get("earsight")
    except safetensors.SafetensorError as error:
        raise CheckpointError(
            f"Expected an earsight weights file, but {path} is not one ({error}). "
            "For the published .pth files of SLAVC, EZ-VSL, FNAC or LVS use: earsight import FILE"
        ) from error
    if text is None:
        raise CheckpointError(f"Expected an earsight weights file, but {path} holds tensors without earsight's header.")
    header = _parsed(text, path)
    if header.get("format") != FORMAT:
        raise CheckpointError(
            f"Expected weights of format {FORMAT}, but {path} has format {header.get('format')}. "
            f"Written by earsight {_writer(header)}; install that version or newer."
        )
    kinds = {"method": str, "config": dict, "inputs": dict, "versions": dict}
    wrong = unusable(header, kinds)
    if wrong:
        raise CheckpointError(
            f"Expected {', '.join(kinds)} in the header of {path}, but got no usable {', '.join(wrong)}. "
            "The file is damaged; get or make it again."
        )
    return header


def _writer(header: dict[str, Any]) -> str:
    found = header.get("versions")
    return str(found.get("earsight", "unknown")) if isinstance(found, dict) else "unknown"


def _parsed(text: str, path: Path) -> dict[str, Any]:
    try:
        header = parse_json(text)
    except ValueError as error:
        raise CheckpointError(
            f"Expected JSON in the header of {path}, but got: {error}. The file is damaged; get or make it again."
        ) from error
    return header if isinstance(header, dict) else {}
