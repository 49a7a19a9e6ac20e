"""Two processes that share an evaluation write the report that one writes, byte for byte."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import torch

import tiny
from earsight.checkpoint import save_weights
from earsight.cli.evaluate import Eval, run
from earsight.methods.base import build
from tiny import processes


def evaluated(weights: Path, out: Path) -> int:
    """The command as each process of a torchrun runs it."""
    torch.manual_seed(int(os.environ.get("RANK", "0")))  # nothing may depend on it
    sets, how = ("tiny.tones:val", "tiny.tones:torn"), ("exact", "official", "paper")
    return run(Eval(weights=(weights,), on=sets, protocol=how, batch_size=5, device="cpu", out=out))


@pytest.mark.slow
def test_two_processes_write_the_report_of_one(tmp_path: Path) -> None:
    torch.manual_seed(0)
    weights, config = tmp_path / "tiny.safetensors", tiny.config("official")
    save_weights(weights, build("slavc", config, tiny.INPUTS), "slavc", config, {"protocol": "exact"})
    assert processes.together(tmp_path / "alone", 1, evaluated, weights, tmp_path / "one") == [0]
    assert processes.together(tmp_path / "pair", 2, evaluated, weights, tmp_path / "two") == [0, 0]
    one, two = (
        {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
        for folder in (tmp_path / "one", tmp_path / "two")
    )
    assert "metrics.json" in one
    assert b"tiny.tones:torn" in one["metrics.json"]
    assert one.keys() == two.keys()
    assert [name for name in one if one[name] != two[name]] == []
