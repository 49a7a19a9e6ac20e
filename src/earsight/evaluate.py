"""Evaluation: a model and a set of clips in, one record per clip and the numbers they make out."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
import torch

from earsight import registry
from earsight.config import need
from earsight.data import loading
from earsight.data.clips import ClipSet
from earsight.data.controls import Audio, with_audio
from earsight.data.truth import truth_map
from earsight.errors import DataError, UsageError
from earsight.methods.base import Method
from earsight.metrics import loc_acc, max_f1
from earsight.metrics.base import F64, Records
from earsight.protocols import Prediction, Protocol, ciou, predict
from earsight.types import Maps, Row


@dataclass(frozen=True)
class Evaluation:
    """One model on one set under one protocol. Numbers are fractions.

    Args:
        set_name: "set:split".
        list_hash: short hash of the set's rows.
        protocol: how maps became numbers.
        audio: "real", "shuffled", "silent", or "none" for the centre prior.
        records: one line per clip that could be read, in the set's order.
        metrics: every metric by name.
        floor: F1 of accepting everything, which max-F1 cannot fall below.
        ceiling: best LocAcc that the protocol's pixel threshold allows on these positives.
        failures: (id, reason) of the clips that could not be read.
        model: what to call it in tables.
        maps: the maps on the method's own grid, in the order of the records, when they were asked for.
    """

    set_name: str
    list_hash: str
    protocol: Protocol
    audio: str
    records: Records
    metrics: dict[str, float]
    floor: float
    ceiling: float
    failures: tuple[tuple[str, str], ...] = ()
    model: str = "model"
    maps: Maps | None = field(default=None, repr=False, compare=False)

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
            "audio": self.audio,
            "protocol": {**asdict(self.protocol), "hash": self.protocol.hash},
            "n": self.n,
            "kinds": {str(kind): int(count) for kind, count in zip(kinds, counts, strict=True)},
            "metrics": {name: _plain(value) for name, value in sorted(self.metrics.items())},
            "floor": _plain(self.floor),
            "ceiling": _plain(self.ceiling),
            "failures": [{"id": id, "reason": reason} for id, reason in self.failures],
        }


def evaluate(
    model: Method,
    clip_set: ClipSet,
    protocol: Protocol,
    *,
    batch_size: int = 64,
    device: str | torch.device = "cpu",
    audio: Audio = "real",
    workers: int = 0,
    progress: Callable[[int, int], None] | None = None,
    keep_maps: bool = False,
    max_failed: float = 0.05,
    name: str = "model",
) -> Evaluation:
    """Localize every clip of the set and measure the answers.

    Clips that cannot be read are counted and named; more than a share of `max_failed` stops with a DataError.
    `progress(done, total)` is called after each batch. The model moves to `device` and keeps its training mode.
    """
    need(batch_size >= 1, "a batch_size of at least 1", batch_size)
    heard = with_audio(clip_set, audio)
    failures: list[tuple[str, str]] = []
    parts: list[Records] = []
    supports: list[F64] = []
    kept: list[Maps] = []
    done = 0
    with _evaluating(model.to(device)), torch.inference_mode():
        for batch, failed in loading.eval_batches(heard, model.inputs, batch_size, workers):
            failures += [(failure.id, failure.reason) for failure in failed]
            done += len(failed) + (0 if batch is None else len(batch))
            _stop_when_too_many(failures, done, clip_set, max_failed)
            if batch is not None:
                rows = [clip_set.rows[i] for i in batch.index.tolist()]
                batch = batch.to(device)
                maps = model.localize(batch.frames, batch.waveforms)
                records, support = _measured(predict(maps, protocol), rows, protocol)
                parts.append(records)
                supports.append(support)
                if keep_maps:
                    kept.append(_on_cpu(maps))
            if progress is not None:
                progress(done, len(clip_set))
    if not parts:
        raise DataError(f"Expected clips to evaluate in {clip_set.name}, but got none. Check the set and its limit.")
    records = Records.concat(parts)
    return Evaluation(
        clip_set.name,
        clip_set.list_hash(),
        protocol,
        audio,
        records,
        measure(records, protocol),
        max_f1.floor(records, protocol),
        _ceiling(records, np.concatenate(supports), protocol),
        tuple(failures),
        name,
        _joined(kept) if kept else None,
    )


def measure(records: Records, protocol: Protocol) -> dict[str, float]:
    """Every metric of the metrics folder on these records."""
    numbers: dict[str, float] = {}
    for name in registry.names("metric"):
        numbers.update(registry.load("metric", name).compute(records, protocol))
    return numbers


def center_prior(clip_set: ClipSet, protocol: Protocol) -> Evaluation:
    """The centre prior as an evaluation: what pointing at the middle of every picture scores. Reads no media."""
    records, support = _center(clip_set, protocol)
    return Evaluation(
        clip_set.name,
        clip_set.list_hash(),
        protocol,
        "none",
        records,
        measure(records, protocol),
        max_f1.floor(records, protocol),
        _ceiling(records, support, protocol),
        model="centre prior",
    )


@dataclass(frozen=True)
class Calibration:
    """A confidence from which on a source is called visible, and what that costs on the records it was chosen on.

    Args:
        threshold: claims are made at confidence >= threshold.
        false_alarm: share of negatives that are accepted.
        recall: share of positives that are accepted.
        negatives: how many negatives there were.
    """

    threshold: float
    false_alarm: float
    recall: float
    negatives: int


def calibrate(records: Records, false_alarm: float = 0.1) -> Calibration:
    """The smallest observed confidence that accepts at most a share of `false_alarm` of the negatives."""
    need(0 <= false_alarm <= 1, "a false-alarm rate between 0 and 1", false_alarm)
    positive = np.sort(records.confidence[records.positives])
    negative = np.sort(records.confidence[~records.positives])
    if len(negative) == 0 or len(positive) == 0:
        raise UsageError(
            f"Expected positives and negatives to calibrate on, but got {len(positive)} positives and "
            f"{len(negative)} negatives. Use a split that holds clips without a visible source."
        )
    seen = np.unique(records.confidence)
    candidates = np.append(seen, np.nextafter(seen[-1], np.inf))
    rates = (len(negative) - np.searchsorted(negative, candidates, side="left")) / len(negative)
    threshold = float(candidates[rates <= false_alarm][0])
    return Calibration(
        threshold, float(np.mean(negative >= threshold)), float(np.mean(positive >= threshold)), len(negative)
    )


def _measured(prediction: Prediction, rows: list[Row], protocol: Protocol) -> tuple[Records, F64]:
    """Records of these predictions, and how many pixels of each clip have any ground truth."""
    truth = np.stack([truth_map(row.boxes if row.positive else (), protocol.size, row.consensus) for row in rows])
    overlap = ciou(prediction.mask, torch.from_numpy(truth).to(prediction.mask.device), protocol.ciou)
    area = truth.sum(axis=(1, 2), dtype=np.float64)
    confidence = prediction.confidence.double().cpu().numpy()
    return Records.of(rows, area, confidence, overlap.cpu().numpy()), np.count_nonzero(truth, axis=(1, 2)).astype(float)


def _center(clip_set: ClipSet, protocol: Protocol) -> tuple[Records, F64]:
    at = torch.arange(protocol.size) - protocol.size / 2
    distance = torch.hypot(at.view(1, -1, 1), at.view(1, 1, -1))
    score = 1 - distance / distance.max()
    one = predict(Maps(score, score, (0.0, 1.0), torch.ones(1)), protocol)
    parts: list[Records] = []
    supports: list[F64] = []
    for start in range(0, len(clip_set), 256):
        rows = list(clip_set.rows[start : start + 256])
        many = (part.expand(len(rows), *part.shape[1:]) for part in (one.score, one.mask, one.confidence))
        records, support = _measured(Prediction(*many), rows, protocol)
        parts.append(records)
        supports.append(support)
    if not parts:
        raise DataError(f"Expected clips to evaluate in {clip_set.name}, but got none. Check the set and its limit.")
    return Records.concat(parts), np.concatenate(supports)


def _ceiling(records: Records, support: F64, protocol: Protocol) -> float:
    return loc_acc.ceiling(records.area[records.positives], protocol, support[records.positives])


def _stop_when_too_many(failures: list[tuple[str, str]], done: int, clip_set: ClipSet, max_failed: float) -> None:
    if len(failures) <= max_failed * len(clip_set):
        return
    first = "; ".join(f"{id}: {reason}" for id, reason in failures[:3])
    raise DataError(
        f"Expected at most {max_failed:.0%} of the {len(clip_set)} clips of {clip_set.name} to be unreadable, but got "
        f"{len(failures)} among the first {done} ({first}). Check the data folder."
    )


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


def _on_cpu(maps: Maps) -> Maps:
    confidence = None if maps.confidence is None else maps.confidence.float().cpu()
    return Maps(maps.native.float().cpu(), maps.dense.float().cpu(), maps.bounds, confidence)


def _joined(parts: list[Maps]) -> Maps:
    confidences = [part.confidence for part in parts if part.confidence is not None]
    return Maps(
        torch.cat([part.native for part in parts]),
        torch.cat([part.dense for part in parts]),
        parts[0].bounds,
        torch.cat(confidences) if confidences else None,
    )


def _plain(value: float) -> float | None:
    return None if math.isnan(value) else value
