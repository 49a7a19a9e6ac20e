"""What a run measures: the validation list, the verdict that it calibrates, and what methods ask of all clips."""

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
from earsight.data.clips import ClipSet
from earsight.data.loading import eval_batches
from earsight.errors import DataError
from earsight.evaluation import Evaluation
from earsight.files import write_text
from earsight.header import WEIGHTS
from earsight.methods.base import Stage
from earsight.model_evaluation import EvalSettings, evaluate_all
from earsight.training.folder import BEST, BEST_WEIGHTS, FAILURES
from earsight.training.log import Bar, RunLog, shown
from earsight.training.plan import Plan
from earsight.training.state import Position, load_weights_of, save_weights_of
from earsight.training.step import eagerly, reset_optimizer_state
from earsight.types import Batch, Row

LEVELS = {"negatives": "low", "positives": "high"}
"""What cannot be said of a confidence without them."""


def on_validation(plan: Plan, val: ClipSet) -> list[Evaluation]:
    """The validation list under the run's protocol, and under the universal one, whose level its negatives tell."""
    wanted = [protocols.get(plan.job.protocol), protocols.at_level(protocols.get("universal"), 0.5)]
    with eagerly():
        return evaluate_all(plan.model, val, wanted, EvalSettings(device=plan.device, workers=plan.job.optim.workers))


def validate(plan: Plan, val: ClipSet, position: Position, log: RunLog, bar: Bar) -> list[Evaluation] | None:
    """Measure on the validation list; remember the best epoch for those who ask for early stopping."""
    speed = bar.speed  # before measuring takes its time

    def work() -> list[Evaluation]:
        evaluations = on_validation(plan, val)
        numbers = _finite(evaluations[0])
        log.write({"step": position.total_steps, "epoch": position.epoch - 1, "val": numbers})
        bar.line(f"epoch {position.epoch}: {shown(numbers)}  on {val.name}{f' ({speed})' if speed else ''}")
        if numbers.get("ap", 0.0) > position.best:
            position.best = numbers.get("ap", 0.0)
            if plan.job.optim.keep != "last":
                save_weights_of(plan.out / BEST, plan.model)
        return evaluations

    return distributed.on_rank0(work)


def finish(plan: Plan, position: Position, last: list[Evaluation] | None, bar: Bar) -> Path:
    """Calibrate the verdict on the validation list and write the weights file. `last` saves measuring twice."""
    job, model, out, keep = plan.job, plan.model, plan.out, plan.job.optim.keep
    training = {
        "job": job.to_json(),
        "list_hash": plan.clips.list_hash(),
        "clips": len(plan.clips),
        "steps": position.total_steps,
        "unreadable": len(position.failures),
        "processes": distributed.world(),
    }

    def write(path: Path, evaluations: list[Evaluation] | None) -> None:
        metadata = {**validation_metadata(plan, evaluations, bar), **knowledge(job.on), "training": training}
        save_weights(path, model, job.method, job.config, metadata)
        bar.line(f"weights: {path}")

    def work() -> None:
        if position.failures:
            lines = "".join(json.dumps({"id": k, "reason": v}) + "\n" for k, v in sorted(position.failures.items()))
            write_text(out / FAILURES, lines)
            bar.line(f"{len(position.failures)} clips could not be read; see {out / FAILURES}")
        # The run's own weights come last, because a run that has them is finished.
        if keep == "last" or not (out / BEST).exists():
            write(out / WEIGHTS, last)
            return
        ended = {key: value.clone() for key, value in model.state_dict().items()}
        load_weights_of(out / BEST, model)
        write(out / (WEIGHTS if keep == "best" else BEST_WEIGHTS), None)
        if keep == "both":
            model.load_state_dict(ended)
            write(out / WEIGHTS, last)

    distributed.on_rank0(work)
    return out / WEIGHTS


def knowledge(on: str) -> dict[str, str]:
    """What the weights say that they know, where the training set says it (`KNOWS`).

    >>> knowledge("toybox:train")
    {'knows': 'drawn toys of the built-in set only'}
    """
    knows = getattr(registry.load("set", on.partition("+")[0].partition(":")[0]), "KNOWS", "")
    return {"knows": knows} if knows else {}


