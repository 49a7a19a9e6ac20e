"""ONNX files that are not what `earsight export` writes are refused, each with its reason."""

from __future__ import annotations

import json
import re
import signal
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from earsight import onnxfile
from earsight.config import Inputs, to_json
from earsight.errors import CheckpointError, UsageError
from earsight.onnxfile import OnnxModel
from earsight.onnxgraph import MOST_FIELDS
from earsight.types import MapArrays
from tiny import limited

GOOD = {"format": 2, "method": "ezvsl", "inputs": to_json(Inputs()), "versions": {}, "bounds": [-1, 1]}


MAPS = (
    helper.make_node("ReduceMean", ["sounds"], ["x"], axes=[1], keepdims=0),
    helper.make_node("Unsqueeze", ["x", "1,2"], ["dense"]),
)
CONSTANTS = (numpy_helper.from_array(np.array([1, 2]), "1,2"),)


def write(
    path: Path,
    text: str | None,
    given: str = "sounds",
    gives: Sequence[str] = ("dense",),
    nodes: Sequence[onnx.NodeProto] = MAPS,
    constants: Sequence[onnx.TensorProto] = CONSTANTS,
    **parts: Any,
) -> Path:
    """An export of one graph that gives maps of one value, the mean of a sound."""
    path.mkdir(exist_ok=True)
    take = helper.make_tensor_value_info(given, TensorProto.FLOAT, ["n", "m"])
    give = [onnx.ValueInfoProto(name=name) for name in gives]
    graph = helper.make_graph(nodes, "maps", [take], give, constants, **parts)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=10), path / "model.onnx")
    if text is not None:
        (path / "config.json").write_text(text, encoding="utf-8")
    return path


def changed(**changes: Any) -> str:
    return json.dumps({key: value for key, value in {**GOOD, **changes}.items() if value is not None})


def test_a_graph_with_the_right_names_and_metadata_is_taken(tmp_path: Path) -> None:
    model = OnnxModel(write(tmp_path / "a", changed()))
    assert model.inputs == Inputs()
    sound, frames = np.repeat([[0], [1]], 9, axis=1).astype(np.float32), np.zeros((2, 3, 9, 9), np.uint8)
    assert model.localize(frames, sound).dense.tolist() == [[[0]], [[1]]]
    assert model.see(np.zeros((3, 40, 60), np.uint8)).shape == (3, 224, 224)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (None, "Expected an exported model, a folder with config.json, but .* is a folder without it"),
        ("{", "Expected JSON in .*config.json"),
        (100_000 * "[", "Expected JSON in .*config.json, but got: more than 64 lists"),
        ("[1]", "Expected an export of format 2, but .* has list"),
        (changed(format=7), "Expected an export of format 2, but .* has 7"),
        (changed(method=None), "Expected method, inputs, versions in .*, but got no usable method"),
        (changed(calibration={"threshold": "high"}), "but got no usable calibration.threshold"),
        (changed(bounds=3), "Expected two numbers as bounds in .*, but got 3"),
        (changed(bounds=[1, -1]), r"Expected two numbers as bounds in .*, the lower first, but got \[1, -1\]"),
        (changed(bounds=[float("nan"), 1]), r"Expected two numbers as bounds in .*, but got \[nan, 1\]"),
        (changed(bounds=[0, float("inf")]), r"Expected two numbers as bounds in .*, but got \[0, inf\]"),
        (changed(native_bounds=[0, 1, 2]), r"Expected two numbers as bounds in .*, but got \[0, 1, 2\]"),
        (changed(inputs={"image_size": 12_000, "resize": 12_000}), "but got: Expected image_size of at most 1024"),
        (changed(inputs={"rate": "fast"}), "Expected input settings in .*, but got: Expected int for Inputs.rate"),
    ],
)
def test_metadata_that_cannot_be_used_is_refused(tmp_path: Path, text: str | None, reason: str) -> None:
    with pytest.raises(CheckpointError, match=f"{reason}.*earsight export WEIGHTS"):
        OnnxModel(write(tmp_path / "a", text))


def test_graphs_with_other_names_are_refused(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="Expected a graph that gives dense maps"):
        OnnxModel(write(tmp_path / "a", changed(), gives=["y"], nodes=[node("Identity", "sounds", gives="y")]))
    with pytest.raises(CheckpointError, match=r"Expected a graph of pictures, sounds, but .*model.onnx asks for x"):
        ask(write(tmp_path / "a", changed(), "x", nodes=[node("Identity", "x")]))


