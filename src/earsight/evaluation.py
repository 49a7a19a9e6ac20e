"""Evaluation: a model and a set of clips in, one record per clip and the numbers they make out."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
import torch

from earsight import distributed, registry
from earsight.arriving import Arriving, beside, joined
from earsight.config import need
from earsight.data import loading
from earsight.data.clips import ClipSet, Some
from earsight.data.controls import Audio, with_audio
from earsight.device import placed
from earsight.errors import DataError
from earsight.methods.base import Method
from earsight.methods.center_prior import disc
from earsight.metrics import loc_acc, max_f1
from earsight.metrics.base import Records, defined
from earsight.protocols import Protocol
from earsight.scoring import score
from earsight.types import Maps

Failures = tuple[tuple[str, str], ...]
BATCH = {"cpu": 16, "cuda": 256}
"""Clips that are localized together. On a CPU, the memory of more costs more than their arithmetic; who launches the
work of a GPU shares Python's lock with those that read and score, and so does it rarely."""
ASKED = {"cuda": 2}
"""Batches that a device is asked for while another thread scores the maps of the last one."""
AT_ONCE = 1024
"""Clips that the centre prior is scored on together: its map is ranked once for them, and all their truths are held."""

BARE = 0.01
"""Share of positives without ground truth above which an evaluation warns; VGG-SS has 2 of 5158."""


@dataclass(frozen=True)
class Evaluation:
    """One model on one set under one protocol. Numbers are fractions.

    Args:
        set_name: "set:split".
        list_hash: short hash of the rows that were scored: two numbers with the same one are of the same clips.
        protocol: how maps became numbers.
        audio: "real", "shuffled", "silent", or "none" for the centre prior.
        records: one line per clip that could be read, in the set's order.
        metrics: every metric by name.
        floor: F1 of accepting everything, which max-F1 cannot fall below.
        ceiling: best LocAcc that the protocol's pixel threshold allows on these positives.
        failures: (id, reason) of the clips that are missing or could not be read.
        model: what to call it in tables.
        maps: the maps on the method's own grid, in the order of the records, when they were asked for.
        rows: how many clips the list has.
        warnings: what a reader of the numbers should know, for example that test clips were trained on.
        threshold: the confidence from which on a source is called visible, where one is calibrated for the protocol.
        training: how the model was trained, as plain values ("on", "clips", ...); empty when that is unknown.
        full_list_hash: hash of the list with the clips that are missing or could not be read; empty without such.
    """

    set_name: str
    list_hash: str
    protocol: Protocol
    audio: str
    records: Records
    metrics: dict[str, float]
    floor: float
    ceiling: float
    failures: Failures = ()
    model: str = "model"
    maps: Maps | None = field(default=None, repr=False, compare=False)
    rows: int = 0
    warnings: tuple[str, ...] = ()
    threshold: float | None = None
    training: dict[str, Any] = field(default_factory=dict)
    full_list_hash: str = ""

    @classmethod
    def of(
        cls,
        records: Records,
        clip_set: ClipSet,
        protocol: Protocol,
        *,
        audio: str = "real",
        failures: Failures = (),
        model: str = "model",
        maps: Maps | None = None,
        warnings: tuple[str, ...] = (),
    ) -> Evaluation:
        """Measure records of a set's clips."""
        positive = records.where(records.positives)
        bare = len(
            {row.id for row in clip_set.rows if row.positive and not row.boxes}.intersection(positive.id.tolist())
        )
        if bare > BARE * len(positive):
            warnings += (f"{bare} of {len(positive)} positives have no ground truth, and count as not found.",)
        scored = set(records.id.tolist())
        at = [i for i, row in enumerate(clip_set.rows) if row.id in scored]
        whole = len(at) == len(clip_set)
        return cls(
            clip_set.name,
            (clip_set if whole else Some(clip_set, at)).list_hash(),
            protocol,
            audio,
            records,
            measure(records, protocol),
            max_f1.floor(records, protocol),
            loc_acc.ceiling(positive.area, protocol, positive.support),
            failures,
            model,
            maps,
            len(clip_set),
            warnings,
            full_list_hash="" if whole else clip_set.list_hash(),
        )

    @property
    def n(self) -> int:
        return len(self.records)

    def to_json(self) -> dict[str, Any]:
        """Plain values: everything but the records and maps; what is undefined is null."""
        kinds, counts = np.unique(self.records.kind, return_counts=True)
        return {
            "model": self.model,
            "set": self.set_name,
            "list_hash": self.list_hash,
            **({"full_list_hash": self.full_list_hash} if self.full_list_hash else {}),
            "audio": self.audio,
            "protocol": {**asdict(self.protocol), "hash": self.protocol.hash},
            "n": self.n,
            "rows": self.rows,
            "kinds": {str(kind): int(count) for kind, count in zip(kinds, counts, strict=True)},
            "metrics": {name: defined(value) for name, value in sorted(self.metrics.items())},
            "floor": defined(self.floor),
            "ceiling": defined(self.ceiling),
            "failures": [{"id": id, "reason": reason} for id, reason in self.failures],
            "warnings": list(self.warnings),
            **({"training": self.training} if self.training else {}),
        }


