"""Maps of 224 x 224 in three protocols: ours against plain numpy, map by map, in turn over the same maps."""

from __future__ import annotations

import resource
from collections.abc import Iterator

import numpy as np
import torch

from benchmarks.measure import How, Result, timed
from benchmarks.reference import scoring as reference
from earsight.metrics import average_precision, loc_acc
from earsight.metrics.base import Records
from earsight.protocols import get
from earsight.scoring import score
from earsight.types import Maps, Row

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


def run(how: How) -> Result:
    """The maps lie where the model would have made them."""
    count = how.count(1024, 128)
    found: list[list[Records]] = []
    pairs: list[list[reference.Pair]] = [[] for _ in PLAIN]
    positive: list[bool] = []

    def ours() -> None:
        found.append(score(maps, rows, PROTOCOLS))

    def plain() -> None:
        values = maps.dense.cpu().numpy()
        for one, kept in zip(PLAIN, pairs, strict=True):
            for row, value in zip(rows, values, strict=True):
                kept.append(one(value, reference.truth_of(row.boxes[0] if row.boxes else None)))

    def measured() -> list[dict[str, float]]:
        modules = (loc_acc, average_precision)
        whole = [Records.concat([part[i] for part in found]) for i in range(len(PROTOCOLS))]
        return [
            {name: value for m in modules for name, value in m.compute(records, protocol).items()}
            for records, protocol in zip(whole, PROTOCOLS, strict=True)
        ]

    def counted() -> list[dict[str, float]]:
        return [
            reference.numbers(pair, positive, protocol.strict_hits, protocol.average_precision == "official")
            for pair, protocol in zip(pairs, PROTOCOLS, strict=True)
        ]

    seconds = (0.0, 0.0)
    rows, made = next(batches(count))
    score(made.each(lambda x: x.to(how.device)), rows, PROTOCOLS)  # takes the memory that is used for all others
    for rows, made in batches(count):
        maps = made.each(lambda x: x.to(how.device))
        positive += [row.positive for row in rows]
        seconds = seconds[0] + timed(ours, how.device), seconds[1] + timed(plain, how.device)
    seconds = seconds[0] + timed(measured), seconds[1] + timed(counted)
    both = zip(measured(), counted(), strict=True)
    apart = max(abs(mine[name] - theirs[name]) for mine, theirs in both for name in theirs)
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    extra = {"largest difference": apart, "highest memory (GiB)": memory}
    what = f"{count} maps of 224 x 224 in three protocols"
    return Result("scoring", what, "in batches of 512", "numpy, one map at a time", count, "maps", *seconds, extra)
