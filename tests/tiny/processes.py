"""Work in processes of its own: several that form a group, or one that may be killed.

A server that has imported torch, and computed nothing, forks them: starting one takes no time, and forking is safe.
"""

from __future__ import annotations

import multiprocessing
import os
import sys
from collections.abc import Callable
from multiprocessing import forkserver
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

_server = multiprocessing.get_context("forkserver")
_server.set_forkserver_preload(["earsight.training.loop", "earsight.methods.slavc"])
PATIENCE = 300


def ready() -> None:
    """Start the server, unless another one runs: a process has one at most, and the first says what it has imported."""
    forkserver.ensure_running()


def start(work: Callable[..., Any], *args: Any) -> BaseProcess:
    """Run `work` in a process of its own, on one core."""
    process = _server.Process(target=_alone, args=(work, args))
    process.start()
    return process


def together(folder: Path, world: int, work: Callable[..., Any], *args: Any) -> list[Any]:
    """What `work` returns in each process of a group, in order; fails when one of them fails or hangs."""
    processes = group(folder, world, work, *args)
    codes = finish(processes)
    assert codes == [0] * world, f"processes ended with {codes}"
    return [torch.load(folder / f"rank{rank}.pt", weights_only=False) for rank in range(world)]


def group(folder: Path, world: int, work: Callable[..., Any], *args: Any) -> list[BaseProcess]:
    """Start the processes of a group; each knows its place as under torchrun."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "store").unlink(missing_ok=True)
    return [start(_member, folder, rank, world, work, args) for rank in range(world)]


def finish(processes: list[BaseProcess]) -> list[int | None]:
    """Exit codes, once all have ended; None for one that had to be killed because it hung."""
    codes: list[int | None] = []
    for process in processes:
        process.join(PATIENCE)
        codes.append(process.exitcode)
        if process.exitcode is None:
            process.kill()
            process.join()
    return codes


def _alone(work: Callable[..., Any], args: tuple[Any, ...]) -> None:
    torch.set_num_threads(1)
    work(*args)
    sys.stdout.flush()


def _member(folder: Path, rank: int, world: int, work: Callable[..., Any], args: tuple[Any, ...]) -> None:
    os.environ.update(RANK=str(rank), WORLD_SIZE=str(world), LOCAL_RANK=str(rank))
    dist.init_process_group("gloo", init_method=f"file://{folder / 'store'}", rank=rank, world_size=world)
    torch.save(work(*args), folder / f"rank{rank}.pt")
    dist.barrier()
    dist.destroy_process_group()
