"""When a run is over nothing of it stays: a process that makes one run after another needs the memory of one."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

import tiny
from earsight import registry
from earsight.data.loading import Loader, Prefetcher
from earsight.methods.base import Method
from earsight.training.loop import train
from earsight.training.step import Stepper
from tiny import any_method

WATCHED: tuple[type, ...] = (Method, torch.optim.Adam, Loader, torch.utils.data.DataLoader, Prefetcher, Stepper)


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[weakref.ref[Any]]]:
    """All that was made of these, while no cycle of references is looked for: what is in one would stay for long."""
    seen: list[weakref.ref[Any]] = []

    def watch(kind: type) -> None:
        begin: Any = kind.__init__  # type: ignore[misc]

        def begun(self: Any, *args: Any, **options: Any) -> None:
            begin(self, *args, **options)
            seen.append(weakref.ref(self))

        monkeypatch.setattr(kind, "__init__", begun)

    for kind in WATCHED:
        watch(kind)
    gc.collect()
    gc.disable()
    yield seen
    gc.enable()


def alive(made: list[weakref.ref[Any]]) -> list[str]:
    return [type(one()).__name__ for one in made if one() is not None]


@pytest.mark.parametrize("name", registry.names("method"))
def test_nothing_of_a_run_is_alive_after_it(name: str, tmp_path: Path, made: list[weakref.ref[Any]]) -> None:
    settings = any_method.settings(name)
    train(tiny.job(method=name, settings=settings, limit=16, epochs=2), tmp_path / "run", device="cpu")
    assert len(made) >= 3
    assert alive(made) == []


@pytest.mark.slow
def test_nothing_of_a_run_with_workers_is_alive_after_it(tmp_path: Path, made: list[weakref.ref[Any]]) -> None:
    train(tiny.job(limit=16, epochs=2, workers=1), tmp_path / "run", device="cpu")
    assert alive(made) == []


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device here")
def test_a_gpu_holds_no_more_for_many_epochs_than_for_a_few_and_nothing_afterwards(tmp_path: Path) -> None:
    def held(epochs: int) -> int:
        gc.collect()
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
        train(tiny.job(limit=16, epochs=epochs, graph=True), tmp_path / str(epochs), device="cuda")
        return torch.cuda.max_memory_reserved()

    held(2)  # what libraries keep for good
    gc.collect()
    before, few = torch.cuda.memory_allocated(), held(4)
    assert held(36) <= few + 8 * 2**20  # a stream of its own would keep 2 MiB or more for each epoch
    gc.collect()
    assert torch.cuda.memory_allocated() <= before + 2**20