def validation_metadata(plan: Plan, evaluations: list[Evaluation] | None, bar: Bar) -> dict[str, Any]:
    """What the validation list says about the weights: numbers, and a verdict that a share of negatives passes.

    A threshold that no positive reaches is not kept: every verdict would be "no visible source". "uncalibrated" says
    why there is none.
    """
    metadata: dict[str, Any] = {"protocol": plan.job.protocol, "calibration": None, "metrics": {}}
    val = plan.val
    if val is None:
        return metadata
    result, universal = evaluations or on_validation(plan, val)
    metadata["metrics"] = {val.name: _finite(result)}
    lacks = missing(result.records)
    if lacks:
        there = any(row.positive == (lacks == "positives") for row in val.rows)
        none, level = f"no {lacks}{' that can be read' if there else ''}", LEVELS[lacks]
        metadata["uncalibrated"] = f"{val.name} has {none}, so no confidence can be called too {level}"
    else:
        found = calibrate(result.records, plan.job.false_alarm)
        if found.recall > 0:
            metadata["calibration"] = asdict(found) | {"set": val.name}
        else:
            metadata["uncalibrated"] = (
                f"at --false-alarm {plan.job.false_alarm:g} no threshold accepts any positive of {val.name}, so every "
                "verdict would be 'no visible source'"
            )
        metadata["universal_level"] = universal_level(universal.records)
    if "uncalibrated" in metadata:
        bar.line(f"warning: no calibration: {metadata['uncalibrated']}")
    return metadata


def _finite(result: Evaluation) -> dict[str, float]:
    return {name: value for name, value in result.metrics.items() if math.isfinite(value)}


class TrainingContext:
    """What a method gets before a stage's first epoch and between epochs (`methods.base.Context`)."""

    def __init__(self, plan: Plan, stage: Stage, position: Position, optimizer: torch.optim.Optimizer) -> None:
        self.stage, self.epoch = stage, position.epoch - 1
        self.rows: Sequence[Row] = plan.clips.rows
        self._plan, self._position, self._optimizer = plan, position, optimizer

    def forget(self, parameters: Iterable[nn.Parameter]) -> None:
        """Let the optimizer treat these parameters as new."""
        reset_optimizer_state(self._optimizer, parameters)

    @torch.no_grad()
    def extract(self, fn: Callable[[Batch], Tensor]) -> Tensor:
        """One row for each clip of the training set, in its order: NaN (-1 in whole numbers) where it is unreadable."""
        plan, optim, position = self._plan, self._plan.job.optim, self._position
        found: list[Tensor] = []
        index = [torch.zeros(0, dtype=torch.int64, device=plan.device)]
        failures: dict[str, str] = {}
        plan.model.eval()
        batches = eval_batches(plan.clips, plan.job.inputs, optim.batch_size, optim.workers,
                               rank=distributed.rank(), world=distributed.world(), device=plan.device)  # fmt: skip
        with closing(batches):
            for batch in batches:
                failures.update(batch.failures)
                if len(batch):
                    with eagerly():
                        found.append(fn(batch))
                    index.append(batch.index)
        plan.model.train()
        for part in distributed.all_gather_object(failures):
            position.failures.update(part)
        # There may be fewer batches than processes: who has none learns from the others what a row looks like.
        empty = [x for x in distributed.all_gather_object(found[0][:0].cpu() if found else None) if x is not None]
        if not empty:
            raise DataError(
                f"Expected clips of {plan.clips.name} that can be read, but got none of {len(plan.clips)}: "
                f"{'; '.join(list(position.failures.values())[:3])}. Repair or remove them."
            )
        mine = torch.cat([empty[0].to(plan.device), *found])
        counts = distributed.sizes(len(mine))
        rows, places = distributed.gather(mine, counts), distributed.gather(torch.cat(index), counts)
        missing_value = float("nan") if rows.is_floating_point() else -1
        out = rows.new_full((len(plan.clips), *rows.shape[1:]), missing_value)
        out[places] = rows
        return out
