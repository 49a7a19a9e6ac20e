"""Fuzzing: damaged and hostile files of every format that earsight opens, given to the commands that open them.

    python tests/fuzz/test_fuzz.py --count 3000 --results fuzz.jsonl    killed, the same command goes on
    python tests/fuzz/test_fuzz.py --case state:17 --keep DIR           one input again, kept with what was said of it

An input is a function of (seed, format, number): a valid file, changed, and the command that gets it. Every input runs
in a process of its own, forked from one that has imported everything and computed nothing. A command passes when it
ends with exit code 0, 1 or 2 and at most one line about what is wrong; it fails when it ends by a signal, by "internal
error" or by any exception that leaves it, when it takes 20 s of a core, or 1 GiB more memory than with the valid file.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import io
import itertools
import json
import os
import pkgutil
import random
import re
import resource
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
import traceback
import warnings
import zipfile
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

TESTS = Path(__file__).resolve().parents[1]
CPU_SECONDS, CLOCK_SECONDS, MEMORY, LONGEST = 20, 60, 1 << 30, 2000
FLAGS = ["--batch-size", "4", "--device", "cpu"]
WEIGHTS, TONE, PICTURE = "../common/tiny.safetensors", "../common/tone.wav", "../common/picture.png"
TINY = [
    *("--method.encoders.image", "small", "--method.encoders.audio", "small"),
    *("--method.encoders.width", "4", "--method.dim", "8", "--inputs.rate", "4000"),
    *("--inputs.image-size", "32", "--inputs.resize", "32", "--inputs.seconds", "0.5", "--inputs.window", "128"),
    *("--inputs.hop", "64", "--optim.epochs", "2", "--optim.batch-size", "4", "--optim.save-every", "1"),
]


# What is put in the place of something good.

INTEGERS = (0, 1, -1, 0x7FFF, 0xFFFF, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 0x7FFFFFFFFFFFFFFF, 0xFFFFFFFFFFFFFFFF)
RAW = (
    *("NaN", "Infinity", "-Infinity", "1e999", "-1", "0", "-0.0", "1e308", "5e-324", "2147483648", "4294967295"),
    *("18446744073709551616", "9" * 400, "9" * 5000, "true", "null", '""', "[]", "{}", "[[]]", '{"a": 1}', "0.5"),
    *('"x"', '"\\ud800"', '"\\u0000"', '"\\u001b[2J"', '"../../../etc/passwd"', '"/"', '"nan"', '"1e5"', "[1, 2]"),
    *("[" * 100_000, "[" * 100_000 + "]" * 100_000, '{"a":' * 50_000 + "1" + "}" * 50_000, '"' + "x" * 200_000 + '"'),
)
"""Values as JSON writes them."""
TEXTS = (
    *("", "0", "-1", "nan", "inf", "1e999", "0x10", "1_0", "٣", "2147483648", "9" * 400, "9" * 5000, "1e-320", "True"),
    *("x" * 200_000, "\0", "\x1b[2J", "\u202e", "\ud7ff", "é" * 300, "../../../etc/passwd", "/dev/zero", "%s%n", "'"),
    *('"', '"' * 3, ",", "," * 1000, ";", "\t", "\n", "\r", "\r\n" * 1000, "\x0b", "\ufeff", "a" * 300 + ".jpg", "+"),
    *("<a>" * 20_000, "<a>" * 20_000 + "</a>" * 20_000, '<!DOCTYPE a [<!ENTITY b "c">]>', "&b;", "&#0;", "]]>", "<!--"),
    *("<?xml version='1.0' encoding='utf-7'?>", "(4294967296, 4294967296)", "()", "(-1,)", "(0, 0)", "(1000000,) * 9"),
    *("|O", "<U999999999", "<f16", ">c8", "<M8[s]", "|V8", "|S0", "<U0", "[('a', '<f4')]", "(" * 5000, "lambda: 0"),
)
"""What a token of a text becomes."""
TOKEN = re.compile(r'"[^"\n]*"|-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?|\w+|[^\w\s]|\s+')


# Changes. Each takes what is there and a generator, and gives something else.

Random = random.Random


def binary(data: bytes, draw: Random) -> bytes:
    """Bytes, changed in one to four places; headers, and what ends a file, are hit most."""
    out = bytearray(data)
    for _ in range(draw.choice((1, 1, 2, 4))):
        draw.choice(BINARY)(out, draw)
    return bytes(out)


def _place(out: bytearray, draw: Random) -> int:
    size = max(1, len(out))
    near = draw.choice((16, 64, 600, size, size, size))
    at = draw.randrange(min(near, size))
    return size - 1 - at if draw.random() < 0.2 else at


def _flip(out: bytearray, draw: Random) -> None:
    for _ in range(draw.choice((1, 1, 3, 30)) if out else 0):
        out[_place(out, draw)] ^= 1 << draw.randrange(8)


def _overwrite(out: bytearray, draw: Random) -> None:
    size, order = draw.choice((1, 2, 4, 8)), draw.choice(("little", "big"))
    at = _place(out, draw)
    at -= at % draw.choice((1, size))
    value = draw.choice((*INTEGERS, len(out), draw.getrandbits(63)))
    out[at : at + size] = (value % (1 << 8 * size)).to_bytes(size, order)  # type: ignore[arg-type]


def _relength(out: bytearray, draw: Random) -> None:
    """Change a number that may be a length: one that is not 0 and reaches no further than the end."""
    size, order = draw.choice((2, 4, 8)), draw.choice(("<", ">"))
    code = order + {2: "H", 4: "I", 8: "Q"}[size]
    found = [at for at in range(min(len(out), 4000) - size) if 0 < struct.unpack_from(code, out, at)[0] <= len(out)]
    if found:
        at = draw.choice(found)
        value = struct.unpack_from(code, out, at)[0]
        value = draw.choice((value + 1, value - 1, 2 * value, value // 2, value << 16, -value, value + 8))
        struct.pack_into(code, out, at, value % (1 << 8 * size))


def _truncate(out: bytearray, draw: Random) -> None:
    del out[_place(out, draw) :]


def _remove(out: bytearray, draw: Random) -> None:
    at = _place(out, draw)
    del out[at : at + draw.choice((1, 4, 16, 512))]


def _zero(out: bytearray, draw: Random) -> None:
    at = _place(out, draw)
    size = min(draw.choice((4, 32, 512, 8192)), len(out) - at)
    out[at : at + size] = bytes([draw.choice((0, 255))]) * size


def _insert(out: bytearray, draw: Random) -> None:
    at = _place(out, draw)
    out[at:at] = draw.randbytes(draw.choice((1, 4, 16, 1024)))


def _splice(out: bytearray, draw: Random) -> None:
    at, begin, size = _place(out, draw), _place(out, draw), draw.choice((4, 64, 512, 8192))
    block = bytes(out[begin : begin + size]) * draw.choice((1, 1, 20))
    out[at : at + draw.choice((0, len(block)))] = block


BINARY = (_flip, _flip, _overwrite, _overwrite, _relength, _truncate, _remove, _zero, _insert, _splice)


def text(data: bytes, draw: Random) -> bytes:
    """A text with tokens exchanged, doubled, deleted or put in; sometimes with changed bytes."""
    if draw.random() < 0.15:
        return binary(data, draw)
    tokens = TOKEN.findall(data.decode())
    for _ in range(draw.choice((1, 1, 1, 2, 4))):
        at = draw.randrange(len(tokens)) if tokens else 0
        new = draw.choice(TEXTS)
        how = draw.randrange(7)
        if how < 2:
            tokens[at : at + 1] = [new]
        elif how == 5 and tokens:  # one character
            place = draw.randrange(len(tokens[at]))
            tokens[at] = tokens[at][:place] + draw.choice("0123456789.-eE,;:_ axZ/\\'\"") + tokens[at][place + 1 :]
        elif how == 6:  # a number next to what was there
            numbers = [i for i, token in enumerate(tokens) if token.isascii() and token.isdecimal() and len(token) < 20]
            if numbers:
                at = draw.choice(numbers)
                tokens[at] = draw.choice(("0", "1", "-" + tokens[at], tokens[at] + "0", str(int(tokens[at]) + 1)))
        elif how == 2:
            tokens[at:at] = [new]
        elif how == 3:
            del tokens[at : at + draw.choice((1, 1, 2, 20))]
        else:
            tokens[at:at] = tokens[draw.randrange(len(tokens)) :][: draw.choice((1, 2, 20))] if tokens else [new]
    return "".join(tokens).encode()


def tree(value: Any, draw: Random, others: Sequence[Any]) -> Any:
    """Nested dicts and lists with one to three changes: a value becomes another, a key goes, changes or is new."""
    for _ in range(draw.choice((1, 1, 2, 3))):
        nodes = list(_nodes(value))
        if not nodes:
            return draw.choice(others)
        node, key = draw.choice(nodes)
        how = draw.randrange(8)
        if how == 0:
            del node[key]
        elif how == 1 and isinstance(node, dict):
            node[draw.choice(("", "x", "\0", "__class__", "a.b", 1, "id", "\x1b[2J"))] = node.pop(key)
        elif how == 2 and isinstance(node, list):
            node[key:key] = [node[key]] * draw.choice((1, 3, 1000))
        elif how == 3:  # numbers next to what was there
            node[key] = node[key] * -1 if isinstance(node[key], int | float) else [node[key]]
        else:
            node[key] = draw.choice(others)
    return value


def _nodes(value: Any) -> Any:
    for key in list(value) if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ():
        yield value, key
        yield from _nodes(value[key])


def json_text(data: bytes, draw: Random) -> bytes:
    """JSON with changed values and keys, written as some programs write it and others do not read it."""
    if draw.random() < 0.3:
        return text(data, draw)
    changed = json.dumps(tree(json.loads(data), draw, [f"@{i}@" for i in range(len(RAW))]))
    changed = re.sub(r'"@(\d+)@"', lambda found: RAW[int(found[1])], changed)
    if draw.random() < 0.1:  # a key twice
        changed = re.sub(r'("\w+"): ', lambda found: f"{found[1]}: {draw.choice(RAW)}, {found[1]}: ", changed, count=1)
    return changed.encode()


def json_lines(data: bytes, draw: Random) -> bytes:
    lines = data.splitlines(keepends=True)
    at = draw.randrange(len(lines))
    lines[at] = json_text(lines[at], draw) + b"\n"
    return b"".join(lines)


def safetensors(data: bytes, draw: Random) -> bytes:
    """Another header with the right length: names, shapes, offsets, or the JSON of earsight inside of it."""
    if draw.random() < 0.2:
        return binary(data, draw)
    size = int.from_bytes(data[:8], "little")
    head = json.loads(data[8 : 8 + size])
    if draw.random() < 0.7:
        own = json_text(head["__metadata__"]["earsight"].encode(), draw)
        head["__metadata__"]["earsight"] = own.decode(errors="replace")
        new = json.dumps(head).encode()
    else:
        new = json_text(json.dumps(head).encode(), draw)
    return len(new).to_bytes(8, "little") + new + data[8 + size :]


def archive(data: bytes, draw: Random) -> bytes:
    """A zip file whose members are changed inside, doubled, renamed, dropped or packed, with the right sums."""
    if draw.random() < 0.15:
        return binary(data, draw)
    with zipfile.ZipFile(io.BytesIO(data)) as old:
        members = [(info.filename, old.read(info)) for info in old.infolist()]
    at, how = draw.randrange(len(members)), draw.random()
    name, inside = members[at]
    if how < 0.6:
        members[at] = name, npy(inside, draw) if inside[:6] == b"\x93NUMPY" else binary(inside, draw)
    elif how < 0.7:
        members[at:at] = [members[draw.randrange(len(members))]] * draw.choice((1, 1, 30))
    elif how < 0.8:
        changed = draw.choice((*TEXTS[:30], "../" + name, "/" + name, name + "/", name.upper(), name[:-1])) or "x"
        members[at] = changed[:60_000], inside
    elif how < 0.9:
        del members[at]
    else:
        members[at] = name, draw.choice((inside * 50, bytes(draw.choice((0, 100_000_000))), b"", inside[:-1]))
    packing = draw.choice((*[zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED] * 5, zipfile.ZIP_BZIP2))
    packing = zipfile.ZIP_DEFLATED if sum(len(inside) for _, inside in members) > 1_000_000 else packing
    made = io.BytesIO()
    with warnings.catch_warnings(), zipfile.ZipFile(made, "w", packing) as new:
        warnings.simplefilter("ignore")
        for name, inside in members:
            new.writestr(zipfile.ZipInfo(name), inside, packing)
    return made.getvalue()


def npy(data: bytes, draw: Random) -> bytes:
    """An array of other values, another type or shape, with another header of the right length, or changed bytes."""
    how = draw.random()
    if how < 0.2:
        return binary(data, draw)
    if how < 0.5:
        size = int.from_bytes(data[8:10], "little")
        head = text(data[10 : 10 + size].rstrip(), draw)[:65_000]
        return data[:8] + len(head).to_bytes(2, "little") + head + data[10 + size :]
    array = np.load(io.BytesIO(data))
    if how < 0.75 and array.size:
        new = TEXTS[:30] if array.dtype.kind == "U" else (np.nan, np.inf, -np.inf, 0, -1, 1e4, 65504, 6e-8)
        flat = array.reshape(-1)
        for _ in range(draw.choice((1, 1, 3, array.size))):
            flat[draw.randrange(array.size)] = draw.choice(new)  # type: ignore[arg-type]
    elif how < 0.85:
        kind = draw.choice(("f2", "f4", "f8", ">f4", "i1", "u8", "bool", "c8", "f16", "U3", "S3", "M8[s]", "V4"))
        with contextlib.suppress(TypeError, ValueError):
            array = array.astype(kind)
    else:
        shapes = ((-1,), (1, -1), (-1, 1, 1), (1, 1, 1, -1), (*array.shape[::-1],))
        array = draw.choice((array.reshape(draw.choice(shapes)), array[:0], array[..., :1], np.asfortranarray(array)))
    made = io.BytesIO()
    np.save(made, array)
    return made.getvalue()


def ogg(data: bytes, draw: Random) -> bytes:
    """Pages with changed bytes; most of the time with the right sums, without which nothing more is read."""
    out = bytearray(binary(data, draw))
    ends = [found.start() for found in re.finditer(b"OggS", out)] + [len(out)]
    for at, end in itertools.pairwise(ends if draw.random() < 0.9 else []):
        if end - at >= 27:
            out[at + 22 : at + 26] = bytes(4)
            value = 0
            for byte in out[at:end]:
                value ^= byte << 24
                for _ in range(8):
                    value = (value << 1 ^ (0x104C11DB7 if value & 0x80000000 else 0)) & 0xFFFFFFFF
            out[at + 22 : at + 26] = value.to_bytes(4, "little")
    return bytes(out)


def state(data: bytes, draw: Random) -> bytes:
    """What torch.save wrote: values of other types and tensors of other shapes, or a changed archive."""
    import torch

    if draw.random() < 0.4:
        return archive(data, draw)
    zero = torch.zeros(1)
    tensors = [zero, zero.double(), zero.long(), zero[:0], zero[0], zero.expand(1 << 40), torch.full((3, 3), torch.nan)]
    plain = [None, True, -1, 0, 2**31, 2**63, 10**400, float("nan"), float("inf"), 1e308, "", "x" * 100_000, "\x1b[2J"]
    loaded = torch.load(io.BytesIO(data), weights_only=False)  # the valid file, which was made here
    made = io.BytesIO()
    torch.save(tree(loaded, draw, [*plain, *tensors, [], {}, (), {"a": 1}, {1: 1}, [[]], b"x", 1j]), made)
    return made.getvalue()


def onnx_graph(data: bytes, draw: Random) -> bytes:
    """A graph with other operators, numbers, shapes or metadata, or changed bytes."""
    import onnx

    if draw.random() < 0.3:
        return binary(data, draw)
    model = onnx.load_from_string(data)
    how = draw.randrange(5)
    if how == 0:
        node = draw.choice(model.graph.node)
        node.op_type = draw.choice(("Loop", "Reshape", "Expand", "Tile", "Pad", "Range", "If", "Resize", "Gather", "X"))
    elif how == 1:
        numbers = [one for node in model.graph.node for one in node.attribute if one.type in (2, 7)]
        one = draw.choice(numbers)
        value = draw.choice((*INTEGERS[:7], 1000))
        if one.type == 2:
            one.i = value
        else:
            one.ints[:] = [value] * draw.choice((1, len(one.ints)))
    elif how == 2:
        shapes = [one for one in model.graph.initializer if one.data_type == 7] or list(model.graph.initializer)
        one = draw.choice(shapes)
        values = np.array(onnx.numpy_helper.to_array(one))
        values.reshape(-1)[: draw.choice((1, 100))] = draw.choice((0, 1, -1, 1000, 0x7FFFFFFF, 1 << 40))
        one.CopyFrom(onnx.numpy_helper.from_array(values, one.name))
    elif how == 3:
        where = draw.choice((*model.graph.input, *model.graph.output)).type.tensor_type
        where.elem_type = draw.choice((where.elem_type, 1, 7, 8))
        if where.shape.dim:
            draw.choice(where.shape.dim).dim_value = draw.choice((0, 1, 2, -1, 1 << 31, 1 << 40))
    else:
        one = draw.choice(model.metadata_props)
        one.value = json_text(one.value.encode(), draw).decode(errors="replace")
    return bytes(model.SerializeToString())


def shard(data: bytes, draw: Random) -> bytes:
    """An Arrow file with other columns or values, or changed bytes. What depends on its hash is mended afterwards."""
    import pyarrow as pa

    if draw.random() < 0.4:
        return binary(data, draw)
    table = pa.ipc.open_file(pa.BufferReader(data)).read_all()
    name = draw.choice(table.column_names)
    at, field, rows = table.column_names.index(name), table.schema.field(name), table.num_rows
    how = draw.randrange(6)
    if how == 0:  # values that the type holds
        values = table[name].to_pylist()
        kind = type(values[0])
        numbers = [0, -1, 1, 2**31 - 1, -(2**31)]
        floats = [float("nan"), float("inf"), -1e308, 1e308, -0.0, 1e-320]
        box = [[draw.choice((*floats, 0.5)) for _ in range(4)]]
        new = {str: ["", "\x1b[2J", "x" * 5000, "../x", "positive", values[0]], float: floats, int: numbers}
        new |= {
            bytes: [b"", values[0][:-1] if kind is bytes else b"", b"\xff" * 16],
            list: [[], box, [5], [7] * 70_000],
        }
        for row in range(draw.choice((1, rows))):
            values[row] = draw.choice(new[kind])
        with contextlib.suppress(pa.ArrowException, TypeError, OverflowError):
            table = table.set_column(at, field, pa.array(values, field.type))
    elif how == 1:  # another type
        kind = draw.choice((pa.int8(), pa.float16(), pa.string(), pa.null(), pa.large_string(), pa.list_(pa.int8())))
        table = table.set_column(at, pa.field(name, kind), pa.nulls(rows, kind))
    elif how == 2:
        table = table.drop_columns([name]) if draw.random() < 0.5 else table.append_column(field, table[name])
    elif how == 3:  # nothing where something must be
        table = table.set_column(at, field, pa.nulls(rows, field.type))
    elif how == 4:
        table = pa.concat_tables([table] * draw.choice((2, 3))) if draw.random() < 0.5 else table.slice(1)
    made = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression=draw.choice((None, "lz4", "zstd")) if how == 5 else None)
    with pa.ipc.new_file(made, table.schema, options=options) as file:
        file.write_table(table, max_chunksize=draw.choice((None, None, 1)))
    return bytes(made.getvalue())


CHANGES: dict[str, Callable[[bytes, Random], bytes]] = {
    ".json": json_text, ".jsonl": json_lines, ".csv": text, ".txt": text, ".xml": text, ".npz": archive, ".npy": npy,
    ".safetensors": safetensors, ".pt": state, ".pth": state, ".onnx": onnx_graph, ".arrow": shard, ".ogg": ogg,
}  # fmt: skip
"""How files are changed, by their endings; all others byte by byte."""


# Formats: how a folder with valid files is made, which of them are changed, and the commands that open them.


@dataclass(frozen=True)
class Format:
    make: Callable[[Path], object]
    files: tuple[str, ...]
    commands: tuple[tuple[str, ...], ...]
    code: int = 0
    """What the commands end with for the valid files."""


def _media(kind: str) -> Format:
    """A file of media, alone and as the only pair of a folder set."""
    make = importlib.import_module("make")
    name, video, sound = f"file.{kind}", f".{kind}" in make.SOUND_CODECS, f".{kind}" in make.SOUND_FILES
    seen, heard = (PICTURE if sound else name, name if video else TONE)

    def build(folder: Path) -> None:
        if sound:
            make.sound_file(folder / name, make.chirp(0.6))
        elif video:
            make.steps(folder / name, 0.6, 10)
        else:
            make.picture(folder / name, make.corners())
        shutil.copy(folder / PICTURE, folder)
        shutil.copy(folder / TONE, folder)
        image, audio = Path(seen).name, Path(heard).name
        (folder / "pairs_test.csv").write_text(f"image,audio,start,cls,kind\n{image},{audio},0,a,single\n")
        (folder / "boxes.csv").write_text(f"image,cls,xc,yc,w,h\n{image},a,0.5,0.5,0.5,0.5\n")

    given = [name] if video and not sound else ["--image", seen, "--audio", heard]
    packed = ["--size", "32", "--rate", "4000", "--seconds", "0.5", "--out", "pack"]
    own = ["folder:test", "--data", "."]
    return Format(
        build,
        (name,),
        (
            ("show", name),
            ("localize", WEIGHTS, *given, "--format", "json,npz" if sound else "mp4,json", *FLAGS),
            ("data", "check", *own),
            ("data", "prepare", *own, *packed),
            ("eval", WEIGHTS, "--on", *own, "--audio", "real", *FLAGS),
        ),
    )


def _common(folder: Path) -> None:
    """What several formats use: tiny weights, a sound, a picture, a folder set with its pack and report, a run."""
    import torch

    from earsight.checkpoint import save_weights
    from earsight.config import Inputs
    from earsight.encoders.base import Encoders
    from earsight.media.write import write_png, write_wav
    from earsight.methods.base import build
    from earsight.methods.slavc import Config

    torch.manual_seed(0)
    config = Config(encoders=Encoders("small", "small", weights="random", width=4), dim=8)
    inputs = Inputs(image_size=32, resize=32, rate=4000, seconds=0.5, window=128, hop=64)
    calibration = {"threshold": 0.0, "false_alarm": 0.1, "recall": 0.9, "negatives": 10, "set": "folder:val"}
    meta = {"protocol": "exact", "calibration": calibration, "training": {"clips": 7, "job": {"on": "folder:train"}}}
    save_weights(folder / "tiny.safetensors", build("slavc", config, inputs), "slavc", config, meta)
    tone = 0.5 * np.sin(np.arange(8000) / 8000 * 2 * np.pi * 440)
    write_wav(folder / "tone.wav", tone.astype(np.float32), 8000)
    write_png(folder / "picture.png", np.full((3, 40, 60), 90, np.uint8))
    (folder / "pairs").mkdir()
    importlib.import_module("test_sets").photos_and_sounds(folder / "pairs")
    positives = (folder / "pairs" / "pairs_val.csv").read_text().splitlines(keepends=True)[:3]
    (folder / "pairs" / "pairs_train.csv").write_text("".join(positives))
    (folder / "pairs" / "negatives.csv").write_text("video,audio,label,kind\na+a@0,b+b@0.5,b,easy\n")
    packed = ["--size", "32", "--rate", "4000", "--seconds", "0.5", "--shard-rows", "2", "--out", str(folder / "pack")]
    _must("data", "prepare", "folder:test", "--data", str(folder / "pairs"), *packed)
    data = ["--on", "folder:test", "--data", str(folder / "pairs")]
    _maps(folder)
    for maps, out in (("table", "report"), ("members", "other")):
        _must("score", str(folder / f"{maps}.npz"), *data, "--protocol", "exact", "--out", str(folder / out))
    _run(folder / "run")


def _copied(*names: str) -> Callable[[Path], object]:
    """A maker that copies folders and files of `common`: the content of a folder, or a file."""

    def make(folder: Path) -> None:
        for name in names:
            path = folder.parent / "common" / name
            shutil.copytree(path, folder, dirs_exist_ok=True) if path.is_dir() else shutil.copy(path, folder)

    return make


def _maps(folder: Path) -> None:
    ids = np.array(["a+a@0", "b+b@0.5", "a+b@1"])
    maps = np.linspace(-1, 1, 3 * 4 * 5, dtype=np.float32).reshape(3, 4, 5)
    np.savez(folder / "table.npz", id=ids, maps=maps, confidence=np.arange(3.0), bounds=np.array([-1.0, 1.0]))
    np.savez_compressed(folder / "members.npz", **dict(zip(ids, maps.astype(np.float16), strict=True)))
    (folder / "maps").mkdir()
    for id, one in zip(ids, maps, strict=True):
        np.save(folder / "maps" / f"{id}.npy", one)


def _run(folder: Path) -> None:
    """A run that was stopped after its first epoch."""
    from earsight.training.loop import Run

    save, saved = Run.save, 0

    def stop(self: Run) -> None:
        nonlocal saved
        save(self)
        saved += 1
        if saved == 2:
            raise KeyboardInterrupt

    Run.save = stop  # type: ignore[method-assign]
    on = ["--on", "toybox:val", "--val", "toybox:heard", "--limit", "8", "--device", "cpu"]
    _must("train", "slavc", *on, *TINY, "--out", str(folder), code=130)
    Run.save = save  # type: ignore[method-assign]


def _published(folder: Path) -> None:
    """The names of EZ-VSL's tensors, and none of their sizes."""
    import torch

    from earsight.official_layouts import PUBLISHED

    names = {f"module.{name}": torch.zeros(2) for name in PUBLISHED["EZ-VSL"].needed}
    torch.save(
        {"model": names, "optimizer": {"state": {}}, "epoch": 20, "best_cIoU": np.float64(0.5)}, folder / "a.pth"
    )


