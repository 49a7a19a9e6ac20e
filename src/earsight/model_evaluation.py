"""Evaluating a model: every clip of a set is localized once, and its map scored under each protocol."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import torch
from torch import Tensor

from earsight import distributed
from earsight.config import need
from earsight.data import loading
from earsight.data.clips import ClipSet, Some
from earsight.data.controls import Audio, with_audio
from earsight.device import numbered, own_stream, placed
from earsight.errors import DataError
from earsight.evaluation import Evaluation, Failures, need_truth
from earsight.methods.base import Method
from earsight.metrics.base import Records
from earsight.protocols import Protocol
from earsight.scoring import score
from earsight.types import MapArrays, Maps

BATCH = {"cpu": 16, "cuda": 256}
"""Clips that are localized together. On a CPU, the memory of more costs more than their arithmetic; who launches the
work of a GPU shares Python's lock with those that read and score, and so does it rarely."""
QUEUED = {"cuda": 2}
"""Batches that a device is asked for while another thread scores the maps of the last one."""


@dataclass(frozen=True)
class EvalSettings:
    """How a model is evaluated, and what the result is called."""

    batch_size: int | None = None
    """Clips that are localized together; None for what suits the device."""
    device: str | torch.device = "cpu"
    """Where the model moves."""
    audio: Audio = "real"
    """The clips' own sound, or a control."""
    workers: int | None = 0
    """Processes that read clips; None for as many as there are cores, 0 for none beside this one."""
    keep_maps: bool = False
    """Keep the maps with the evaluation."""
    sizes: bool = False
    """Measure fixed prediction sizes too."""
    max_failed: float = 0.05
    """Share of the clips that may be unreadable; more of them stop with a DataError."""
    unreadable: Failures = ()
    """Clips known to be so. They are not tried again, and a control exchanges sounds among the others."""
    together: bool = False
    """The processes of a torchrun share the batches, and each gets the answer of one; otherwise each works alone."""
    metrics: tuple[str, ...] = ()
    """Metrics from outside the package that are measured too, by the names of their modules."""
    name: str = "model"
    """What to call the model in tables."""
    warnings: tuple[str, ...] = ()
    """What a reader of the numbers should know."""

    def __post_init__(self) -> None:
        need(self.batch_size is None or self.batch_size >= 1, "a batch_size of at least 1", self.batch_size)
        need(0 <= self.max_failed <= 1, "max_failed between 0 and 1", self.max_failed)


def evaluate(model: Method, clip_set: ClipSet, protocol: Protocol, settings: EvalSettings | None = None) -> Evaluation:
    """`evaluate_all` under one protocol."""
    return evaluate_all(model, clip_set, [protocol], settings)[0]


