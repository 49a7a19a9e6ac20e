"""What a run needs before it begins: data, method, and where it goes on; all that cannot work is refused here."""

from __future__ import annotations

import hashlib
import os
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from earsight import distributed, protocols, registry
from earsight.config import Optim, Supervision, need
from earsight.data.clips import ClipSet, open_set
from earsight.data.files import read_names
from earsight.data.sampler import BatchSampler, need_classes
from earsight.encoders.base import no_start_weights
from earsight.errors import UsageError
from earsight.evaluation import need_truth
from earsight.methods.base import Method, Stage, build
from earsight.predict import need_own
from earsight.training.job import Job
from earsight.training.state import Lists, Position, SavedState, lists_of, load_state, require_same_lists

_SHOWN = 3  # names in a message


@dataclass
class Plan:
    """A run that can begin, or go on.

    Args:
        job: its settings, with batches no larger than the training list.
        out: its folder.
        device: where it is computed.
        clips: the training list.
        val: the validation list, if there is one.
        unreadable: clips of the training list of which that is known without trying, and why.
        batches: which clips each batch holds.
        model: the method, with the weights that a new run starts from.
        stages: of its training.
        annotated: which clips' ground truth training may see; None for none.
        saved: where the run goes on; None for a new one.
    """

    job: Job
    out: Path
    device: torch.device
    clips: ClipSet
    val: ClipSet | None
    unreadable: dict[int, str]
    batches: BatchSampler
    model: Method
    stages: tuple[Stage, ...]
    annotated: tuple[bool, ...] | None
    saved: SavedState | None
    lists: Lists


def check(job: Job, out: Path, device: torch.device, *, resume: bool = False) -> Plan:
    """Open and make all that the run needs. What cannot work is an error, before the folder is touched."""
    optim = job.optim
    need(bool(job.on), "a training set", "none", f"Name one of: {', '.join(registry.names('set'))}.")
    need(bool(job.val) or optim.keep == "last", "a validation set to keep the best epoch by", "none",
         "Add --val SET, or use --optim.keep last.")  # fmt: skip
    if optim.deterministic:
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
        torch.use_deterministic_algorithms(True)
    clips = open_set(job.on, job.folder, role="train", limit=job.limit)
    val = open_set(job.val, job.folder, role="val", limit=job.limit) if job.val else None
    unreadable = clips.failed_clips()
    batches = _batches(clips, optim, unreadable)
    need(batches.clips >= 2, "at least two clips to train on", f"{batches.clips} in {clips.name}",
         "The other clips are the negatives.")  # fmt: skip
    if batches.clips < optim.batch_size:  # run.json keeps the settings as given: a run that goes on comes here again
        optim = replace(optim, batch_size=batches.clips)
        batches = _batches(clips, optim, unreadable)
    if val is not None:
        _require_positives(val)

    # Where the run was left, and that it goes on with the lists it was begun with.
    saved = load_state(out) if resume else None
    position = saved.position if saved else Position()
    lists = lists_of(clips, val)
    need(len(set(distributed.all_gather_object(position.total_steps))) == 1, "one state for all processes", "several",
         "Give them all the same --out.")  # fmt: skip
    distributed.on_rank0(lambda: require_same_lists(saved.values["lists"] if saved else {}, lists))
    need(position.step <= batches.steps, f"at least {position.step} batches an epoch, which the run has taken",
         f"{batches.steps} of {batches.clips} readable clips",
         "Restore the training list, or start a new run.")  # fmt: skip
    need(optim.batch_size >= distributed.world(), f"a batch of at least one clip for each of {distributed.world()} "
         "processes", optim.batch_size)  # fmt: skip
    if optim.per_class:
        labels = [row.label for i, row in enumerate(clips.rows) if i not in unreadable]
        need_classes(labels, clips.name, optim.batch_size, optim.per_class)

    # The method. Every process draws the same numbers, so all start from the same weights.
    torch.manual_seed(optim.seed)
    with no_start_weights() if saved else nullcontext():  # the state replaces them, and their file may be gone
        model = build(job.method, job.config, job.inputs, clips.rows)
    stages = model.stages(optim.epochs)
    need(position.stage < max(1, len(stages)), f"a state of one of {len(stages)} stages",
         f"stage {position.stage + 1}", "Start a new run.")  # fmt: skip
    require_graph(model, job, device)
    clips.check_audio_spec(job.inputs.rate, model.training_seconds)
    allowed = annotated(clips, job.supervision) if job.supervision.weight else None
    if val is not None:
        val.check_audio_spec(job.inputs.rate, job.inputs.seconds)
        _require_confidence(model, job)
    return Plan(replace(job, optim=optim), out, device, clips, val, unreadable, batches, model, stages, allowed, saved,
                lists)  # fmt: skip