def _exported(folder: Path) -> None:
    small = importlib.import_module("small")
    from earsight.export import export_onnx

    export_onnx(small.weights(folder / "model.safetensors"), folder / "model")


def _coco(folder: Path) -> None:
    from tiny import coco_trees

    coco_trees.official(folder, only=())


def formats() -> dict[str, Format]:
    sets = importlib.import_module("test_sets")
    kinds = ("mp4", "mov", "mkv", "webm", "avi", "ts", "gif", "jpg", "png", "webp", "bmp")
    found = {kind: _media(kind) for kind in (*kinds, "wav", "mp3", "flac", "ogg", "m4a")}
    pairs = ["--on", "folder:test", "--data", "../common/pairs"]
    here, pictured = ["--data", "."], ["--image", PICTURE, "--audio", TONE, "--format", "json", *FLAGS]
    scored = ("score", "center-prior", "--protocol", "exact", *here, "--on")
    score = ("--protocol", "exact", *pairs)
    resume, curves = ("train", "--out", ".", "--resume", "--device", "cpu"), ("curves", ".")
    opened = (("show", "w.safetensors"), ("localize", "w.safetensors", *pictured))
    vgg = ("vggss.json", "vggss_test.csv", "vggss_heard_test.csv", "vggss_test_plus_silent.csv")
    flickr = ("flickr_test.csv", "flickr_test_plus_silent.csv", "Annotations/101.xml", "Annotations/102.xml")
    published = ["--coco", "coco", "--esc50", "ESC-50"]
    weights = lambda folder: shutil.copy(folder / WEIGHTS, folder / "w.safetensors")  # noqa: E731
    return found | {
        "safetensors": Format(weights, ("w.safetensors",), (*opened, ("eval", "w.safetensors", *pairs, *FLAGS))),
        "pth": Format(
            _published,
            ("a.pth",),
            (
                ("import", "a.pth", "--out", "w.safetensors"),
                ("localize", WEIGHTS, *pictured, "--object-prior", "0.9", "--object-weights", "a.pth"),
            ),
            1,
        ),
        "onnx": Format(
            _exported,
            ("model/picture.onnx", "model/compare.onnx", "model/config.json"),
            (("show", "model"), ("localize", "model", *pictured)),
        ),
        "pack": Format(
            _copied("pack"),
            ("folder-test/pack.json", "earsight-pack.txt"),
            (("show", "."), ("data", "check", "."), ("eval", WEIGHTS, "--on", "folder:test", *here, *FLAGS)),
        ),
        "arrow": Format(
            _copied("pack"),
            ("folder-test/shard-00000.arrow", "folder-test/shard-00001.arrow"),
            (("data", "check", "."), ("eval", WEIGHTS, "--on", "folder:test", *here, *FLAGS)),
        ),
        "npz": Format(_maps, ("table.npz",), (("score", "table.npz", *score),)),
        "npz_members": Format(_maps, ("members.npz",), (("score", "members.npz", *score),)),
        "npy": Format(_maps, ("maps/a+a@0.npy",), (("score", "maps", *score),)),
        "run": Format(_copied("run"), ("run.json",), (("show", "."), resume)),
        "log": Format(_copied("run"), ("log.jsonl",), (("show", "."), curves, resume)),
        "state": Format(_copied("run"), ("state.pt",), (resume,)),
        "report": Format(
            _copied("report"), ("metrics.json",), (("show", "."), ("compare", ".", "../common/other", "--draws", "20"))
        ),
        "records": Format(
            _copied("report"),
            ("records-folder-test.csv",),
            (("compare", ".", "../common/other", "--draws", "20"),),
        ),
        "pairs": Format(
            _copied("pairs"),
            ("pairs_test.csv", "boxes.csv"),
            ((*scored, "folder:test"), ("data", "check", "folder:test", *here)),
        ),
        "negatives": Format(
            _copied("pairs"),
            ("negatives.csv",),
            ((*scored, "folder:train+negatives.csv"),),
        ),
        "only": Format(
            lambda folder: (folder / "only.csv").write_text("id,why\na+a@0,x\nb+b@0.5,y\n"),
            ("only.csv",),
            (
                ("score", "center-prior", *score, "--only", "only.csv"),
                ("data", "audit", "only.csv", *pairs[2:], "--against", "folder:test"),
            ),
        ),
        "vggss": Format(sets.vggss, vgg, ((*scored, "vggss:extended"), (*scored, "vggss:heard_extended"))),
        "vggsound": Format(
            sets.vggsound,
            ("vggsound.csv", "metadata/vggss_10k.txt"),
            (
                ("data", "check", "vggsound:10k", *here),
                ("data", "audit", "vggsound:10k", *here, "--against", "vggsound:144k"),
            ),
        ),
        "flickr": Format(sets.flickr_soundnet, flickr, ((*scored, "flickr_soundnet:extended"),)),
        "coco": Format(
            _coco,
            ("coco/annotations/instances_train2017.json", "ESC-50/meta/esc50.csv"),
            (("data", "prepare", "coco_esc:val", *published, "--limit", "4", "--max-failed", "1", "--out", "pack"),),
        ),
        "boxes": Format(sets.coco_esc, ("boxes.csv",), ((*scored, "coco_esc:test"),)),
    }  # fmt: skip