def evaluate(model: Method, clip_set: ClipSet, protocol: Protocol, **options: Any) -> Evaluation:
    """`evaluate_all` under one protocol."""
    return evaluate_all(model, clip_set, [protocol], **options)[0]


def evaluate_all(
    model: Method,
    clip_set: ClipSet,
    protocols: Sequence[Protocol],
    *,
    batch_size: int | None = None,
    device: str | torch.device = "cpu",
    audio: Audio = "real",
    workers: int | None = 0,
    progress: Callable[[int, int], None] | None = None,
    keep_maps: bool = False,
    sizes: bool = False,
    max_failed: float = 0.05,
    name: str = "model",
    warnings: tuple[str, ...] = (),
    unreadable: Failures = (),
    together: bool = False,
) -> list[Evaluation]:
    """Localize every clip of the set once and measure the answers under each protocol.

    Clips that cannot be read are counted and named; more than a share of `max_failed` stops with a DataError.
    `progress(done, total)` is called after each batch. The model moves to `device` and keeps its training mode. `sizes`
    measures fixed prediction sizes too. Clips known to be `unreadable` are not tried again; a control then exchanges
    sounds among the others, so that it is of the same clips as the real sound. With `together`, the processes of a
    torchrun share the batches, and each gets the same answer as one process would; without, each works for itself.
    """
    kind = torch.device(device).type
    batch_size = BATCH.get(kind, 16) if batch_size is None else batch_size
    need(batch_size >= 1, "a batch_size of at least 1", batch_size)
    need(0 <= max_failed <= 1, "max_failed between 0 and 1", max_failed)
    need_truth(clip_set)
    clip_set.can_give(model.inputs.rate, model.inputs.seconds)
    known = {id for id, _ in unreadable}
    tried = Some(clip_set, [i for i, row in enumerate(clip_set.rows) if row.id not in known])
    heard = with_audio(tried, audio)
    rank, world = (distributed.rank(), distributed.world()) if together else (0, 1)
    failures = list(unreadable) if rank == 0 else []
    seen: list[_Part] = []
    asked: deque[Future[_Part]] = deque()
    done = 0

    def scored(made: Arriving) -> _Part:
        maps, index = made.arrived()
        records = score(maps, [tried.rows[i] for i in index], protocols, sizes)
        return _Part(index[0], records, maps if keep_maps else None)

    with _evaluating(placed(model, device)), torch.inference_mode(), beside(device) as thread:
        feed = loading.eval_batches(heard, model.inputs, batch_size, workers, rank=rank, world=world, device=device)
        with closing(feed):
            for batch in feed:
                # The id stands beside its reason.
                failures += [(id, reason.removeprefix(f"{id}: ")) for id, reason in batch.failures]
                done += len(batch.failures) + len(batch)
                _stop_when_too_many(failures, done, clip_set, max_failed)
                if len(batch):
                    made = Arriving(model.localize(batch.frames, batch.waveforms), batch.index)
                    asked.append(thread.submit(scored, made))
                while len(asked) > ASKED.get(kind, 0):
                    seen.append(asked.popleft().result())
                if progress is not None:
                    progress(min(done * world, len(tried)), len(tried))
        clip_set.list_hash()  # which it remembers, while the last maps are scored
        seen += [one.result() for one in asked]
    if together:
        seen = [part for parts in distributed.from_all(seen) for part in parts]
        failures = [failure for parts in distributed.from_all(failures) for failure in parts]
        _stop_when_too_many(failures, len(clip_set), clip_set, max_failed)
    if not seen and failures:
        raise DataError(
            f"Expected clips of {clip_set.name} that can be read, but got none: {len(failures)} failed "
            f"({_first(failures)}). Check the data folder."
        )
    if not seen:
        raise DataError(f"Expected clips to evaluate in {clip_set.name}, but got none. Check the set and its limit.")
    seen.sort(key=lambda part: part.first)
    place = {row.id: i for i, row in enumerate(clip_set.rows)}
    failures.sort(key=lambda failure: place[failure[0]])
    kept = joined([part.maps for part in seen if part.maps is not None])
    return [
        Evaluation.of(
            Records.concat([part.records[i] for part in seen]),
            clip_set,
            protocol,
            audio=audio,
            failures=tuple(failures),
            model=name,
            maps=kept,
            warnings=warnings,
        )
        for i, protocol in enumerate(protocols)
    ]