def test_missing_and_broken_files_are_refused(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=r"Expected an exported model, .* nothing"):
        OnnxModel(tmp_path / "none")
    path = write(tmp_path / "a", changed())
    (path / "model.onnx").write_bytes(b"no graph")
    with pytest.raises(CheckpointError, match=r"Expected an ONNX model, but .* cannot be run \(.*earsight export"):
        OnnxModel(tmp_path / "a")


def node(kind: str, *given: str, gives: str = "dense", **settings: Any) -> onnx.NodeProto:
    return helper.make_node(kind, given, [gives], **settings)


NUMBER = (node("ReduceSum", "sounds", gives="sum", keepdims=0),)


def sized(*shape: int) -> dict[str, Any]:
    """A map of one number that is not known before the graph runs, spread over any shape."""
    return {
        "nodes": [*NUMBER, node("Expand", "sum", "shape")],
        "constants": [numpy_helper.from_array(np.array(shape, np.int64), "shape")],
    }


def ask(path: Path, pairs: int = 2) -> MapArrays:
    model = OnnxModel(path, threads=1)
    return model.localize(np.zeros((pairs, 3, 9, 9), np.uint8), np.zeros((pairs, 9), np.float32))


@pytest.mark.parametrize("shape", [(), (2,), (2, 1), (3, 1, 1), (2, 0, 1), (2, 1, 1025), (2, 1, 1, 1)])
def test_maps_of_another_shape_are_refused(tmp_path: Path, shape: tuple[int, ...]) -> None:
    path = write(tmp_path / "a", changed(), **sized(*shape))
    got = re.escape(str(shape))
    told = rf"Expected dense as float32 \(2, h, w\) with sides up to 1024 from .*, but got float32 {got}"
    with pytest.raises(CheckpointError, match=told):
        ask(path)


def test_answers_of_another_kind_are_refused(tmp_path: Path) -> None:
    whole = [*MAPS[:1], node("Cast", "x", gives="i", to=TensorProto.INT64), node("Unsqueeze", "i", "1,2")]
    with pytest.raises(CheckpointError, match=r"Expected dense as float32 .*, but got int64 \(2, 1, 1\)"):
        ask(write(tmp_path / "a", changed(), nodes=whole))
    nan = [*MAPS, node("Sub", "x", "x", gives="zero"), node("Div", "zero", "zero", gives="confidence")]
    with pytest.raises(CheckpointError, match=r"Expected finite confidences from .*, but got NaN"):
        ask(write(tmp_path / "a", changed(), gives=["dense", "confidence"], nodes=nan))
    several = [*MAPS, node("Identity", "dense", gives="confidence")]
    with pytest.raises(CheckpointError, match=r"Expected confidence as float32 \(2,\) .*, but got float32 \(2, 1, 1\)"):
        ask(write(tmp_path / "a", changed(), gives=["dense", "confidence"], nodes=several))
    with pytest.raises(CheckpointError, match=r"Expected answers from .*model.onnx .*, but got: \.\.\..*"):
        ask(write(tmp_path / "a", changed(), nodes=[*MAPS[:1], node("Reshape", "x", "1,2")]), pairs=3)


def test_gigabytes_of_answers_are_refused_before_they_are_there(tmp_path: Path) -> None:
    path = write(tmp_path / "a", changed(), **sized(1, 60_000, 60_000))
    told = limited.refusal(ask, path, mib=2048)
    assert re.search(r"Expected answers from .*onnx within 4 GiB of memory, but got: .*smaller than requested", told)
    folded = [node("Expand", "one", "shape")]
    constants = [*sized(1, 60_000, 60_000)["constants"], numpy_helper.from_array(np.ones(1, np.float32), "one")]
    write(path, changed(), nodes=folded, constants=constants)
    assert "smaller than requested" in limited.refusal(ask, path, mib=2048)


def slow(path: Path) -> Path:
    """A graph that computes for minutes."""
    steps = [node("MatMul", f"m{i}", f"m{i}", gives=f"m{i + 1}") for i in range(2000)]
    spread = node("Expand", "sum", "shape", gives="m0")
    return write(
        path,
        changed(),
        nodes=[*NUMBER, spread, *steps, node("Identity", "m2000")],
        constants=sized(1, 900, 900)["constants"],
    )