def mend(folder: Path) -> None:
    """The manifests of packs name the size and hash of every shard as it is now."""
    import hashlib

    for path in folder.glob("*/pack.json"):
        values = json.loads(path.read_bytes())
        for number, info in enumerate(values["shards"]):
            data = (path.parent / f"shard-{number:05d}.arrow").read_bytes()
            info.update(bytes=len(data), sha256=hashlib.sha256(data).hexdigest())
        path.write_text(json.dumps(values))


# Running: every input in a forked process, watched by the one that forked it.


@dataclass(frozen=True)
class Ended:
    """How a process ended: "" when it is as it should be, else what is wrong with it."""

    wrong: str
    code: int
    peak: int
    seconds: float
    said: str


def ended(work: Callable[[], int], said: Path, most: float = float("inf")) -> Ended:
    """Run `work` in a fork, with what it says in the file `said`; `most` is the memory that it may take."""
    began = time.monotonic()
    pid = os.fork()
    if pid == 0:
        _child(work, said)
    wrong, peak = "", 0
    while not (found := os.wait4(pid, os.WNOHANG))[0]:
        with contextlib.suppress(OSError, ValueError):
            peak = max(peak, int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * resource.getpagesize())
        if peak > most:
            wrong = f"memory: {peak >> 20} MiB"
        elif time.monotonic() - began > CLOCK_SECONDS:
            wrong = f"hang: {CLOCK_SECONDS} s"
        if wrong:
            os.killpg(pid, signal.SIGKILL)
            found = os.wait4(pid, 0)
            break
        time.sleep(0.005)
    peak = max(peak, found[2].ru_maxrss << 10)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)  # what it left behind
    code = os.waitstatus_to_exitcode(found[1])
    text = said.read_text(errors="replace")
    return Ended(wrong or _wrong(code, text, peak, most), code, peak, time.monotonic() - began, text)


