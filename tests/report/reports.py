"""Small report folders, as eval and score write them, for tests that read reports."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from earsight.evaluation import measure
from earsight.metrics.base import Records
from earsight.protocols import get
from earsight.types import Row


def some_records(seed: int = 0, count: int = 80, skill: float = 0.0) -> Records:
    random = np.random.default_rng(seed)
    rows = [Row(f"c{i}", kind="easy" if i % 2 else "positive") for i in range(count)]
    sure = random.random(count) + skill * np.array([row.positive for row in rows])
    return Records.of(rows, area=np.ones(count), confidence=sure, ciou=np.minimum(random.random(count) + skill, 1))


def entry(folder: Path, model: str = "slavc", **changes: Any) -> dict[str, Any]:
    """One evaluation's values, with its records written beside."""
    protocol = get(changes.pop("protocol", "exact"))
    records = changes.pop("of", some_records())
    audio = changes.get("audio", "real")
    name = f"records-{model}-{protocol.name}-{audio}.csv"
    folder.mkdir(parents=True, exist_ok=True)
    records.write(folder / name)
    values = {
        "model": model,
        "set": "vggss:extended",
        "list_hash": "abc",
        "audio": audio,
        "protocol": {**asdict(protocol), "hash": protocol.hash},
        "n": len(records),
        "metrics": {k: None if np.isnan(v) else v for k, v in measure(records, protocol).items()},
        "records": name,
    }
    return {**values, **changes}


def write(folder: Path, *entries: dict[str, Any]) -> Path:
    (folder / "metrics.json").write_text(json.dumps({"evaluations": list(entries)}))
    return folder


def report(folder: Path, model: str = "slavc", **changes: Any) -> Path:
    """A report of one evaluation."""
    return write(folder, entry(folder, model, **changes))
