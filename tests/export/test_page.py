"""What docs/export.md tells people to type works, and what it says of the file is so."""

from __future__ import annotations

import dataclasses
import re
import shlex
from pathlib import Path

import make
import numpy as np
import onnx
import pytest
import small

from earsight.cli import main
from earsight.cli.convert import Export
from earsight.export import Exported
from earsight.onnxfile import OnnxModel

PAGE = (Path(__file__).parents[2] / "docs" / "export.md").read_text(encoding="utf-8")


@pytest.mark.slow
def test_its_commands_and_examples_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    small.weights(tmp_path / "demo" / "run" / "weights.safetensors")
    make.steps(tmp_path / "my-video.mp4", 1.2)
    make.picture(tmp_path / "photo.jpg", np.full((40, 60, 3), 90, np.uint8))
    make.sound_file(tmp_path / "sound.wav", make.chirp(2))
    lines = [shlex.split(line)[1:] for line in PAGE.splitlines() if line.startswith("earsight ")]
    assert [main(args) for args in lines] == [0, 0]
    for example in re.findall(r"```python\n(.*?)```", PAGE, flags=re.S):
        exec(compile(example, "export.md", "exec"), {})
    assert "(100, 2, 2) (-1.0, 1.0)" in capsys.readouterr().out


def test_every_flag_is_explained() -> None:
    for field in dataclasses.fields(Export):
        assert field.name == "weights" or f"`--{field.name}" in PAGE


def test_every_input_and_output_and_key_is_named(exported: Exported) -> None:
    for file in exported.path.iterdir():
        assert f"`{file.name}`" in PAGE
    for file in exported.path.glob("*.onnx"):
        graph = onnx.load(file).graph
        for name in [*(one.name for one in graph.input), *(one.name for one in graph.output)]:
            assert f"`{name}`" in PAGE
    for name in OnnxModel(exported.path).meta:
        assert f"`{name}`" in PAGE