def _wrong(code: int, said: str, peak: float, most: float) -> str:
    told = re.search(r"^earsight: (.*)", said, re.M | re.S)
    raised = re.findall(r"^\w[\w.]*(?:Error|Exception|Interrupt)\b.*", said, re.M)
    about = " ".join(" ".join(raised[-1:] or [said]).split())[-300:]
    if code == -signal.SIGXCPU:
        return f"hang: {CPU_SECONDS} s of a core"
    if code < 0:
        return f"crash: {signal.Signals(-code).name}"
    if "internal error" in said:
        return f"internal error: {about}"
    if code not in (0, 1, 2) or "Traceback" in said:
        return f"exit code {code}: {about}"
    if peak > most:
        return f"memory: {peak >> 20} MiB"
    if "there is too little. Use a smaller" in said:
        return "memory: more than there is"
    if told and ("\n" in told[1].strip() or len(told[1]) > LONGEST):
        return f"message of {len(told[1])} letters: {told[1]:.200}"
    return "control characters in what is said" if re.search(r"[\0-\x08\x0e-\x1f\x7f]", said) else ""


def _child(work: Callable[[], int], said: Path) -> None:
    code = 70
    try:
        os.setpgid(0, 0)
        resource.setrlimit(resource.RLIMIT_CPU, (CPU_SECONDS, CPU_SECONDS + 5))
        resource.setrlimit(resource.RLIMIT_FSIZE, (MEMORY, MEMORY))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        socket.socket.connect = _no_network  # type: ignore[method-assign, assignment]
        with said.open("wb") as file:
            os.dup2(file.fileno(), 1)
            os.dup2(file.fileno(), 2)
        sys.stdout = open(1, "w", encoding="utf-8", errors="backslashreplace", closefd=False)  # noqa: SIM115
        sys.stderr = open(2, "w", encoding="utf-8", errors="backslashreplace", closefd=False)  # noqa: SIM115
        code = work()
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _no_network(*_: object) -> None:
    raise OSError("no network while fuzzing")


