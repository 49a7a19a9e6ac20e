"""The training loop. It reads from top to bottom and knows nothing of any method."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, closing
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch

from earsight import distributed
from earsight.data.loading import Loader
from earsight.data.reader import SampleSpec
from earsight.data.sampler import BatchSampler, SampleRequest, batch_at
from earsight.device import own_device, pick_device
from earsight.encoders.base import starts_of
from earsight.errors import DataError, TrainingError
from earsight.evaluation import Evaluation
from earsight.header import WEIGHTS
from earsight.methods.base import Method, Stage
from earsight.training.folder import RunFolder
from earsight.training.job import Job
from earsight.training.log import Bar, RunLog
from earsight.training.plan import Plan, check, unknown_names
from earsight.training.state import Position, random_state, restore, save_state
from earsight.training.step import StepMetrics, Stepper, lr_at, make_optimizer, prepared, wrap
from earsight.training.validate import TrainingContext, finish, validate
from earsight.types import Batch, Failure

LOG_EVERY = 10
"""Steps between rows of the log. Reading a loss makes the GPU wait and the processes talk, so it happens rarely."""


def train(job: Job, out: Path | str, *, device: str = "auto", resume: bool = False, force: bool = False) -> Path:
    """Run `job` in the folder `out` and return the path of the finished weights.

    With `resume`, an interrupted run goes on where its last saved state was and ends with the very same weights.
    """
    # Who takes part, and on what. A process that fails leaves the group by ending, which ends the others too.
    device = pick_device(device)
    own = own_device(device)
    started = distributed.start(device)
    weights = run(job, Path(out), own, resume=resume, force=force)
    if started:
        distributed.stop()
    return weights


def run(job: Job, out: Path, device: torch.device, *, resume: bool = False, force: bool = False) -> Path:
    """The whole run, in every process that takes part."""
    with RunFolder(out, job, resume=resume, force=force) as folder:
        distributed.on_rank0(folder.check)
        if resume and (out / WEIGHTS).exists():  # they come last: a run that has them is finished
            return out / WEIGHTS
        plan = check(job, out, device, resume=resume)
        distributed.on_rank0(folder.begin)
        with closing(Run(plan, job)) as training:
            for stage in training.stages():  # without those that a resumed run has done
                training.begin(stage)
                for _ in training.epochs(stage):
                    for batch in training.batches(stage):
                        training.step(stage, batch)
                        if training.log_due():
                            training.log_steps()
                        if training.save_due():
                            training.save()
                    training.end_epoch(stage)
            return finish(plan, training.position, training.evaluations, training.bar)


class Run:
    """A run in progress: where it is, and what it works with."""

    def __init__(self, plan: Plan, asked: Job) -> None:
        self.plan, self.model, self.optim = plan, plan.model, plan.job.optim
        self.position = plan.saved.position if plan.saved else Position()
        self.position.failures.update((plan.clips.rows[i].id, reason) for i, reason in plan.unreadable.items())
        main = distributed.rank() == 0
        steps = self.position.total_steps
        self.log = RunLog(plan.out, self.position.log_bytes, first_step=steps, main=main)
        total = sum(stage.epochs for stage in plan.stages) * plan.batches.steps
        self.bar = Bar(total, steps, self.optim.batch_size, main)
        self.opened = ExitStack()
        """What is closed at the end of a stage."""
        self.pending: list[PendingStep] = []
        self.metrics: dict[str, float] = {}
        self.evaluations: list[Evaluation] | None = None
        self.keep_previous = not (plan.saved and plan.saved.note)  # a damaged state never takes the place of a good one
        self._announce(asked)

    def stages(self) -> Iterator[Stage]:
        """The stages that are left, each with its modules as it wants them."""
        for index, stage in enumerate(self.plan.stages):
            self.model.start_stage(stage)
            if index < self.position.stage:
                continue
            yield stage
            self.opened.close()
            if index + 1 < len(self.plan.stages):
                self.position.stage, self.position.epoch, self.position.best = index + 1, 0, Position.best

    def begin(self, stage: Stage) -> None:
        """Make all that depends on the stage's modules; let the method find out about the training set."""
        plan, optim = self.plan, self.optim
        prepared(self.model, optim, plan.device)
        self.lr = optim.lr if stage.lr is None else stage.lr
        self.optimizer = make_optimizer(self.model.groups(), optim, self.lr)
        if plan.saved is not None:
            restore(plan.saved, self.model, self.optimizer)
            plan.saved = None
        else:
            self.model.on_epoch(TrainingContext(plan, stage, self.position, self.optimizer))
            if any(value.numel() for value in self.model.training_state().values()):
                self.save()  # what took a pass over all clips is not found out twice
        size, rank, world = optim.batch_size, distributed.rank(), distributed.world()
        full_batch = len(batch_at(np.arange(size), 0, size, rank, world))
        step = wrap(self.model, plan.job.supervision, stage)
        self.stepper = Stepper(step, self.model, self.optimizer, optim, plan.device, full_batch)
        spec = SampleSpec(optim.seed, self.model.training_seconds, plan.annotated)
        self.loader = Loader(plan.clips, plan.job.inputs, spec, workers=optim.workers, device=plan.device)
        self.opened.callback(self.loader.close)
        self.prefetched: Iterator[Batch] | None = None

    def epochs(self, stage: Stage) -> Iterator[int]:
        """The epochs that are left of the stage."""
        while self.position.epoch < stage.epochs:
            self.model.train()
            name = f" {stage.name}" if len(self.plan.stages) > 1 else ""
            self.bar.start_epoch(f"epoch {self.position.epoch + 1}/{stage.epochs}{name}")
            yield self.position.epoch

    def batches(self, stage: Stage) -> Iterator[Batch]:
        """The batches that are left of the epoch, on the device.

        The next epoch is read while this one ends, unless it brings neighbours that are yet to be found.
        """
        position, sampler = self.position, self.plan.batches
        foreseen = type(self.model).neighbours is Method.neighbours
        if self.prefetched is None or not foreseen:
            epochs = range(position.epoch, stage.epochs if foreseen else position.epoch + 1)
            self.prefetched = self.loader.prefetch(requests(sampler, self.model, epochs, position.step))
        for batch in islice(self.prefetched, sampler.steps - position.step):
            require_clips(batch)
            yield batch

    def step(self, stage: Stage, batch: Batch) -> None:
        """Learn from a batch."""
        position, per_epoch = self.position, self.plan.batches.steps
        self.step_lr = lr_at(position.epoch * per_epoch + position.step, stage.epochs * per_epoch, self.optim, self.lr)
        metrics = self.stepper(batch, self.step_lr)
        position.step += 1
        position.total_steps += 1
        self.bar.step()
        self.pending.append(PendingStep(position.total_steps, metrics, batch.ids, batch.failures))

    def log_due(self) -> bool:
        """Every few steps, at an epoch's end, and before a state is saved, which so never holds a loss that is not
        finite."""
        saved = self.position.total_steps % self.optim.save_every == 0
        return len(self.pending) >= LOG_EVERY or saved or self.position.step == self.plan.batches.steps

    def log_steps(self) -> None:
        """Write the mean of the last steps into the log."""
        plan, position = self.plan, self.position
        self.metrics = mean_metrics(self.pending, position.failures, len(plan.clips), self.optim.max_failed)
        self.pending.clear()
        self.log.write({"step": position.total_steps, "epoch": position.epoch, "lr": self.step_lr, **self.metrics,
                        **self.bar.rates(self.loader.waited())})  # fmt: skip

    def save_due(self) -> bool:
        return self.position.total_steps % self.optim.save_every == 0 and self.position.step < self.plan.batches.steps

    def save(self) -> None:
        """Save the state. The rows of the log that it counts on are on disk before it."""
        self.log.sync()
        self.position.log_bytes = self.log.bytes

        def work() -> None:
            position = {**self.position.__dict__, "failures": dict(self.position.failures)}
            values = {
                "position": position,
                "model": self.model.state_dict(),
                "training": self.model.training_state(),
                "optimizer": self.optimizer.state_dict(),
                "rng": random_state(),
                "lists": self.plan.lists,
            }
            save_state(self.plan.out, values, keep_previous=self.keep_previous)
            self.keep_previous = True

        distributed.on_rank0(work)

    def end_epoch(self, stage: Stage) -> None:
        """Measure, let the method work on the whole training set, save."""
        position, optim, bar, val = self.position, self.optim, self.bar, self.plan.val
        if self.stepper.irregular and (optim.graph or optim.compile):
            bar.line(
                f"{self.stepper.irregular} steps so far were slow ones, because clips were missing from their batches"
            )
        position.epoch, position.step = position.epoch + 1, 0
        last = position.epoch == stage.epochs
        if val is None and self.metrics:
            bar.line(f"epoch {position.epoch}: loss {self.metrics['loss']:.4f} ({bar.speed})")
        if val is not None and (last or (optim.val_every and position.epoch % optim.val_every == 0)):
            self.evaluations = validate(self.plan, val, position, self.log, bar)
        if not last:
            self.model.on_epoch(TrainingContext(self.plan, stage, position, self.optimizer))
        if last or position.epoch % optim.save_epochs == 0:
            self.save()

    def close(self) -> None:
        self.opened.close()
        self.bar.close()
        self.log.close()

    def _announce(self, asked: Job) -> None:
        """Say what is trained on what, and what is not as one may expect."""
        plan, job, bar, position = self.plan, self.plan.job, self.bar, self.position
        clips, steps, size = plan.clips, plan.batches.steps, job.optim.batch_size
        for note in clips.notes:
            bar.line(note)
        if size < asked.optim.batch_size:
            why = f"--limit {job.limit} leaves no more" if job.limit else f"{clips.name} has no more"
            bar.line(f"batches of {size} clips, not {asked.optim.batch_size}: {why}")
        if plan.stages:
            batches = f"{steps} {'batch' if steps == 1 else 'batches'} of {size} an epoch"
            bar.line(f"training {job.method} on {clips.name}: {len(clips)} clips, {batches}, on {plan.device}")
        else:
            bar.line(f"{job.method} has nothing to learn: it is measured and calibrated")
        if plan.annotated is not None:
            bar.line(f"ground truth of {sum(plan.annotated)} of {len(clips)} clips is used")
            if unknown := unknown_names(clips, job.supervision):
                bar.line(f"of the names whose ground truth may be used, {unknown}")
        for start in starts_of(plan.model) if plan.saved is None else []:
            bar.line(f"the picture encoder starts from {start}")
        if plan.saved and plan.saved.note:
            bar.line(plan.saved.note)
        if position.total_steps:
            bar.line(f"resuming at epoch {position.epoch + 1}, step {position.step + 1}")


