"""What an ONNX file may hold: plain operators and tensors of its own. Neither onnx nor a runtime is needed to look."""

from __future__ import annotations

import mmap
from pathlib import Path

from earsight.errors import CheckpointError

MOST_FIELDS = 1 << 20
"""Values that are looked at in a file, which are few: a tensor's numbers are one."""
OTHER_FILES, BLOCKS, SPARSE = "tensors in other files", "loops or conditions", "sparse tensors"
_INNER: dict[str, dict[int, str]] = {
    "model": {7: "graph"},
    "graph": {1: "node", 5: "tensor"},
    "node": {5: "attribute"},
    "attribute": {5: "tensor", 10: "tensor"},
    "tensor": {},
}
"""Messages of onnx.proto that are looked into, by the number of their field."""
_REFUSED: dict[str, dict[int, str]] = {
    "model": {20: "training steps", 25: "functions"},
    "graph": {15: SPARSE},
    "node": {},
    "attribute": {6: BLOCKS, 11: BLOCKS, 22: SPARSE, 23: SPARSE},
    "tensor": {13: OTHER_FILES},
}
"""Fields that no file of ours has."""
_DOMAIN, _LOCATION = ("node", 7), ("tensor", 14)


def need_plain_graph(path: Path) -> None:
    """Refuse a file that could run for ever, read other files, or run more than ONNX's own operators."""
    do = "Write it again: earsight export WEIGHTS"
    try:
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            found = _foreign(data)
    except (ValueError, IndexError) as error:
        raise CheckpointError(f"Expected an ONNX model, but {path} cannot be run ({error}). {do}") from error
    if found:
        raise CheckpointError(f"Expected plain operators of ONNX in {path}, but got {found}. {do}")


def _foreign(data: mmap.mmap) -> str:
    """What is in a file that may not be there; empty for a good one. A ValueError or IndexError for no ONNX at all."""
    left = [("model", 0, len(data))]
    fields = 0
    while left:
        message, at, end = left.pop()
        while at < end:
            fields += 1
            if fields > MOST_FIELDS:
                return f"more than {MOST_FIELDS} values"
            key, at = _varint(data, at)
            field, kind = key >> 3, key & 7
            first, value = at, 0
            if kind == 0:
                value, at = _varint(data, at)
            elif kind == 2:
                size, first = _varint(data, at)
                at = first + size
            elif kind in (1, 5):
                at += 8 if kind == 1 else 4
            if kind not in (0, 1, 2, 5) or at > end:
                raise ValueError(f"no protobuf at byte {first}")
            if field in _REFUSED[message]:
                return _REFUSED[message][field]
            if (message, field) == _LOCATION and value:
                return OTHER_FILES
            if (message, field) == _DOMAIN and (name := data[first:at]) not in (b"", b"ai.onnx"):
                return f"an operator of {name[:40].decode(errors='replace')!r}"
            if kind == 2 and field in _INNER[message]:
                left.append((_INNER[message][field], first, at))
    return ""


def _varint(data: mmap.mmap, at: int) -> tuple[int, int]:
    """A number of 7 bits a byte, lowest first, and where it ends."""
    value = 0
    for shift in range(0, 70, 7):
        byte = data[at]
        value |= (byte & 127) << shift
        at += 1
        if byte < 128:
            return value, at
    raise ValueError(f"no protobuf at byte {at}")