def _must(*args: str, code: int = 0) -> None:
    from earsight.cli import main

    assert main(args) == code, args


def _made(one: Format, folder: Path) -> int:
    one.make(folder)
    return 0


class Fuzzer:
    """Valid files of every format in a folder, and the inputs that are made of them."""

    def __init__(self, root: Path, seed: int, names: Sequence[str] = ()) -> None:
        self.root, self.seed = root, seed
        self.said = root / "said.txt"
        _import_all()
        known = formats()
        self.formats = {name: known[name] for name in names or known}
        for name, one in {"common": Format(_common, (), ()), **self.formats}.items():
            (root / name).mkdir()
            self._need(ended(partial(_made, one, root / name), self.said), f"making {name}")
        self._peaks: dict[tuple[str, tuple[str, ...]], int] = {}

    def _need(self, got: Ended, what: str, code: int = 0) -> Ended:
        if got.wrong or got.code != code:
            raise RuntimeError(f"{what}: {got.wrong or f'exit code {got.code}'}\n{got.said}")
        return got

    def usual(self, name: str, command: tuple[str, ...]) -> int:
        """The memory that a command takes with the valid file, which it must take as it should."""
        if (name, command) not in self._peaks:
            got = self._need(self._at(name, command, None, 0), f"{name}: {' '.join(command)}", self.formats[name].code)
            self._peaks[name, command] = got.peak
        return self._peaks[name, command]

    def case(self, name: str, number: int) -> tuple[tuple[str, ...], Ended]:
        """Make an input and run its command."""
        draw = Random(f"{self.seed}:{name}:{number}")
        command = draw.choice(self.formats[name].commands)
        return command, self._at(name, command, draw, self.usual(name, command) + MEMORY)

    def _at(self, name: str, command: tuple[str, ...], draw: Random | None, most: float) -> Ended:
        folder, one = self.root / "case", self.formats[name]
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(self.root / name, folder)

        def work() -> int:
            if draw is not None:
                path = folder / draw.choice(one.files)
                path.write_bytes(CHANGES.get(path.suffix, binary)(path.read_bytes(), draw))
                if path.suffix == ".arrow":
                    mend(folder)
            os.chdir(folder)
            from earsight.cli import main

            return main(command)

        return ended(work, self.said, most or float("inf"))


