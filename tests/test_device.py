"""Which device a process works on, and that it is the current one."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from earsight.cli.evaluate import Eval, run
from earsight.device import own_device
from earsight.errors import CheckpointError


@pytest.fixture
def current(monkeypatch: pytest.MonkeyPatch) -> list[torch.device]:
    """What was made the current GPU, on a machine that need not have one."""
    found: list[torch.device] = []
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "set_device", found.append)
    return found


@pytest.mark.parametrize(
    ("device", "rank", "wanted"), [("cuda", "", "cuda:0"), ("cuda", "3", "cuda:3"), ("cuda:1", "3", "cuda:1")]
)
def test_the_gpu_of_a_process_is_its_current_one(
    device: str, rank: str, wanted: str, current: list[torch.device], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LOCAL_RANK", rank or "0")
    assert own_device(device) == torch.device(wanted)
    assert current == [torch.device(wanted)]


def test_a_cpu_leaves_the_current_gpu_alone(current: list[torch.device]) -> None:
    assert own_device("cpu") == torch.device("cpu")
    assert current == []


@pytest.mark.parametrize(("device", "rank"), [("cuda", "1"), ("cuda:1", "0")])
def test_evaluation_makes_its_gpu_the_current_one_before_any_work(
    device: str, rank: str, current: list[torch.device], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("LOCAL_RANK", rank)
    with pytest.raises(CheckpointError, match="Expected"):
        run(Eval(weights=(tmp_path / "none.safetensors",), on=("toybox",), device=device))
    assert current == [torch.device("cuda:1")]