def test_a_graph_that_takes_too_long_is_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(onnxfile, "SECONDS", 0.3)
    before = threading.active_count()
    with pytest.raises(CheckpointError, match=r"Expected answers within 0\.3 s, but got none from .*model.onnx"):
        ask(slow(tmp_path / "a"))
    assert threading.active_count() == before, "its thread has ended"


def test_ctrl_c_stops_a_graph_that_takes_too_long(tmp_path: Path) -> None:
    path = slow(tmp_path / "a")
    timer = threading.Timer(1.5, signal.raise_signal, [signal.SIGINT])
    before = time.monotonic()
    timer.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            ask(path)
    finally:
        timer.cancel()
    assert time.monotonic() - before < 20


def loop() -> onnx.NodeProto:
    """What never ends."""
    ends = [
        helper.make_tensor_value_info(name, kind, [])
        for name, kind in (("i", TensorProto.INT64), ("go", TensorProto.BOOL))
    ]
    kept = helper.make_tensor_value_info("on", TensorProto.BOOL, [])
    body = helper.make_graph([node("Identity", "go", gives="on")], "body", ends, [kept])
    return helper.make_node("Loop", ["", "true"], [], body=body)


def elsewhere(location: str) -> onnx.TensorProto:
    """Numbers that are in another file."""
    tensor = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[4], data_location=TensorProto.EXTERNAL)
    tensor.external_data.add(key="location", value=location)
    return tensor


SPARSE = helper.make_sparse_tensor(
    numpy_helper.from_array(np.ones(1, np.float32), "w"), numpy_helper.from_array(np.array([5]), "at"), [60_000, 60_000]
)


@pytest.mark.parametrize(
    ("parts", "told"),
    [
        ({"nodes": [loop(), *MAPS]}, "loops or conditions"),
        ({"nodes": [node("Gelu", "sounds", domain="com.microsoft")]}, "an operator of 'com.microsoft'"),
        ({"constants": [elsewhere("secret.bin")]}, "tensors in other files"),
        ({"nodes": [node("Constant", value=elsewhere("/etc/hostname"))]}, "tensors in other files"),
        ({"nodes": [node("Constant", sparse_value=SPARSE)]}, "sparse tensors"),
        ({"sparse_initializer": [SPARSE]}, "sparse tensors"),
    ],
)
def test_graphs_of_more_than_plain_operators_are_refused(tmp_path: Path, parts: dict[str, Any], told: str) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "secret.bin").write_bytes(bytes(16))
    with pytest.raises(CheckpointError, match=rf"Expected plain operators of ONNX in .*model.onnx, but got {told}"):
        OnnxModel(write(tmp_path / "a", changed(), **parts))


def test_functions_and_endless_lists_of_values_are_refused(tmp_path: Path) -> None:
    file = write(tmp_path / "a", changed()) / "model.onnx"
    model = onnx.load(file)
    model.functions.add(name="f", domain="own")
    onnx.save(model, file)
    with pytest.raises(CheckpointError, match="but got functions"):
        OnnxModel(tmp_path / "a")
    file.write_bytes(b"\x08\x0a" * (MOST_FIELDS + 1))
    with pytest.raises(CheckpointError, match=f"but got more than {MOST_FIELDS} values"):
        OnnxModel(tmp_path / "a")


def test_every_shortened_file_is_refused(tmp_path: Path) -> None:
    file = write(tmp_path / "a", changed()) / "model.onnx"
    whole = file.read_bytes()
    for size in range(len(whole)):
        file.write_bytes(whole[:size])
        with pytest.raises(CheckpointError):
            OnnxModel(tmp_path / "a")


def test_devices_that_are_not_there_are_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "a", changed())
    with pytest.raises(UsageError, match="Expected device auto, cpu or cuda, but got abacus"):
        OnnxModel(path, "abacus")
    import onnxruntime

    if "CUDAExecutionProvider" not in onnxruntime.get_available_providers():
        with pytest.raises(UsageError, match=r"Expected a GPU that onnxruntime can use .*onnxruntime-gpu"):
            OnnxModel(path, "cuda")


def test_a_missing_runtime_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(UsageError, match=r"Expected onnxruntime, .* pip install onnxruntime"):
        OnnxModel(write(tmp_path / "a", changed()))
