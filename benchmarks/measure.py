"""How a ratio is measured: both sides in turn, several rounds, the median of each."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Ratio:
    """What was compared, on how much, and how many times faster ours is."""

    name: str
    reference: str
    items: int
    ours_seconds: float
    reference_seconds: float

    @property
    def times(self) -> float:
        return self.reference_seconds / self.ours_seconds


def compare(
    name: str, items: int, ours: Callable[[], object], reference: Callable[[], object], described: str, rounds: int = 5
) -> Ratio:
    """Run both once to warm up, then in turn, so that whatever else the machine does hits both alike."""
    ours(), reference()
    mine, theirs = [], []
    for _ in range(rounds):
        for side, spent in ((ours, mine), (reference, theirs)):
            began = time.perf_counter()
            side()
            spent.append(time.perf_counter() - began)
    return Ratio(name, described, items, statistics.median(mine), statistics.median(theirs))
