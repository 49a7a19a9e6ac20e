"""Whole runs on a GPU, from a pack, with steps as a graph."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

import tiny
from earsight.config import Optim
from earsight.header import WEIGHTS
from earsight.training.loop import train
from earsight.training.step import Stepper
from tiny.packing import SETTINGS, pack
from tiny.tones import Tones

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device here"),
]


@pytest.fixture(autouse=True)
def _repeatable(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    yield
    torch.use_deterministic_algorithms(False)


@pytest.mark.parametrize("how", [{}, {"graph": True}, {"graph": True, "precision": "bf16", "workers": 2}])
def test_a_run_that_was_cut_off_ends_with_the_weights_of_one_that_was_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: dict[str, Any]
) -> None:
    for split in ("train", "val"):
        pack(Tones(split), tmp_path / "pack", SETTINGS)
    job = tiny.job(epochs=3)
    optim: Optim = replace(job.optim, deterministic=True, save_every=3, **how)
    inputs = replace(job.inputs, rate=SETTINGS.rate, seconds=SETTINGS.seconds)
    job = replace(job, optim=optim, inputs=inputs, data=str(tmp_path / "pack"))
    train(job, tmp_path / "whole", device="cuda")

    taken, plain = [0], Stepper.__call__

    def cut(self: Stepper, *given: Any) -> Any:
        taken[0] += 1
        if taken[0] == 11:
            raise KeyboardInterrupt
        return plain(self, *given)

    monkeypatch.setattr(Stepper, "__call__", cut)
    with pytest.raises(KeyboardInterrupt):
        train(job, tmp_path / "cut", device="cuda")
    train(job, tmp_path / "cut", device="cuda", resume=True)
    whole, resumed = load_file(tmp_path / "whole" / WEIGHTS), load_file(tmp_path / "cut" / WEIGHTS)
    for name, value in whole.items():
        assert torch.allclose(value.float(), resumed[name].float(), atol=1e-5), name