def requests(
    sampler: BatchSampler, model: Method, epochs: Iterable[int], first_step: int
) -> Iterator[list[SampleRequest]]:
    """The batches of these epochs, of the first from a step on, each epoch's worked out when it is asked for."""
    for epoch in epochs:
        yield from sampler.batches(
            epoch,
            first_step=first_step,
            rank=distributed.rank(),
            world=distributed.world(),
            neighbours=model.neighbours(epoch),
        )
        first_step = 0


class PendingStep(NamedTuple):
    """What is kept of a step until it is logged: this process's part of it."""

    number: int
    metrics: StepMetrics
    ids: tuple[str, ...]
    failures: tuple[Failure, ...]


def require_clips(batch: Batch) -> None:
    """Stop all processes where one has no part of a batch, or where the whole batch is one clip."""
    counts = distributed.sizes(len(batch))
    if min(counts) == 0 or sum(counts) < 2:
        failures = [failure for part in distributed.all_gather_object(batch.failures) for failure in part]
        raise DataError(
            f"Expected two readable clips or more in every batch, and one for each process, but got {counts} of "
            f"{sum(counts) + len(failures)}: {'; '.join(failure.reason for failure in failures[:3])}. "
            "Repair or remove these clips, raise --optim.batch-size, or use fewer processes."
        )


