"""Independent pieces of a step at the same time on one GPU."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor


def side_by_side(*works: Callable[[], Tensor]) -> list[Tensor]:
    """What these give, each of which needs nothing of the others.

    While a graph of kernels is being recorded, each gets a stream of its own, and autograd takes each back on its own:
    where one leaves a part of the GPU idle, as all last layers do, another fills it. Outside of a graph the CPU cannot
    launch kernels fast enough for that, and they are done one after the other.
    """
    if not (torch.cuda.is_available() and torch.cuda.is_current_stream_capturing()):
        return [work() for work in works]
    main = torch.cuda.current_stream()
    sides = [torch.cuda.Stream() for _ in works[1:]]  # type: ignore[no-untyped-call]
    found = []
    for side, work in zip(sides, works[1:], strict=True):
        side.wait_stream(main)
        with torch.cuda.stream(side):
            found.append(work())
    found.insert(0, works[0]())
    for side, result in zip(sides, found[1:], strict=True):
        main.wait_stream(side)
        result.record_stream(main)
    return found
