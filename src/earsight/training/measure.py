"""What a run measures: the validation list after an epoch, and the calibrated verdict at the end."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from earsight import distributed, protocols, registry
from earsight.calibration import calibrate, missing, universal_level
from earsight.checkpoint import save_weights
from earsight.config import need
from earsight.data.clips import ClipSet
from earsight.data.loading import eval_batches
from earsight.errors import DataError
from earsight.evaluation import Evaluation, need_truth
from earsight.files import write_text
from earsight.header import WEIGHTS
from earsight.methods.base import Method, Stage
from earsight.model_evaluation import EvalSettings, evaluate_all
from earsight.predict import need_own
from earsight.training.folder import BEST, BEST_WEIGHTS, FAILURES
from earsight.training.job import Job
from earsight.training.log import Bar, RunLog, shown
from earsight.training.optim import forget
from earsight.training.state import Position, load_best, save_pickle
from earsight.training.stepping import eagerly
from earsight.types import Batch, Row


def need_positives(val: ClipSet) -> None:
    """Refuse a validation list on which nothing can be measured, before anything was trained for it."""
    need(any(row.positive for row in val.rows), "positives to validate on",
         f"none among {len(val)} clips of {val.name}",
         "Name another list with --val, raise --limit, or use --val none.")  # fmt: skip
    need_truth(val)


def need_answers(model: Method, job: Job) -> None:
    """Refuse a protocol that asks for what the method's maps do not have, before a whole epoch was trained for it."""
    if protocols.get(job.protocol).confidence != "native":
        return
    size = job.inputs.image_size
    model.eval()
    with torch.inference_mode():
        frames, sounds = torch.zeros(1, 3, size, size, dtype=torch.uint8), torch.zeros(1, job.inputs.samples)
        need_own(model.localize(frames, sounds).confidence)
    model.train()


def on_validation(model: Method, val: ClipSet, job: Job, where: torch.device) -> list[Evaluation]:
    """The validation list under the run's protocol, and under the universal one, whose level its negatives tell."""
    with eagerly():
        return evaluate_all(
            model,
            val,
            [protocols.get(job.protocol), protocols.at_level(protocols.get("universal"), 0.5)],
            EvalSettings(device=where, workers=job.optim.workers),
        )


def validate(
    model: Method, val: ClipSet, job: Job, position: Position, log: RunLog, bar: Bar, out: Path, where: torch.device
) -> list[Evaluation] | None:
    """Measure on the validation list; remember the best epoch for those who ask for early stopping."""

    speed = bar.speed  # before measuring takes its time

    def work() -> list[Evaluation]:
        results = on_validation(model, val, job, where)
        numbers = finite(results[0])
        log.write({"step": position.total_steps, "epoch": position.epoch - 1, "val": numbers})
        bar.line(f"epoch {position.epoch}: {shown(numbers)}  on {val.name}{f' ({speed})' if speed else ''}")
        if numbers.get("ap", 0.0) > position.best:
            position.best = numbers.get("ap", 0.0)
            if job.optim.keep != "last":
                save_pickle(out / BEST, model.state_dict())
        return results

    return distributed.by_first(work)


def finite(result: Evaluation) -> dict[str, float]:
    return {name: value for name, value in result.metrics.items() if math.isfinite(value)}


def finish(
    model: Method, val: ClipSet | None, last: list[Evaluation] | None, clips: ClipSet, job: Job, position: Position,
    bar: Bar, out: Path, where: torch.device,
) -> None:  # fmt: skip
    """Calibrate the verdict on the validation list and write the weights file. `last` saves measuring twice."""

    def write(path: Path, results: list[Evaluation] | None) -> None:
        meta = {**told(model, val, results, job, where, bar), **knowledge(job.on), "training": training}
        save_weights(path, model, job.method, job.config, meta)
        bar.line(f"weights: {path}")

    def work() -> None:
        if position.failures:
            lines = "".join(json.dumps({"id": k, "reason": v}) + "\n" for k, v in sorted(position.failures.items()))
            write_text(out / FAILURES, lines)
            bar.line(f"{len(position.failures)} clips could not be read; see {out / FAILURES}")
        # The run's own weights come last, because a run that has them is finished.
        if job.optim.keep == "last" or not (out / BEST).exists():
            write(out / WEIGHTS, last)
            return
        ended = {key: value.clone() for key, value in model.state_dict().items()}
        load_best(out / BEST, model)
        write(out / (WEIGHTS if job.optim.keep == "best" else BEST_WEIGHTS), None)
        if job.optim.keep == "both":
            model.load_state_dict(ended)
            write(out / WEIGHTS, last)

    training = {
        "job": job.to_json(),
        "list_hash": clips.list_hash(),
        "clips": len(clips),
        "steps": position.total_steps,
        "unreadable": len(position.failures),
        "processes": distributed.world(),
    }
    distributed.by_first(work)