@dataclass(frozen=True)
class _Part:
    """What one batch gave: the place of its first clip, its records under each protocol, its maps."""

    first: int
    records: list[Records]
    maps: Maps | None


def need_truth(clip_set: ClipSet) -> None:
    """Refuse positives of which none has ground truth: every one would count as missed, and every number be 0."""
    positives = [row for row in clip_set.rows if row.positive]
    if positives and not any(row.boxes for row in positives):
        raise DataError(
            f"Expected boxes for the positives of {clip_set.name}, but got none for all {len(positives)}: without "
            "ground truth there is no AP, LocAcc or ceiling. Add them (boxes.csv in a folder set), or name a set or "
            "split that has them."
        )


def measure(records: Records, protocol: Protocol) -> dict[str, float]:
    """Every metric of the metrics folder on these records."""
    numbers: dict[str, float] = {}
    for name in registry.names("metric"):
        numbers.update(registry.load("metric", name).compute(records, protocol))
    return numbers


def center_prior(clip_set: ClipSet, protocol: Protocol, unreadable: Failures = ()) -> Evaluation:
    """The centre prior as an evaluation: what pointing at the middle of every picture scores. Reads no media.

    Clips that are `unreadable` for the models beside it are left out here too.
    """
    need_truth(clip_set)
    known = {id for id, _ in unreadable}
    used = [row for row in clip_set.rows if row.id not in known]
    if not used:
        raise DataError(f"Expected clips to evaluate in {clip_set.name}, but got none. Check the set and its limit.")
    one, parts = disc(protocol.size), []
    for start in range(0, len(used), AT_ONCE):
        rows = used[start : start + AT_ONCE]
        maps = one.expand(len(rows), -1, -1)
        parts += score(Maps(maps, maps, (0.0, 1.0), torch.ones(len(rows))), rows, [protocol], sizes=True)
    records = Records.concat(parts)
    return Evaluation.of(records, clip_set, protocol, audio="none", failures=unreadable, model="centre prior")


def _stop_when_too_many(failures: list[tuple[str, str]], done: int, clip_set: ClipSet, max_failed: float) -> None:
    if len(failures) <= max_failed * len(clip_set):
        return
    raise DataError(
        f"Expected at most {max_failed:.0%} of the {len(clip_set)} clips of {clip_set.name} to be unreadable, but got "
        f"{len(failures)} among the first {done} ({_first(failures)}). Check the data folder with earsight data check, "
        "or allow more with --max-failed."
    )


def _first(failures: list[tuple[str, str]]) -> str:
    return "; ".join(f"{id}: {reason}" for id, reason in failures[:3])


@contextmanager
def _evaluating(model: Method) -> Iterator[None]:
    """Evaluation mode; afterwards each part is back in the mode it had, frozen parts included."""
    modes = {module: module.training for module in model.modules()}
    model.eval()
    try:
        yield
    finally:
        for module, training in modes.items():
            module.training = training
