"""Exported folders carry all that localizing needs, and none is kept that answers otherwise than torch."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
import small
import torch
from torch import Tensor

import earsight
from earsight import export
from earsight.config import Inputs
from earsight.encoders.frontend import Spectrogram
from earsight.errors import CheckpointError, EarsightError, UsageError
from earsight.export import Exported, ExportSpectrogram, difference, example_pictures, example_sounds, export_onnx
from earsight.methods import ezvsl
from earsight.onnxfile import OnnxModel
from earsight.types import Maps


def weights_of(exported: Exported) -> Path:
    return exported.path.with_suffix(".safetensors")


def test_a_folder_answers_as_torch_does(exported: Exported) -> None:
    assert exported.difference <= 1e-5
    assert exported.method == "ezvsl"
    assert exported.size == sum(file.stat().st_size for file in exported.path.iterdir())
    assert difference(small.tiny()[0], exported.path) == exported.difference


def test_a_folder_carries_all_that_localizing_needs(exported: Exported) -> None:
    files = {"config.json", "picture.onnx", "sound.onnx", "compare.onnx"}
    assert {file.name for file in exported.path.iterdir()} == files
    model = OnnxModel(exported.path)
    assert model.inputs == small.INPUTS
    assert model.meta["protocol"] == "exact"
    assert model.meta["calibration"] == small.CALIBRATION
    assert model.meta["bounds"] == [-1.0, 1.0]
    assert model.meta["config"]["encoders"]["image"] == "small"
    assert model.meta["versions"]["earsight"] == earsight.__version__


def test_graphs_are_valid_and_take_any_number_of_rows(exported: Exported) -> None:
    names = {}
    for file in exported.path.glob("*.onnx"):
        model = onnx.load(file)
        onnx.checker.check_model(model, full_check=True)
        inputs = {one.name: one.type.tensor_type.shape.dim[0].dim_param for one in model.graph.input}
        names[file.stem] = inputs, [one.name for one in model.graph.output]
        assert {one.version for one in model.opset_import if one.domain == ""} == {18}
    assert names["picture"] == ({"pictures": "pictures"}, ["picture_places"])
    assert names["sound"] == ({"sounds": "sounds"}, ["sound_sound"])
    assert names["compare"] == ({"picture_places": "pairs", "sound_sound": "pairs"}, ["dense"])


def test_one_picture_with_many_sounds_is_answered_as_pairs_are(exported: Exported) -> None:
    model = OnnxModel(exported.path)
    picture, sounds = example_pictures(32)[:1], example_sounds(small.INPUTS)
    together = model.localize(picture, sounds, [0] * 6, range(6))
    alone = model.localize(np.repeat(picture, 6, axis=0), sounds)
    np.testing.assert_allclose(together.dense, alone.dense, atol=1e-6)
    with pytest.raises(UsageError, match="Expected as many sounds as pictures, but got 6 for 1"):
        model.localize(picture, sounds)
    with pytest.raises(UsageError, match="Expected a picture and a sound for each pair"):
        model.localize(picture, sounds, [0], [0, 1])


def test_a_picture_is_encoded_once_for_several_calls(exported: Exported, monkeypatch: pytest.MonkeyPatch) -> None:
    model = OnnxModel(exported.path)
    pictures, sounds = example_pictures(32), example_sounds(small.INPUTS)
    encoded: list[int] = []
    graph = model._graphs["picture.onnx"]
    features = graph.features
    monkeypatch.setattr(graph, "features", lambda x: encoded.append(len(x["pictures"])) or features(x))
    first = model.localize(pictures[:1], sounds[:1])
    again = model.localize(pictures[:1], sounds[1:2])
    other = model.localize(pictures[1:2], sounds[1:2])
    assert encoded == [1, 1]
    fresh = OnnxModel(exported.path)
    for found, picture, sound in ((first, 0, 0), (again, 0, 1), (other, 1, 1)):
        wanted = fresh.localize(pictures, sounds, [picture], [sound])
        np.testing.assert_allclose(found.dense, wanted.dense, atol=1e-6)


@pytest.mark.slow
def test_another_opset_can_be_chosen(exported: Exported, tmp_path: Path) -> None:
    newer = export_onnx(weights_of(exported), tmp_path / "a", 20)
    assert newer.opset == 20
    opsets = onnx.load(newer.path / "compare.onnx").opset_import
    assert {one.version for one in opsets if one.domain == ""} == {20}


@pytest.mark.parametrize("opset", [17, 999])
def test_an_opset_that_cannot_be_written_is_refused(exported: Exported, tmp_path: Path, opset: int) -> None:
    with pytest.raises(UsageError, match=rf"Expected an opset from 18 to \d+, but got {opset}"):
        export_onnx(weights_of(exported), tmp_path / "a", opset)


@pytest.mark.parametrize("apart", [2e-4, float("inf"), float("nan")])
def test_an_export_that_answers_otherwise_is_not_kept(
    exported: Exported, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, apart: float
) -> None:
    monkeypatch.setattr(export, "difference", lambda model, path: apart)
    monkeypatch.setattr(export, "_write", lambda loaded, folder, opset: None)
    with pytest.raises(EarsightError, match=r"Expected answers within 0\.0001 of torch's, but those of the exported"):
        export_onnx(weights_of(exported), tmp_path / "a")
    assert list(tmp_path.iterdir()) == []


def test_a_wrong_graph_is_noticed(exported: Exported, tmp_path: Path) -> None:
    wrong = tmp_path / "wrong"
    shutil.copytree(exported.path, wrong)
    graph = onnx.load(wrong / "picture.onnx")
    weight = max(graph.graph.initializer, key=lambda one: len(one.raw_data))
    weight.raw_data = (np.frombuffer(weight.raw_data, np.float32) * 1.01).astype(np.float32).tobytes()
    onnx.save(graph, wrong / "picture.onnx")
    assert difference(small.tiny()[0], wrong) > 1e-4


def test_graphs_of_other_inputs_and_settings_that_do_not_fit_are_refused(exported: Exported, tmp_path: Path) -> None:
    wrong = tmp_path / "wrong"
    shutil.copytree(exported.path, wrong)
    shutil.copy(wrong / "sound.onnx", wrong / "picture.onnx")
    with pytest.raises(CheckpointError, match=r"Expected a graph of pictures, but .*picture.onnx asks for sounds"):
        OnnxModel(wrong).localize(example_pictures(32), example_sounds(small.INPUTS)[:3])
    config = json.loads((wrong / "config.json").read_text(encoding="utf-8"))
    (wrong / "config.json").write_text(json.dumps({**config, "inputs": 3}), encoding="utf-8")
    with pytest.raises(CheckpointError, match="but got no usable inputs"):
        OnnxModel(wrong)


def test_missing_packages_and_weights_are_named(
    exported: Exported, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(CheckpointError, match="nothing at"):
        export_onnx(tmp_path / "none.safetensors", tmp_path / "a")
    monkeypatch.setitem(sys.modules, "onnxscript", None)
    with pytest.raises(UsageError, match=r"Expected onnx, onnxscript and onnxruntime, .* pip install"):
        export_onnx(weights_of(exported), tmp_path / "a")


def test_a_method_that_is_no_graph_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = ezvsl.Model.compare

    def compare(self: ezvsl.Model, image: dict[str, Tensor], audio: dict[str, Tensor]) -> Maps:
        maps = plain(self, image, audio)
        return maps.each(lambda x: x * 2) if float(audio["sound"].max()) > 0.5 else maps

    monkeypatch.setattr(ezvsl.Model, "compare", compare)
    with pytest.raises(UsageError, match=r"Expected a method whose localize can be written as ONNX graphs, but got"):
        export_onnx(small.weights(tmp_path / "a.safetensors"), tmp_path / "a")


@pytest.mark.parametrize("inputs", [small.INPUTS, Inputs(), Inputs(rate=16000, seconds=1.0, window=160, hop=80)])
def test_the_convolution_gives_the_spectrogram(inputs: Inputs) -> None:
    sounds = torch.from_numpy(example_sounds(inputs))
    usual, other = Spectrogram(inputs)(sounds), ExportSpectrogram(inputs)(sounds)
    assert other.shape == usual.shape == (6, 1, inputs.bins, inputs.frames)
    torch.testing.assert_close(other, usual, rtol=0, atol=1e-4)
