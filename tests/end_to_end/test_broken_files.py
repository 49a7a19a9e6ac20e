"""A folder of three hundred broken media files goes through the command line without harm."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from broken import broken_files

from earsight.checkpoint import save_weights
from earsight.cli import main
from earsight.config import Inputs
from earsight.encoders.base import Encoders
from earsight.methods.slavc import Config, Model


@pytest.mark.slow
def test_every_broken_file_is_named_and_the_exit_code_is_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    torch.manual_seed(0)
    config = Config(encoders=Encoders("small", "small", weights="random", width=4), dim=8)
    inputs = Inputs(image_size=32, resize=36, rate=8000, seconds=1.0, window=128, hop=64)
    save_weights(tmp_path / "tiny.safetensors", Model(config, inputs), "slavc", config, {"protocol": "exact"})
    files = broken_files(tmp_path, 300)
    given = [str(tmp_path / "tiny.safetensors"), str(files[0].parent)]
    code = main(["localize", *given, "--out", str(tmp_path / "out"), "--format", "json", "--every", "0.5", "--json"])
    out, err = capsys.readouterr()
    assert code == 1
    assert "Traceback" not in out + err
    json.loads(out)
    unnamed = [file.name for file in files if file.name not in out + err]
    assert unnamed == []
