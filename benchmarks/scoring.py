"""10,316 maps of 224 x 224 in three protocols: ours against plain numpy, map by map, in turn over the same maps."""

from __future__ import annotations

import resource
import time
from collections.abc import Iterator

import numpy as np
import torch

from benchmarks import reference
from benchmarks.measure import Ratio
from earsight.metrics import average_precision, loc_acc, max_f1
from earsight.metrics.base import Records
from earsight.protocols import get
from earsight.scoring import score
from earsight.types import Maps, Row

COUNT = 10_316
BATCH = 512
PROTOCOLS = [get(name) for name in ("exact", "official", "paper")]
PLAIN = [reference.exact, reference.official, reference.paper]


def batches(count: int) -> Iterator[tuple[list[Row], Maps]]:
    """Half positives with a box each, half negatives, and made-up maps; one batch in memory at a time."""
    random = np.random.default_rng(0)
    for start in range(0, count, BATCH):
        rows = []
        for i in range(start, min(start + BATCH, count)):
            x, y, w, h = random.uniform(0, 0.5, 4)
            kind = "positive" if i < count // 2 else "easy"
            rows.append(Row(f"c{i}", kind=kind, boxes=((x, y, x + w, y + h),) if kind == "positive" else ()))
        values = torch.from_numpy(random.standard_normal((len(rows), 224, 224), dtype=np.float32))
        yield rows, Maps(values, values, (-5.0, 5.0))


def scoring(count: int = COUNT) -> tuple[Ratio, str]:
    """How many times faster, and a line on memory and agreement."""
    ours = plain = 0.0
    found: list[list[Records]] = []
    pairs: list[list[reference.Pair]] = [[] for _ in PLAIN]
    positive: list[bool] = []
    score(next(batches(1))[1], next(batches(1))[0], PROTOCOLS)  # warm
    for rows, maps in batches(count):
        began = time.perf_counter()
        found.append(score(maps, rows, PROTOCOLS))
        ours += time.perf_counter() - began
        values = maps.dense.numpy()
        began = time.perf_counter()
        for one, kept in zip(PLAIN, pairs, strict=True):
            for row, value in zip(rows, values, strict=True):
                kept.append(one(value, reference.truth_of(row.boxes[0] if row.boxes else None)))
        plain += time.perf_counter() - began
        positive += [row.positive for row in rows]
    began = time.perf_counter()
    mine = []
    for i, protocol in enumerate(PROTOCOLS):
        records = Records.concat([part[i] for part in found])
        modules = (loc_acc, average_precision, max_f1)
        mine.append({name: value for m in modules for name, value in m.compute(records, protocol).items()})
    ours += time.perf_counter() - began
    began = time.perf_counter()
    theirs = [
        reference.numbers(pair, positive, how.strict_hits, how.average_precision == "official")
        for pair, how in zip(pairs, PROTOCOLS, strict=True)
    ]
    plain += time.perf_counter() - began
    apart = max(abs(one[name] - other[name]) for one, other in zip(mine, theirs, strict=True) for name in other)
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    ratio = Ratio(f"{count} maps of 224 x 224 in three protocols", "numpy, one map at a time", count, ours, plain)
    return ratio, f"largest difference of a number: {apart:.1e}; highest memory of this process: {memory:.2f} GiB"
