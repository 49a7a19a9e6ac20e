"""Evaluations made up for reports."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from earsight.evaluation import Evaluation, measure
from earsight.metrics import average_precision, loc_acc
from earsight.metrics.base import Records
from earsight.protocols import Protocol, get
from earsight.types import Row

Make = Callable[..., Evaluation]


def made(
    audio: str = "real",
    *,
    ciou: float = 0.6,
    sure: float = 0.2,
    kinds: tuple[str, ...] = ("positive", "easy"),
    count: int = 200,
    model: str = "slavc",
    protocol: Protocol | None = None,
    id: str = "c",
    **changes: Any,
) -> Evaluation:
    """Clips with a mean cIoU, and positives that are surer than negatives by `sure`."""
    protocol = protocol or get("exact")
    random = np.random.default_rng(0)
    rows = [Row(f"{id}{i:03d}", kind=kinds[i % len(kinds)]) for i in range(count)]
    overlap = np.clip(ciou + random.normal(0, 0.1, count), 0, 1)
    confidence = random.normal(0, 0.1, count) + sure * np.array([row.positive for row in rows])
    records = Records.of(rows, area=50_000 * random.random(count), confidence=confidence, ciou=overlap)
    numbers, floor = measure(records, protocol), average_precision.f1_floor(records, protocol)
    ceiling = loc_acc.ceiling(records.area[records.positives], protocol)
    done = Evaluation("set:test", "abc", protocol, audio, records, numbers, floor, ceiling, (), model, rows=count)
    return replace(done, **changes)


@pytest.fixture
def make() -> Make:
    return made
