"""The training loop. It reads top to bottom and knows nothing of any method."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator
from contextlib import nullcontext
from dataclasses import replace
from itertools import islice
from pathlib import Path

import numpy as np
import torch

from earsight import distributed
from earsight.config import need
from earsight.data.clips import ClipSet, open_set
from earsight.data.loading import Loader, Prefetcher
from earsight.data.reader import SampleSpec
from earsight.data.sampler import BatchSampler, SampleRequest, batch_at, need_classes
from earsight.device import own_device, pick_device
from earsight.encoders.base import no_start_weights, starts_of
from earsight.evaluation import Evaluation
from earsight.header import WEIGHTS
from earsight.methods.base import Method, build
from earsight.training.folder import check_folder, no_room, prepare_folder
from earsight.training.job import Job
from earsight.training.lock import FolderLock
from earsight.training.log import Bar, RunLog
from earsight.training.look import Seen, look, usable
from earsight.training.measure import TrainingContext, finish, need_answers, need_positives, validate
from earsight.training.optim import lr_at, make_optimizer
from earsight.training.state import (
    Lists,
    Position,
    StateWriter,
    lists_of,
    load_newest,
    need_same_lists,
    random_state,
    restore,
)
from earsight.training.stepping import Stepper, need_graph, prepared
from earsight.training.supervision import annotated, unknown_names

LOG_EVERY = 10


def train(job: Job, out: Path, *, device: str = "auto", resume: bool = False, force: bool = False) -> Path:
    """Run `job` in the folder `out` and return the path of the finished weights.

    With `resume`, an interrupted run goes on where its last saved state was and ends with the very same weights.
    """
    # Who takes part, and on what. A process that fails leaves the group by ending, which ends the others too.
    device = pick_device(device)
    where = own_device(device)
    started = distributed.start(device)
    weights = run(job, out, where, resume=resume, force=force)
    if started:
        distributed.stop()
    return weights


def run(job: Job, out: Path, where: torch.device, *, resume: bool, force: bool) -> Path:
    """The whole run, in every process that takes part; the first one holds the folder against other runs."""
    with FolderLock(out) as lock:
        try:
            return _run(job, out, where, lock, resume=resume, force=force)
        except OSError as error:
            told = no_room(error, out)
            if told is None:
                raise
            raise told from error


def _run(job: Job, out: Path, where: torch.device, lock: FolderLock, *, resume: bool, force: bool) -> Path:
    # What cannot work is refused before the folder is touched. The weights come last: a run that has them is finished.
    rank, world, asked = distributed.rank(), distributed.world(), job
    main = rank == 0

    def hold() -> None:
        if out.is_dir():
            lock.take()
        check_folder(asked, out, resume=resume, force=force)

    def begin() -> None:
        out.mkdir(parents=True, exist_ok=True)
        lock.take()
        prepare_folder(asked, out, resume=resume, force=force)

    need(bool(job.val) or job.optim.keep == "last", "a validation set to keep the best epoch by", "none",
         "Add --val SET, or use --optim.keep last.")  # fmt: skip
    distributed.by_first(hold)
    if resume and (out / WEIGHTS).exists():
        return out / WEIGHTS
    if job.optim.deterministic:
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
        torch.use_deterministic_algorithms(True)

    # The data: a training list, and a validation list that no test set shares.
    clips = open_set(job.on, job.folder, role="train", limit=job.limit)
    val = open_set(job.val, job.folder, role="val", limit=job.limit) if job.val else None
    lost = clips.failed_clips()
    sampler = _sampler(clips, job, lost)
    count = sampler.clips
    if 2 <= count < job.optim.batch_size:  # run.json keeps the settings as given: a run that goes on comes here again
        job = replace(job, optim=replace(job.optim, batch_size=count))
        sampler = _sampler(clips, job, lost)
    per_epoch = sampler.steps
    need(count >= 2, "at least two clips to train on", f"{count} in {clips.name}", "The other clips are the negatives.")
    if val is not None:
        need_positives(val)

    # Where the run was left, and that it goes on with the lists it was begun with.
    saved = load_newest(out) if resume else None
    position = saved.position if saved else Position()
    need(len(set(distributed.from_all(position.total_steps))) == 1, "one state for all processes", "several",
         "Give them all the same --out.")  # fmt: skip

    def same_lists() -> Lists:
        lists = lists_of(clips, val)
        need_same_lists(saved.values.get("lists", {}) if saved else {}, lists)
        return lists

    lists = distributed.by_first(same_lists)
    need(position.step <= per_epoch, f"at least {position.step} batches an epoch, which the run has taken",
         f"{per_epoch} of {count} readable clips", "Restore the training list, or start a new run.")  # fmt: skip
    need(job.optim.batch_size >= world, f"a batch of at least one clip for each of {world} processes",
         job.optim.batch_size)  # fmt: skip
    labels = [row.label for row in clips.rows]
    if job.optim.per_class:
        there = [label for i, label in enumerate(labels) if i not in lost]
        need_classes(there, clips.name, job.optim.batch_size, job.optim.per_class)

    # The method. Every process draws the same numbers, so all start from the same weights.
    torch.manual_seed(job.optim.seed)
    with no_start_weights() if saved else nullcontext():  # the state replaces them, and their file may be gone
        model = build(job.method, job.config, job.inputs, clips.rows)
    stages = model.stages(job.optim.epochs)
    need(position.stage < max(1, len(stages)), f"a state of one of {len(stages)} stages", f"stage {position.stage + 1}",
         "Start a new run.")  # fmt: skip
    need_graph(model, job.method, job.optim, job.supervision, where)
    clips.check_audio_spec(job.inputs.rate, model.training_seconds)
    truth = annotated(clips, job.supervision) if job.supervision.weight else None
    if val is not None:
        val.check_audio_spec(job.inputs.rate, job.inputs.seconds)
        need_answers(model, job)

    # The folder.
    distributed.by_first(begin)
    position.failures.update((clips.rows[i].id, reason) for i, reason in lost.items())
    log = RunLog(out, position.log_bytes, first_step=position.total_steps, main=main)
    bar = Bar(sum(stage.epochs for stage in stages) * per_epoch, position.total_steps, job.optim.batch_size, main)
    for told in clips.notes:
        bar.line(told)
    if job.optim.batch_size < asked.optim.batch_size:
        why = f"--limit {job.limit} leaves no more" if job.limit else f"{clips.name} has no more"
        bar.line(f"batches of {job.optim.batch_size} clips, not {asked.optim.batch_size}: {why}")
    if stages:
        bar.line(
            f"training {job.method} on {clips.name}: {len(clips)} clips, {per_epoch} "
            f"{'batch' if per_epoch == 1 else 'batches'} of {job.optim.batch_size} an epoch, on {where}"
        )
    else:
        bar.line(f"{job.method} has nothing to learn: it is measured and calibrated")
    if truth is not None:
        bar.line(f"ground truth of {sum(truth)} of {len(clips)} clips is used")
        if told := unknown_names(clips, job.supervision):
            bar.line(f"of the names whose ground truth may be used, {told}")
    for start in starts_of(model) if saved is None else []:
        bar.line(f"the picture encoder starts from {start}")
    if saved and saved.note:
        bar.line(saved.note)
    if position.total_steps:
        bar.line(f"resuming at epoch {position.epoch + 1}, step {position.step + 1}")

    thread_on = where if where.type == "cuda" and world == 1 else None
    states = StateWriter(out, lists, thread_on, damaged=saved is not None and bool(saved.note))

    def save() -> None:
        log.sync()
        position.log_bytes = log.bytes
        distributed.by_first(lambda: states.write(model, optimizer, position, random_state()))

    measured: list[Evaluation] | None = None
    loader: Loader | None = None
    try:
        for index, stage in enumerate(stages):
            # A stage may freeze or replace modules; all that depends on them is made afterwards.
            model.start_stage(stage)
            if index < position.stage:
                continue
            prepared(model, job.optim, where)
            lr = stage.lr if stage.lr is not None else job.optim.lr
            optimizer = make_optimizer(model.groups(), job.optim, lr)
            if saved is not None:
                restore(saved, model, optimizer)
                saved = None
            else:
                model.on_epoch(TrainingContext(model, clips, job, stage, position, where, optimizer))
                if any(
                    len(x) for x in model.training_state().values() if x.ndim
                ):  # what took a pass over all clips is not found out twice
                    save()
            usual = len(batch_at(np.arange(job.optim.batch_size), 0, job.optim.batch_size, rank, world))
            take_step = Stepper(model, stage, optimizer, job.optim, job.supervision, where, usual)
            spec = SampleSpec(job.optim.seed, model.training_seconds, truth)
            loader = Loader(clips, job.inputs, spec, workers=job.optim.workers, device=where)
            # The next epoch is read while this one ends, unless it brings neighbours that are yet to be found.
            foreseen = type(model).neighbours is Method.neighbours
            feed: Prefetcher | None = None
            while position.epoch < stage.epochs:
                epoch = position.epoch
                unread: list[Seen] = []
                row: dict[str, float] = {}
                model.train()
                if feed is None or not foreseen:
                    until = stage.epochs if foreseen else epoch + 1
                    feed = loader.prefetch(_requests(sampler, model, range(epoch, until), position.step))
                bar.start_epoch(f"epoch {epoch + 1}/{stage.epochs}" + (f" {stage.name}" if len(stages) > 1 else ""))
                for batch in islice(feed, per_epoch - position.step):
                    batch = usable(batch)
                    rate = lr_at(epoch * per_epoch + position.step, stage.epochs * per_epoch, job.optim, lr)
                    taken = take_step(batch, rate)
                    position.step += 1
                    position.total_steps += 1
                    bar.step()

                    # Looking makes the GPU wait, so it happens rarely; a state is saved only after a look.
                    unread.append(Seen(position.total_steps, taken, batch.ids, batch.failures))
                    saving = position.total_steps % job.optim.save_every == 0
                    if len(unread) >= LOG_EVERY or saving or position.step == per_epoch:
                        row = look(unread, position, clips, job.optim.max_failed)
                        unread.clear()
                        log.write({"step": position.total_steps, "epoch": epoch, "lr": rate, **row,
                                   **bar.looked(feed.waited())})  # fmt: skip
                    if saving and position.step < per_epoch:
                        save()

                if take_step.slow and (job.optim.graph or job.optim.compile):
                    bar.line(
                        f"{take_step.slow} steps so far were slow ones, because clips were missing from their batches"
                    )

                # The epoch is done: measure, let the method work on the whole set, save.
                position.epoch, position.step = epoch + 1, 0
                last = position.epoch == stage.epochs
                every = job.optim.val_every
                if val is None and row:
                    bar.line(f"epoch {position.epoch}: loss {row['loss']:.4f} ({bar.speed})")
                if val is not None and (last or (every and position.epoch % every == 0)):
                    measured = validate(model, val, job, position, log, bar, out, where)
                if not last:
                    model.on_epoch(TrainingContext(model, clips, job, stage, position, where, optimizer))
                if last or position.epoch % job.optim.save_epochs == 0:
                    save()
            loader.close()
            if index + 1 < len(stages):
                position.stage, position.epoch, position.best = index + 1, 0, Position.best

        states.close()
        finish(model, val, measured, clips, job, position, bar, out, where)
    finally:
        if loader is not None:
            loader.close()
        states.wait()
        bar.close()
        log.close()
    return out / WEIGHTS


def _sampler(clips: ClipSet, job: Job, lost: Collection[int]) -> BatchSampler:
    optim = job.optim
    return BatchSampler(clips.rows, optim.batch_size, optim.seed, sampler=optim.sampler, per_class=optim.per_class,
                        unreadable=lost)  # fmt: skip


def _requests(
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