def evaluate_all(
    model: Method,
    clip_set: ClipSet,
    protocols: Sequence[Protocol],
    settings: EvalSettings | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> list[Evaluation]:
    """Localize every clip of the set once and measure the answers under each protocol.

    Clips that cannot be read are counted and named. The model keeps its training mode. `progress(done, total)` is
    called after each batch.
    """
    settings = settings or EvalSettings()
    device = settings.device
    kind = torch.device(device).type
    batch_size = settings.batch_size or BATCH.get(kind, 16)
    need_truth(clip_set)
    clip_set.check_audio_spec(model.inputs.rate, model.inputs.seconds)
    known = {id for id, _ in settings.unreadable}
    tried = Some(clip_set, [i for i, row in enumerate(clip_set.rows) if row.id not in known])
    heard = with_audio(tried, settings.audio)
    rank, world = (distributed.rank(), distributed.world()) if settings.together else (0, 1)
    failures = list(settings.unreadable) if rank == 0 else []
    parts: list[_Part] = []
    queued: deque[Future[_Part]] = deque()
    done = 0

    def scored(made: PendingMaps) -> _Part:
        maps, index = made.result()
        records = score(maps, [tried.rows[i] for i in index], protocols, settings.sizes, settings.metrics)
        return _Part(index[0], records, maps if settings.keep_maps else None)

    with _evaluating(placed(model, device)), torch.inference_mode(), _scoring_thread(device) as thread:
        feed = loading.eval_batches(
            heard, model.inputs, batch_size, settings.workers, rank=rank, world=world, device=device
        )
        with closing(feed):
            for batch in feed:
                # The id stands beside its reason.
                failures += [(id, reason.removeprefix(f"{id}: ")) for id, reason in batch.failures]
                done += len(batch.failures) + len(batch)
                _stop_when_too_many(failures, done, clip_set, settings.max_failed)
                if len(batch):
                    made = PendingMaps(model.localize(batch.frames, batch.waveforms), batch.index)
                    queued.append(thread.submit(scored, made))
                while len(queued) > QUEUED.get(kind, 0):
                    parts.append(queued.popleft().result())
                if progress is not None:
                    progress(min(done * world, len(tried)), len(tried))
        clip_set.list_hash()  # which it remembers, while the last maps are scored
        parts += [one.result() for one in queued]
    if settings.together:
        parts = [part for theirs in distributed.all_gather_object(parts) for part in theirs]
        failures = [failure for theirs in distributed.all_gather_object(failures) for failure in theirs]
        _stop_when_too_many(failures, len(clip_set), clip_set, settings.max_failed)
    if not parts and failures:
        raise DataError(
            f"Expected clips of {clip_set.name} that can be read, but got none: {len(failures)} failed "
            f"({_first(failures)}). Check the data folder."
        )
    if not parts:
        raise DataError(f"Expected clips to evaluate in {clip_set.name}, but got none. Check the set and its limit.")
    parts.sort(key=lambda part: part.first)
    place = {row.id: i for i, row in enumerate(clip_set.rows)}
    failures.sort(key=lambda failure: place[failure[0]])
    kept = joined([part.maps for part in parts if part.maps is not None])
    found = []
    for i, protocol in enumerate(protocols):
        records = Records.concat([part.records[i] for part in parts])
        one = Evaluation.of(
            records,
            clip_set,
            protocol,
            failures=tuple(failures),
            warnings=settings.warnings,
            metrics=settings.metrics,
        )
        found.append(replace(one, audio=settings.audio, model=settings.name, maps=kept))
    return found


@dataclass(frozen=True)
class _Part:
    """What one batch gave: the place of its first clip, its records under each protocol, its maps."""

    first: int
    records: list[Records]
    maps: MapArrays | None


class PendingMaps:
    """The maps of one batch, and which clips they are of. While they are made, the device can be asked for more.

    Args:
        maps: of B pairs, on any device.
        index: int64 (B,), the places of their clips in the set.

    >>> PendingMaps(Maps(*[torch.zeros(1, 2, 2)] * 2), torch.tensor([7])).result()[1]
    [7]
    """

    def __init__(self, maps: Maps, index: Tensor) -> None:
        self._maps = maps.each(lambda x: x.detach().float().clone())  # a method may use its memory again
        self._index = index.to("cpu", non_blocking=True)
        self._done = torch.cuda.Event() if maps.dense.is_cuda else None  # type: ignore[no-untyped-call]
        if self._done is not None:
            self._done.record(torch.cuda.current_stream(maps.dense.device))

    def result(self) -> tuple[MapArrays, list[int]]:
        """The maps in memory of the CPU and the places of their clips, once they are made."""
        if self._done is not None:
            self._done.synchronize()
        return self._maps.arrays(), self._index.tolist()


def _scoring_thread(device: str | torch.device) -> ThreadPoolExecutor:
    """A thread that scores maps while the device makes the next ones; it copies them on a stream of its own."""
    of = numbered(torch.device(device))
    return ThreadPoolExecutor(1, "evaluate", partial(_use_own_stream, of) if of.type == "cuda" else None)


def _use_own_stream(device: torch.device) -> None:
    torch.cuda.set_device(device)  # a new thread would use the first GPU
    torch.cuda.set_stream(own_stream(device, "scoring"))


def joined(parts: Sequence[MapArrays]) -> MapArrays | None:
    """The maps of several batches as one; None when there are none."""
    if not parts:
        return None
    dense = np.concatenate([part.dense for part in parts])
    same = all(part.native is part.dense for part in parts)
    native = dense if same else np.concatenate([part.native for part in parts])
    own = [part.confidence for part in parts if part.confidence is not None]
    return MapArrays(native, dense, parts[0].bounds, np.concatenate(own) if own else None, parts[0].native_bounds)


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
