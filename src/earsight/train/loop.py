"""The training loop. It reads top to bottom and knows nothing of any method."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch.nn.parallel import DistributedDataParallel

from earsight import distributed
from earsight.checkpoint import WEIGHTS
from earsight.config import Supervision, need
from earsight.data.clips import open_set
from earsight.data.loading import Beside, Wanted, train_batches
from earsight.data.sampler import steps_per_epoch
from earsight.device import pick_device
from earsight.evaluate import Evaluation
from earsight.methods.base import Method, build
from earsight.train.folder import check_folder, prepare_folder
from earsight.train.job import Job
from earsight.train.log import Bar, RunLog
from earsight.train.look import Seen, look, usable
from earsight.train.measure import TrainingContext, finish, need_answers, validate
from earsight.train.optim import lr_at, make_optimizer, set_rate
from earsight.train.state import STATE, Position, load_state, random_state, restore_random, save_state
from earsight.train.supervision import Supervised, annotated
from earsight.types import Batch, Step

LOG_EVERY = 10


def train(job: Job, out: Path, *, device: str = "auto", resume: bool = False, force: bool = False) -> Path:
    """Run `job` in the folder `out` and return the path of the finished weights.

    With `resume`, an interrupted run goes on where its last saved state was and ends with the very same weights.
    """
    # Who takes part, and on what. A process that fails leaves the group by ending, which ends the others too.
    device = pick_device(device)
    where = torch.device(device, distributed.local_rank()) if device == "cuda" else torch.device(device)
    if where.type == "cuda":
        torch.cuda.set_device(where)
    started = distributed.start(device)
    weights = run(job, out, where, resume=resume, force=force)
    if started:
        distributed.stop()
    return weights


def run(job: Job, out: Path, where: torch.device, *, resume: bool, force: bool) -> Path:
    """The whole run, in every process that takes part."""
    # What cannot work is refused before the folder is touched. The weights come last: a run that has them is finished.
    main, asked = distributed.rank() == 0, job
    need(bool(job.val) or job.optim.keep == "last", "a validation set to keep the best epoch by", "none",
         "Add --val SET, or use --optim.keep last.")  # fmt: skip
    distributed.by_first(lambda: check_folder(asked, out, resume=resume, force=force))
    if resume and (out / WEIGHTS).exists():
        return out / WEIGHTS
    if job.optim.deterministic:
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
        torch.use_deterministic_algorithms(True)

    # The data: a training list, and a validation list that no test set shares.
    clips = open_set(job.on, job.folder, role="train", limit=job.limit)
    val = open_set(job.val, job.folder, role="val", limit=job.limit) if job.val else None
    if 2 <= len(clips) < min(job.optim.batch_size, job.limit + 1):  # a limit makes a smoke test of any settings
        job = replace(job, optim=replace(job.optim, batch_size=len(clips)))
    per_epoch = steps_per_epoch(len(clips), job.optim.batch_size)
    need(per_epoch > 0, f"at least one batch of {job.optim.batch_size} clips", f"{len(clips)} in {clips.name}",
         "Lower --optim.batch-size, or use more clips.")  # fmt: skip
    share = job.optim.batch_size // distributed.world()
    need(share >= 1, f"a batch of at least one clip for each of {distributed.world()} processes", job.optim.batch_size)

    # The method. Every process draws the same numbers, so all start from the same weights.
    torch.manual_seed(job.optim.seed)
    model = build(job.method, job.config, job.inputs)
    stages = model.stages(job.optim.epochs)
    clips.can_give(job.inputs.rate, model.training_seconds)
    truth = annotated(clips, job.supervision) if job.supervision.weight else None
    if val is not None:
        val.can_give(job.inputs.rate, job.inputs.seconds)
        need_answers(model, job)

    # The folder.
    distributed.by_first(lambda: prepare_folder(asked, out, resume=resume, force=force))
    position, saved = Position(), None
    if resume and (out / STATE).exists():
        position, saved = load_state(out / STATE)
    log = RunLog(out, position.log_bytes, first_step=position.total_steps, main=main)
    bar = Bar(sum(stage.epochs for stage in stages) * per_epoch, position.total_steps, job.optim.batch_size, main)
    if stages:
        bar.line(
            f"training {job.method} on {clips.name}: {len(clips)} clips, {per_epoch} batches of "
            f"{job.optim.batch_size} an epoch, on {where}"
        )
    else:
        bar.line(f"{job.method} has nothing to learn: it is measured and calibrated")
    if truth is not None:
        bar.line(f"ground truth of {sum(truth)} of {len(clips)} clips is used")
    if position.total_steps:
        bar.line(f"resuming at epoch {position.epoch + 1}, step {position.step + 1}")

    def save() -> None:
        log.sync()
        position.log_bytes = log.bytes
        distributed.by_first(lambda: save_state(out / STATE, model, optimizer, position, random_state()))

    measured: list[Evaluation] | None = None
    try:
        for index, stage in enumerate(stages):
            # A stage may freeze or replace modules; all that depends on them is made afterwards.
            model.start_stage(stage)
            if index < position.stage:
                continue
            distributed.whole_batch_norms(model, where.type).to(where)
            if job.optim.compile:
                for module in model.compiled():
                    module.compile()
            lr = stage.lr if stage.lr is not None else job.optim.lr
            optimizer = make_optimizer(model.groups(), job.optim, lr)
            if saved is not None:
                model.load_state_dict(saved["model"])
                model.load_training_state(saved["training"])
                optimizer.load_state_dict(saved["optimizer"])
                restore_random(saved["rng"])
                saved = None
            else:
                model.prepare(stage, TrainingContext(model, clips, job, position, where, optimizer))
                if model.training_state():  # what took a pass over all clips is not found out twice
                    save()
            step_of = wrap(model, job.supervision)

            while position.epoch < stage.epochs:
                epoch = position.epoch
                bar.describe(f"epoch {epoch + 1}/{stage.epochs}" + (f" {stage.name}" if len(stages) > 1 else ""))
                unread: list[Seen] = []
                model.train()
                near = model.near(epoch)
                beside = None if near is None else Beside(near.pictures.tolist(), near.sounds.tolist())
                for loaded in train_batches(
                    clips,
                    job.inputs,
                    Wanted(job.optim.seed, epoch, model.training_seconds, truth, beside),
                    batch_size=job.optim.batch_size,
                    first_step=position.step,
                    rank=distributed.rank(),
                    world=distributed.world(),
                    workers=job.optim.workers,
                ):
                    # One step: forward, backward, update, averages.
                    batch = usable(loaded).to(where)
                    rate = lr_at(epoch * per_epoch + position.step, stage.epochs * per_epoch, job.optim, lr)
                    set_rate(optimizer, rate)
                    with autocast(job, where):
                        step = step_of(batch)
                    optimizer.zero_grad(set_to_none=True)
                    step.loss.backward()  # type: ignore[no-untyped-call]
                    if job.optim.clip_norm:
                        torch.nn.utils.clip_grad_norm_(model.parameters(), job.optim.clip_norm)
                    optimizer.step()
                    model.after_step()
                    position.step += 1
                    position.total_steps += 1
                    bar.step()

                    # Looking at numbers makes the GPU wait, so it happens rarely; a state is saved only after a look.
                    unread.append(Seen.of(position.total_steps, step, batch, loaded))
                    saving = position.total_steps % job.optim.save_every == 0
                    if len(unread) >= LOG_EVERY or saving or position.step == per_epoch:
                        row = look(unread, position, clips, job.optim.max_failed)
                        unread.clear()
                        log.write({"step": position.total_steps, "epoch": epoch, "lr": rate, **row,
                                   "clips_per_second": round(bar.rate, 1)})  # fmt: skip
                    if saving and position.step < per_epoch:
                        save()

                # The epoch is done: measure, let the method work on the whole set, save.
                position.epoch, position.step = epoch + 1, 0
                last = position.epoch == stage.epochs
                every = job.optim.val_every
                if val is not None and (last or (every and position.epoch % every == 0)):
                    measured = validate(model, val, job, position, log, bar, out, where)
                if not last:
                    model.between_epochs(TrainingContext(model, clips, job, position, where, optimizer))
                save()
            if index + 1 < len(stages):
                position.stage, position.epoch, position.best = index + 1, 0, Position.best

        finish(model, val, measured, clips, job, position, bar, out, where)
    finally:
        log.close()
        bar.close()
    return out / WEIGHTS


def wrap(model: Method, supervision: Supervision) -> Callable[[Batch], Step]:
    """The method's training step, with gradients averaged over processes when there are several."""
    step = Supervised(model, supervision)
    if distributed.world() == 1:
        return step
    # Buffers are equal everywhere because batch norms see the whole batch.
    return DistributedDataParallel(step, broadcast_buffers=False, find_unused_parameters=model.rests)


def autocast(job: Job, where: torch.device) -> contextlib.AbstractContextManager[Any]:
    return torch.autocast(where.type, torch.bfloat16, enabled=job.optim.precision == "bf16")
