"""Exported files: they carry all that localizing needs, and none is kept that answers otherwise than torch."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import small

import earsight
from earsight import export
from earsight.errors import CheckpointError, EarsightError, UsageError
from earsight.export import Exported, check, export_onnx
from earsight.export.check import difference, pictures, sounds
from earsight.onnxfile import OnnxModel


def test_a_file_answers_as_torch_does(exported: Exported) -> None:
    assert exported.difference <= 1e-5
    assert exported.method == "ezvsl"
    assert exported.size == exported.path.stat().st_size
    assert difference(small.tiny()[0], exported.path) == exported.difference


def test_a_file_carries_all_that_localizing_needs(exported: Exported) -> None:
    model = OnnxModel(exported.path)
    assert model.inputs == small.INPUTS
    assert model.meta["protocol"] == "exact"
    assert model.meta["calibration"] == small.CALIBRATION
    assert model.meta["bounds"] == [-1.0, 1.0]
    assert model.meta["config"]["encoders"]["audio"] == "small"
    assert model.meta["versions"]["earsight"] == earsight.__version__


def test_the_graph_is_valid_and_takes_any_number_of_each(exported: Exported) -> None:
    graph = onnx.load(exported.path)
    onnx.checker.check_model(graph, full_check=True)
    free = {one.name: one.type.tensor_type.shape.dim[0].dim_param for one in graph.graph.input}
    known = free.pop("known_0")
    assert known == "known_pictures"
    assert free == {"frames": "pictures", "waveforms": "sounds", "picture": "pairs", "sound": "pairs"}
    assert [one.name for one in graph.graph.output] == ["dense", "seen_0"]
    assert {one.version for one in graph.opset_import if one.domain == ""} == {18}


def test_one_picture_with_many_sounds_is_answered_as_pairs_are(exported: Exported) -> None:
    model = OnnxModel(exported.path)
    picture, heard = pictures(32)[:1], sounds(small.INPUTS)
    together = model.localize(picture, heard, [0] * 6, range(6))
    alone = model.localize(np.repeat(picture, 6, axis=0), heard)
    np.testing.assert_allclose(together.dense, alone.dense, atol=1e-6)
    with pytest.raises(UsageError, match="Expected as many sounds as pictures, but got 6 for 1"):
        model.localize(picture, heard)
    with pytest.raises(UsageError, match="Expected a picture and a sound for each pair"):
        model.localize(picture, heard, [0], [0, 1])


def test_what_was_made_of_a_picture_can_be_given_in_its_place(exported: Exported) -> None:
    model = OnnxModel(exported.path)
    picture, heard = pictures(32), sounds(small.INPUTS)
    names, given = ["dense", "seen_0"], {"waveforms": heard[:2], "sound": np.array([0, 1])}
    whole, made = model._session.run(names, {**given, "frames": picture[:2], "picture": np.array([0, 1])})
    again, none = model._session.run(
        names, {**given, "frames": picture[:0], "picture": np.array([0, 1]), "known_0": made}
    )
    np.testing.assert_array_equal(again, whole)
    assert len(none) == 0
    mixed, _ = model._session.run(
        names, {**given, "frames": picture[:1], "picture": np.array([0, 1]), "known_0": made[1:]}
    )
    np.testing.assert_allclose(mixed, whole, atol=1e-6)


def test_a_graph_that_needs_a_new_picture_each_time_is_written_without_a_memory(
    exported: Exported, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(self: OnnxModel, *given: object) -> None:
        raise RuntimeError("Compute left operand cannot broadcast on dim 0")

    with monkeypatch.context() as change:
        change.setattr(check, "OnnxModel", type("Failing", (OnnxModel,), {"localize": _second(fails)}))
        assert not check.remembers(small.INPUTS, exported.path)
    assert check.remembers(small.INPUTS, exported.path)
    monkeypatch.setattr(export, "remembers", lambda inputs, path: False)
    plain = export_onnx(exported.path.with_suffix(".safetensors"), tmp_path / "a.onnx")
    graph = onnx.load(plain.path).graph
    assert [one.name for one in graph.input] == ["frames", "waveforms", "picture", "sound"]
    assert [one.name for one in graph.output] == ["dense"]
    seen, heard = pictures(32), sounds(small.INPUTS)
    for _ in range(2):
        one, other = (OnnxModel(path).localize(seen[:1], heard[:1]) for path in (plain.path, exported.path))
        np.testing.assert_allclose(one.dense, other.dense, atol=1e-6)


def _second(fails: Callable[..., None]) -> Callable[..., object]:
    """The usual answer the first time, and a failure from then on."""
    times = 0

    def localize(self: OnnxModel, *given: Any) -> object:
        nonlocal times
        times += 1
        return OnnxModel.localize(self, *given) if times == 1 else fails(self, *given)

    return localize


@pytest.mark.slow
def test_another_opset_can_be_asked_for(exported: Exported, tmp_path: Path) -> None:
    newer = export_onnx(exported.path.with_suffix(".safetensors"), tmp_path / "a.onnx", 20)
    assert newer.opset == 20
    assert {one.version for one in onnx.load(newer.path).opset_import if one.domain == ""} == {20}


@pytest.mark.parametrize("opset", [17, 999])
def test_an_opset_that_cannot_be_written_is_refused(exported: Exported, tmp_path: Path, opset: int) -> None:
    with pytest.raises(UsageError, match=rf"Expected an opset from 18 to \d+, but got {opset}"):
        export_onnx(exported.path.with_suffix(".safetensors"), tmp_path / "a.onnx", opset)


@pytest.mark.parametrize("apart", [2e-4, float("inf"), float("nan")])
def test_a_file_that_answers_otherwise_is_not_kept(
    exported: Exported, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, apart: float
) -> None:
    monkeypatch.setattr(export, "difference", lambda model, path: apart)
    monkeypatch.setattr(export, "_write", lambda loaded, path, opset: path.write_bytes(b"graph"))
    monkeypatch.setattr(export, "remembers", lambda inputs, path: True)
    with pytest.raises(EarsightError, match=r"Expected answers within 0\.0001 of torch's, but those of the exported"):
        export_onnx(exported.path.with_suffix(".safetensors"), tmp_path / "a.onnx")
    assert list(tmp_path.iterdir()) == []


def test_missing_packages_and_weights_are_told(
    exported: Exported, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(CheckpointError, match="nothing at"):
        export_onnx(tmp_path / "none.safetensors", tmp_path / "a.onnx")
    monkeypatch.setitem(sys.modules, "onnxscript", None)
    with pytest.raises(
        UsageError, match=r"Expected onnx, onnxscript and onnxruntime, .* pip install 'earsight\[onnx\]'"
    ):
        export_onnx(exported.path.with_suffix(".safetensors"), tmp_path / "a.onnx")


def test_a_wrong_graph_is_noticed(exported: Exported, tmp_path: Path) -> None:
    graph = onnx.load(exported.path)
    weight = max(graph.graph.initializer, key=lambda one: len(one.raw_data))
    values = np.frombuffer(weight.raw_data, np.float32) * 1.01
    weight.raw_data = values.astype(np.float32).tobytes()
    onnx.save(graph, tmp_path / "wrong.onnx")
    assert difference(small.tiny()[0], tmp_path / "wrong.onnx") > 1e-4
