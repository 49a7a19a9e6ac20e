"""ONNX files that are not what `earsight export` writes are refused, each with its reason."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from earsight.config import Inputs, to_json
from earsight.errors import CheckpointError, UsageError
from earsight.onnxfile import KEY, OnnxModel

GOOD = {"format": 1, "method": "ezvsl", "inputs": to_json(Inputs()), "versions": {}, "bounds": [-1, 1]}


def write(path: Path, text: str | None, given: str = "picture", gives: str = "dense") -> Path:
    """A graph that gives what it is given, with metadata."""
    ends = [helper.make_tensor_value_info(name, TensorProto.INT64, ["n"]) for name in (given, gives)]
    graph = helper.make_graph([helper.make_node("Identity", [given], [gives])], "same", ends[:1], ends[1:])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)
    if text is not None:
        helper.set_model_props(model, {KEY: text})
    onnx.save(model, path)
    return path


def changed(**changes: Any) -> str:
    return json.dumps({key: value for key, value in {**GOOD, **changes}.items() if value is not None})


def test_a_graph_with_the_right_names_and_metadata_is_taken(tmp_path: Path) -> None:
    model = OnnxModel(write(tmp_path / "a.onnx", changed()))
    assert model.inputs == Inputs()
    sound, frames = np.zeros((2, 9), np.float32), np.zeros((2, 3, 9, 9), np.uint8)
    assert model.localize(frames, sound).dense.tolist() == [0, 1]
    assert model.see(np.zeros((3, 40, 60), np.uint8)).shape == (3, 224, 224)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (None, "says nothing of earsight"),
        ("{", "Expected JSON in the metadata"),
        (100_000 * "[", "Expected JSON in the metadata of .*, but got: more than 64 lists"),
        ("[1]", "Expected an export of format 1, but .* has list"),
        (changed(format=7), "Expected an export of format 1, but .* has 7"),
        (changed(method=None), "Expected method, inputs, versions in .*, but got no usable method"),
        (changed(calibration={"threshold": "high"}), "but got no usable calibration.threshold"),
        (changed(bounds=3), "Expected two numbers as bounds in .*, but got 3"),
        (changed(inputs={"rate": "fast"}), "Expected input settings in .*, but got: Expected int for Inputs.rate"),
    ],
)
def test_metadata_that_cannot_be_used_is_refused(tmp_path: Path, text: str | None, reason: str) -> None:
    with pytest.raises(CheckpointError, match=f"{reason}.*earsight export WEIGHTS"):
        OnnxModel(write(tmp_path / "a.onnx", text))


@pytest.mark.parametrize(("given", "gives"), [("x", "dense"), ("picture", "y")])
def test_graphs_with_other_names_are_refused(tmp_path: Path, given: str, gives: str) -> None:
    with pytest.raises(CheckpointError, match="Expected a model from frames, picture, sound, waveforms to dense"):
        OnnxModel(write(tmp_path / "a.onnx", changed(), given, gives))


def test_missing_and_broken_files_are_refused(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="Expected an ONNX file, but there is nothing at"):
        OnnxModel(tmp_path / "none.onnx")
    (tmp_path / "a.onnx").write_bytes(b"no graph")
    with pytest.raises(CheckpointError, match=r"Expected an ONNX model, but .* cannot be run \(.*earsight export"):
        OnnxModel(tmp_path / "a.onnx")


def test_devices_that_are_not_there_are_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "a.onnx", changed())
    with pytest.raises(UsageError, match="Expected device auto, cpu or cuda, but got abacus"):
        OnnxModel(path, "abacus")
    import onnxruntime

    if "CUDAExecutionProvider" not in onnxruntime.get_available_providers():
        with pytest.raises(UsageError, match=r"Expected a GPU that onnxruntime can use .*onnxruntime-gpu"):
            OnnxModel(path, "cuda")


def test_a_missing_runtime_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(UsageError, match=r"Expected onnxruntime, .* pip install 'earsight\[onnx\]'"):
        OnnxModel(write(tmp_path / "a.onnx", changed()))
