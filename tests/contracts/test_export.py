"""Every method in the methods folder can be exported, and answers from the file as it does in torch."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from test_methods import pairs, tiny, tiny_config

from earsight import registry
from earsight.checkpoint import save_weights
from earsight.export import LARGEST_DIFFERENCE, answers, export_onnx
from earsight.onnxfile import OnnxModel


@pytest.mark.slow
@pytest.mark.parametrize("name", registry.names("method"))
def test_a_method_answers_from_its_file_as_in_torch(name: str, tmp_path: Path) -> None:
    method = tiny(name).eval()
    save_weights(tmp_path / "tiny.safetensors", method, name, tiny_config(name), {"protocol": "exact"})
    done = export_onnx(tmp_path / "tiny.safetensors", tmp_path / "tiny")
    assert done.difference <= LARGEST_DIFFERENCE
    batch = pairs(5)
    with torch.inference_mode():
        maps = method.localize(batch.frames, batch.waveforms)
    model = OnnxModel(tmp_path / "tiny")
    found = model.localize(batch.frames.numpy(), batch.waveforms.numpy())
    for part, wanted in answers(maps).items():
        np.testing.assert_allclose(getattr(found, part), wanted.numpy(), rtol=1e-4, atol=1e-4)
    assert (found.bounds, found.native_bounds) == (maps.bounds, maps.native_bounds)
    assert model.name == name