def _import_all() -> None:
    """Everything that commands import, so that forks need not; nothing is computed."""
    for name in ("", "media", "contracts", "export"):
        sys.path.insert(0, str(TESTS / name))
    import earsight

    ours = (found.name for found in pkgutil.walk_packages(earsight.__path__, "earsight."))
    others = ("torchvision.io", "matplotlib.pyplot", "torch.utils.tensorboard", "onnxruntime", "onnx")
    for module in (*others, "typeguard", "PIL.BmpImagePlugin", "PIL.JpegImagePlugin", *ours):
        if not re.search(r"__main__|kernels|\.app\b", module):
            importlib.import_module(module)


def fuzz(count: int, seed: int, names: Sequence[str], results: Path | None) -> list[dict[str, Any]]:
    """Run `count` inputs, the formats in turn, and say what is wrong as it comes; what passed in `results` is done."""
    done: dict[str, dict[str, Any]] = {}
    if results is not None and results.exists():
        lines = map(json.loads, results.read_text().splitlines())
        done = {line["case"]: line for line in lines if line["seed"] == seed and not line["wrong"]}
    with tempfile.TemporaryDirectory(prefix="fuzz-") as folder:
        fuzzer = Fuzzer(Path(folder), seed, names)
        for at in range(count):
            name, number = list(fuzzer.formats)[at % len(fuzzer.formats)], at // len(fuzzer.formats)
            case = f"{name}:{number}"
            if case not in done:
                command, got = fuzzer.case(name, number)
                values = {"seed": seed, "case": case, "command": " ".join(command), "code": got.code}
                done[case] = values | {"wrong": got.wrong, "seconds": round(got.seconds, 2), "mb": got.peak >> 20}
                if results is not None:
                    with results.open("a") as file:
                        file.write(json.dumps(done[case]) + "\n")
                if got.wrong:
                    _say(f"{case}  {' '.join(command)}\n    {got.wrong}")
    return list(done.values())


