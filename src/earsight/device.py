"""Where the work is done: on the GPU when there is one."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import cache
from importlib.util import find_spec
from typing import TypeVar

import torch
from torch import Tensor, nn

from earsight import distributed
from earsight.config import need, need_workers

M = TypeVar("M", bound=nn.Module)

HAS_KERNELS = find_spec("triton") is not None
"""Whether earsight's own GPU kernels can be compiled: torch brings triton along on Linux only."""
MOST_READING = 12
"""Processes that read for a GPU unless another number is asked for."""


def pick_device(device: str) -> str:
    """ "auto" becomes "cuda" when there is a GPU and "cpu" otherwise."""
    if device == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    need(device.split(":")[0] in ("cpu", "cuda"), "device auto, cpu or cuda", device)
    need(not device.startswith("cuda") or torch.cuda.is_available(), "a CUDA GPU for device cuda", "none",
         "Use --device cpu.")  # fmt: skip
    return device


def own_device(device: str) -> torch.device:
    """The device of this process, of several on one machine; of several GPUs it becomes the current one.

    That matters because Triton launches kernels on the current GPU, wherever the tensors lie.

    >>> own_device("cpu")
    device(type='cpu')
    """
    own = torch.device(device, distributed.local_rank()) if device == "cuda" else torch.device(device)
    if own.type == "cuda":
        torch.cuda.set_device(own)
    return own


def numbered(device: torch.device) -> torch.device:
    """Which of several GPUs is meant, where that is not said.

    >>> numbered(torch.device("cpu"))
    device(type='cpu')
    """
    return torch.device("cuda", torch.cuda.current_device()) if str(device) == "cuda" else device


def reading_workers(asked: int | None, device: torch.device) -> int:
    """How many processes read clips: as many as asked, or what suits the device.

    >>> reading_workers(None, torch.device("cpu")), reading_workers(3, torch.device("cpu"))
    (0, 3)
    """
    if asked is not None:
        need_workers(asked)
        return asked
    if device.type != "cuda":
        return 0
    return min(max((os.cpu_count() or 1) // int(os.environ.get("LOCAL_WORLD_SIZE", "1")), 1), MOST_READING)


@cache
def own_stream(device: torch.device, work: str) -> torch.cuda.Stream:
    """The stream on which a process does all of one kind of work, in front of what a model does.

    torch keeps memory that was freed for the stream it was made on, and gives out 32 streams in turn. With a stream for
    each epoch and each validation, a run would hold the memory of a dozen batches 32 times over.
    """
    return torch.cuda.Stream(device, priority=-1)  # type: ignore[no-untyped-call]


def placed(model: M, device: str | torch.device) -> M:
    """The model on its device, channels-last where that is faster: on a GPU all of it, on a CPU what asks for it."""
    model.to(device)
    kind = torch.device(device).type
    parts = [model] if kind == "cuda" else [part for part in model.modules() if getattr(part, "channels_last", False)]
    for part in parts if kind in ("cpu", "cuda") else []:
        part.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    return model


def run_concurrently(*works: Callable[[], Tensor]) -> list[Tensor]:
    """The results of functions that need nothing of each other.

    While a CUDA graph is being recorded, each gets a stream of its own, and autograd takes each back on its own: where
    one leaves a part of the GPU idle, as all last layers do, another fills it. Outside of a graph the CPU cannot launch
    kernels fast enough for that, and they run one after the other.
    """
    if not (torch.cuda.is_available() and torch.cuda.is_current_stream_capturing()):
        return [work() for work in works]
    main = torch.cuda.current_stream()
    streams = [torch.cuda.Stream() for _ in works[1:]]  # type: ignore[no-untyped-call]
    results = []
    for stream, work in zip(streams, works[1:], strict=True):
        stream.wait_stream(main)
        with torch.cuda.stream(stream):
            results.append(work())
    results.insert(0, works[0]())
    for stream, result in zip(streams, results[1:], strict=True):
        main.wait_stream(stream)
        result.record_stream(main)
    return results
