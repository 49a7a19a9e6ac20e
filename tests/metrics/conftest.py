"""The specification's toy records."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest

from earsight.metrics.base import Records

Make = Callable[..., Records]


def _make(kinds: Sequence[str], confidence: Sequence[float], ciou: Sequence[float], **columns: object) -> Records:
    n = len(kinds)
    ids = np.array([f"clip{i:05d}" for i in range(n)])
    area = np.array(columns.pop("area", np.zeros(n)), float)
    others = {name: np.array(values, float) for name, values in columns.items()}
    return Records(
        ids, np.array(kinds), np.array([""] * n), area, np.array(confidence, float), np.array(ciou, float), **others
    )


@pytest.fixture(scope="session")
def make() -> Make:
    """Records from kinds, confidences and cIoUs, and other columns by name."""
    return _make


@pytest.fixture(scope="session")
def toy() -> Records:
    """Six clips: positive 1,1,0,1,0,1; cIoU .8,.6,-,.3,-,.7; confidence .9 down to .4."""
    kinds = ["positive", "positive", "easy", "positive", "easy", "positive"]
    return _make(kinds, [0.9, 0.8, 0.7, 0.6, 0.5, 0.4], [0.8, 0.6, np.nan, 0.3, np.nan, 0.7])