def knowledge(on: str) -> dict[str, str]:
    """What the weights say that they know, where the training set says it (`KNOWS`).

    >>> knowledge("toybox:train")
    {'knows': 'drawn toys of the built-in set only'}
    """
    knows = getattr(registry.load("set", on.partition("+")[0].partition(":")[0]), "KNOWS", "")
    return {"knows": knows} if knows else {}


LEVELS = {"negatives": "low", "positives": "high"}
"""What cannot be said of a confidence without them."""


def told(
    model: Method, val: ClipSet | None, results: list[Evaluation] | None, job: Job, where: torch.device, bar: Bar
) -> dict[str, Any]:
    """What the validation list says about the weights: numbers, and a verdict that a share of negatives passes.

    A threshold that no positive reaches is not kept: every verdict would be "no visible source". "uncalibrated" says
    why there is none.
    """
    meta: dict[str, Any] = {"protocol": job.protocol, "calibration": None, "metrics": {}}
    if val is None:
        return meta
    result, universal = results or on_validation(model, val, job, where)
    meta["metrics"] = {val.name: finite(result)}
    lacks = missing(result.records)
    if lacks:
        there = any(row.positive == (lacks == "positives") for row in val.rows)
        none, level = f"no {lacks}{' that can be read' if there else ''}", LEVELS[lacks]
        meta["uncalibrated"] = f"{val.name} has {none}, so no confidence can be called too {level}"
    else:
        found = calibrate(result.records, job.false_alarm)
        if found.recall > 0:
            meta["calibration"] = asdict(found) | {"set": val.name}
        else:
            meta["uncalibrated"] = (
                f"at --false-alarm {job.false_alarm:g} no threshold accepts any positive of {val.name}, so every "
                "verdict would be 'no visible source'"
            )
        meta["universal_level"] = universal_level(universal.records)
    if "uncalibrated" in meta:
        bar.line(f"warning: no calibration: {meta['uncalibrated']}")
    return meta


class TrainingContext:
    """What a method gets between epochs."""

    def __init__(
        self, model: Method, clips: ClipSet, job: Job, stage: Stage, position: Position, where: torch.device,
        optimizer: torch.optim.Optimizer,
    ) -> None:  # fmt: skip
        self.stage, self.epoch = stage, position.epoch - 1
        self.rows: Sequence[Row] = clips.rows
        self._model, self._clips, self._job, self._position, self._where = model, clips, job, position, where
        self._optimizer = optimizer

    def forget(self, parameters: Iterable[nn.Parameter]) -> None:
        """Let the optimizer treat these parameters as new."""
        forget(self._optimizer, parameters)

    @torch.no_grad()
    def extract(self, fn: Callable[[Batch], Tensor]) -> Tensor:
        """One row for each clip of the training set, in its order: NaN (-1 in whole numbers) where it is unreadable."""
        rank, world, optim = distributed.rank(), distributed.world(), self._job.optim
        parts: list[Tensor] = []
        index: list[Tensor] = []
        failures: dict[str, str] = {}
        self._model.eval()
        feed = eval_batches(
            self._clips, self._job.inputs, optim.batch_size, optim.workers, rank=rank, world=world, device=self._where
        )
        with closing(feed):
            for batch in feed:
                failures.update((failure.id, failure.reason) for failure in batch.failures)
                if len(batch):
                    with eagerly():
                        parts.append(fn(batch))
                    index.append(batch.index)
        self._model.train()
        for told in distributed.from_all(failures):
            self._position.failures.update(told)
        # There may be fewer batches than processes: who has none learns from the others what a row looks like.
        rows = [like for like in distributed.from_all(parts[0][:0].cpu() if parts else None) if like is not None]
        if not rows:
            reasons = list(self._position.failures.values())
            raise DataError(
                f"Expected clips of {self._clips.name} that can be read, but got none of {len(self._clips)}: "
                f"{'; '.join(reasons[:3])}. Repair or remove them."
            )
        mine, places = torch.cat([rows[0].to(self._where), *parts]), torch.zeros(0, dtype=torch.int64)
        counts = distributed.sizes(len(mine))
        found = distributed.gather(mine, counts)
        at = distributed.gather(torch.cat([places.to(self._where), *index]), counts)
        out = found.new_full((len(self._clips), *found.shape[1:]), float("nan") if found.is_floating_point() else -1)
        out[at] = found
        return out
