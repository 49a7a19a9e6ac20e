"""How a ratio is measured: both sides in turn, several rounds, the median of each; and what is kept of it."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from typing import Any

import torch


@dataclass(frozen=True)
class Result:
    """What was compared, on how much, and how long both sides took for it.

    Args:
        name: of the comparison, as `--only` takes it.
        what: the work, in words.
        ours: what earsight does.
        reference: what the plain code in benchmarks/reference does.
        items: how many of `unit` both sides worked on.
        unit: what is counted.
        ours_seconds: for all items.
        reference_seconds: for all items.
        extra: other numbers that belong to it, by their name.
    """

    name: str
    what: str
    ours: str
    reference: str
    items: int
    unit: str
    ours_seconds: float
    reference_seconds: float
    extra: Mapping[str, float] = field(default_factory=dict)

    @property
    def ratio(self) -> float:
        """How many times as fast ours is."""
        return self.reference_seconds / self.ours_seconds

    @property
    def rates(self) -> tuple[float, float]:
        """Items a second: ours, the reference's."""
        return self.items / self.ours_seconds, self.items / self.reference_seconds

    def to_json(self) -> dict[str, Any]:
        """Plain values with three or four digits, which is more than a clock on a busy machine can tell."""
        plain = asdict(self) | {"extra": {name: short(value) for name, value in self.extra.items()}}
        rates = dict(zip(("ours_rate", "reference_rate"), map(short, self.rates), strict=True))
        seconds = {name: short(plain[name]) for name in ("ours_seconds", "reference_seconds")}
        return plain | seconds | rates | {"ratio": short(self.ratio)}

    def line(self) -> str:
        ours, reference = self.rates
        more = "".join(f"; {name} {value:.4g}" for name, value in self.extra.items())
        return (
            f"{self.name}: {self.ratio:.1f} times as fast ({ours:,.0f} {self.unit}/s against {reference:,.0f}) "
            f"as {self.reference} [{self.what}{more}]"
        )


def short(value: float) -> float:
    """Four digits.

    >>> short(1234.5678), short(0.00012345678)
    (1235.0, 0.0001235)
    """
    return float(f"{value:.4g}")


def timed(work: Callable[[], object], device: str = "cpu") -> float:
    """Seconds that the work takes; a GPU is waited for on both ends, since its work is only queued."""
    wait_for(device)
    began = time.perf_counter()
    work()
    wait_for(device)
    return time.perf_counter() - began


def wait_for(device: str) -> None:
    if device == "cuda":
        torch.cuda.synchronize()


def compare(
    ours: Callable[[], object],
    reference: Callable[[], object],
    *,
    rounds: int = 5,
    device: str = "cpu",
    warm: int = 1,
) -> tuple[float, float]:
    """Seconds of both: each `warm` times for nothing, then in turn, so that all else the machine does hits both."""
    for side in (ours, reference):
        for _ in range(warm):
            side()
    spent: tuple[list[float], list[float]] = ([], [])
    for _ in range(rounds):
        for side, seconds in zip((ours, reference), spent, strict=True):
            seconds.append(timed(side, device))
    return statistics.median(spent[0]), statistics.median(spent[1])


@dataclass(frozen=True)
class How:
    """Where to measure, and whether a rough number will do."""

    device: str = "cpu"
    quick: bool = False

    @property
    def gpu(self) -> bool:
        return self.device == "cuda"

    def count(self, many: int, few: int) -> int:
        return few if self.quick else many


@contextmanager
def one_thread() -> Iterator[None]:
    """Let torch use one core, to measure what a core does."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