def mean_metrics(steps: list[PendingStep], failures: dict[str, str], clips: int, max_failed: float) -> dict[str, float]:
    """Mean loss and logs of these steps; their unreadable clips join `failures`.

    All processes see the same, and stop together at a loss that is not finite or at too many unreadable clips.
    """
    names = steps[0].metrics.names
    values: list[list[float]] = torch.stack([step.metrics.values for step in steps]).tolist()
    mine = [(row[0], step.ids, step.failures) for row, step in zip(values, steps, strict=True)]
    for step, row, parts in zip(steps, values, zip(*distributed.all_gather_object(mine), strict=True), strict=True):
        for _, _, failed in parts:
            failures.update(failed)
        bad = [loss for loss, _, _ in parts if not math.isfinite(loss)]
        if bad:
            logs = ", ".join(f"{name} {value:.4g}" for name, value in zip(names[1:], row[1:], strict=True))
            raise TrainingError(
                f"Expected a finite loss, but at step {step.number} it is {bad[0]} ({logs}). "
                f"Clips of that batch: {', '.join(id for _, ids, _ in parts for id in ids)}. "
                "Lower --optim.lr, set --optim.clip-norm 1, or check these clips."
            )
    if len(failures) > max_failed * clips:
        raise DataError(
            f"Expected at most {max_failed:.0%} of {clips} training clips to be unreadable, but {len(failures)} are: "
            f"{'; '.join(islice(failures.values(), 3))}. Repair or remove them, or raise --optim.max-failed."
        )
    return {name: sum(column) / len(column) for name, column in zip(names, zip(*values, strict=True), strict=True)}