def table(found: Sequence[dict[str, Any]]) -> str:
    """How the inputs of each format ended."""
    counts: dict[str, Counter[str]] = {}
    for one in found:
        ends = counts.setdefault(one["case"].partition(":")[0], Counter())
        ends["WRONG" if one["wrong"] else f"exit {one['code']}"] += 1
    columns = ("exit 0", "exit 1", "exit 2", "WRONG")
    rows = [("format", {column: column for column in columns}), *counts.items()]
    rows += [("all", sum(counts.values(), Counter()))]
    return "\n".join(f"{name:<12}" + "".join(f"{row[column]:>8}" for column in columns) for name, row in rows)


def _say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--formats", nargs="*", default=(), help="only these")
    parser.add_argument("--results", type=Path, help="one line of JSON an input; what passed in it is not run again")
    parser.add_argument("--case", help="one input, as FORMAT:NUMBER")
    parser.add_argument("--keep", type=Path, help="for --case: an empty folder for its files")
    args = parser.parse_args()
    os.environ.update(EARSIGHT_DEBUG="1", EARSIGHT_CACHE="/nonexistent", TORCH_HOME="/nonexistent")
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    _say(f"seed {args.seed}")
    if args.case:
        name, _, number = args.case.partition(":")
        root = args.keep or Path(tempfile.mkdtemp(prefix="fuzz-"))
        root.mkdir(exist_ok=True)
        command, got = Fuzzer(root, args.seed, [name]).case(name, int(number))
        took = f"{got.seconds:.1f} s, {got.peak >> 20} MiB"
        _say(f"{got.said}\n{args.case}: {got.wrong or f'exit code {got.code}'} ({took})")
        _say(f"in {root / 'case'}: earsight {' '.join(command)}")
        return bool(got.wrong)
    found = fuzz(args.count, args.seed, args.formats, args.results)
    _say(table(found))
    return any(one["wrong"] for one in found)


@pytest.mark.slow
def test_damaged_files_of_every_format_are_told_in_a_line() -> None:
    done = subprocess.run([sys.executable, __file__, "--count", "300"], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


if __name__ == "__main__":
    sys.exit(main())