def _batches(clips: ClipSet, optim: Optim, unreadable: dict[int, str]) -> BatchSampler:
    """The batches of the run, once the sampler is known to say the same in every process and each time."""
    batches = BatchSampler(clips.rows, optim.batch_size, optim.seed, sampler=optim.sampler,
                           per_class=optim.per_class, unreadable=unreadable)  # fmt: skip
    found = [hashlib.sha256(batches.sampled(0).tobytes()).hexdigest() for _ in range(2)]
    same = len({digest for part in distributed.all_gather_object(found) for digest in part}) == 1
    need(same, f"the same order for the same rows, seed and epoch from the sampler {optim.sampler}", "another one",
         "Draw what is random from numpy.random.default_rng((seed, epoch)).")  # fmt: skip
    return batches


def _require_positives(val: ClipSet) -> None:
    """Refuse a validation list on which nothing can be measured, before anything was trained for it."""
    need(any(row.positive for row in val.rows), "positives to validate on",
         f"none among {len(val)} clips of {val.name}",
         "Name another list with --val, raise --limit, or use --val none.")  # fmt: skip
    need_truth(val)


def _require_confidence(model: Method, job: Job) -> None:
    """Refuse a protocol that asks for what the method's maps do not have, before a whole epoch was trained for it."""
    if protocols.get(job.protocol).confidence != "native":
        return
    size = job.inputs.image_size
    model.eval()
    with torch.inference_mode():
        pictures, sounds = torch.zeros(1, 3, size, size, dtype=torch.uint8), torch.zeros(1, job.inputs.samples)
        need_own(model.localize(pictures, sounds).confidence)
    model.train()


def require_graph(model: Method, job: Job, device: torch.device) -> None:
    """Refuse --optim.graph where a step cannot be replayed."""
    if not job.optim.graph:
        return
    need(device.type == "cuda", "a GPU for --optim.graph", device.type, "Train without it.")
    need(distributed.world() == 1, "one process for --optim.graph", distributed.world(), "Train without it.")
    need(job.optim.optimizer != "sgd", "adam or adamw for --optim.graph", job.optim.optimizer, "Train without it.")
    need(model.cuda_graph_safe, "a method whose steps are all alike for --optim.graph", job.method,
         "Train without it.")  # fmt: skip
    need(job.supervision.weight == 0, "no ground truth for --optim.graph",
         f"--supervision.weight {job.supervision.weight:g}", "Train without one of the two.")  # fmt: skip


def annotated(clips: ClipSet, settings: Supervision) -> tuple[bool, ...]:
    """Which clips' ground truth training may see: positives with boxes, among the names and the share asked for."""
    named = set(_named(settings)) if settings.ids else None
    which = tuple(
        row.positive and bool(row.boxes) and (named is None or row.id in named) and _share_of(row.id) < settings.share
        for row in clips.rows
    )
    if not any(which):
        boxes = sum(bool(row.boxes) for row in clips.rows)
        unknown = unknown_names(clips, settings)
        raise UsageError(
            f"Expected annotated clips in {clips.name}, but none may be used: {boxes} of {len(clips)} have boxes. "
            "Train on a set with boxes, name clips that have them (--supervision.ids), or raise --supervision.share."
            + (f" Of the names, {unknown}." if unknown else "")
        )
    return which


def unknown_names(clips: ClipSet, settings: Supervision) -> str:
    """How many of the names asked for are those of no clip, and which; empty when all of them are there."""
    named, there = _named(settings), {row.id for row in clips.rows}
    unknown = [name for name in named if name not in there]
    if not unknown:
        return ""
    shown = ", ".join(map(repr, unknown[:_SHOWN])) + (", ..." if len(unknown) > _SHOWN else "")
    return f"{len(unknown)} of {len(named)} in {settings.ids} are not in {clips.name}: {shown}"


def _named(settings: Supervision) -> list[str]:
    return read_names(Path(settings.ids)) if settings.ids else []


def _share_of(name: str) -> float:
    """A number in [0, 1) that depends on the name alone, so that a larger share holds every smaller one."""
    return int.from_bytes(hashlib.sha256(name.encode()).digest()[:6]) / 2**48
