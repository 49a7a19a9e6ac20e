"""What the study trains: every method under one budget, and SLAVC with one thing changed at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Literal

from earsight import registry
from earsight.config import Inputs
from earsight.encoders.base import Encoders
from earsight.recipes import RECIPES
from earsight.recipes.coco_esc import OPTIM
from earsight.training.job import Job
from studies.trial import Trial

EXTENDED = "coco_esc:extended"
FIRST = ("slavc", "ezvsl")
"""Trained with all seeds before the others begin: if time is short, the comparison that matters most is whole."""
FIXED = ("center_prior", "ogl")
"""Have nothing to learn, and so no seeds."""
KEPT = "methods/slavc/0"
"""The run whose weights are kept, where weights are."""
MOST = 8
"""Seeds that are looked for when numbers are collected."""
_SMALL = Encoders("small", "small", weights="random", width=8)
_SMALL_INPUTS = Inputs(image_size=64, resize=72, seconds=1.0)


@dataclass(frozen=True)
class Budget:
    """What all runs have in common.

    Args:
        data: the pack, or the folder, of coco_esc.
        weights: start of the picture encoders: "imagenet", or a file.
        device: "cpu" or "cuda".
        epochs: times that all photos are seen; DSOL, which sees them twice in an epoch, has half as many.
        batch: photos in a batch.
        lr: learning rate.
        every: epochs between validations.
        seeds: of every run that learns.
        precision: of training.
        limit: clips of each set; 0 for all.
        small: small encoders on small pictures, which are good for trying the study out and nothing else.
    """

    data: str
    weights: str = "imagenet"
    device: str = "cpu"
    epochs: int = OPTIM.epochs
    batch: int = OPTIM.batch_size
    lr: float = OPTIM.lr
    every: int = OPTIM.val_every
    seeds: tuple[int, ...] = (0, 1, 2)
    precision: Literal["fp32", "bf16"] = "fp32"
    limit: int = 0
    small: bool = False


def job(budget: Budget, recipe: str, seed: int, batch: int = 0, per_class: int = 0, **changes: Any) -> Job:
    """A recipe in the study's budget, with some of the method's settings changed."""
    start = RECIPES[f"{recipe}_coco_esc"]()
    config = replace(start.config, **changes)
    if hasattr(config, "encoders"):
        same = replace(config.encoders, weights=budget.weights)
        config = replace(config, encoders=_SMALL if budget.small else same)
    if hasattr(config, "weights"):
        config = replace(config, weights=budget.weights)
    optim = replace(
        start.optim,
        epochs=max(1, round(budget.epochs * start.optim.epochs / OPTIM.epochs)),
        batch_size=batch or budget.batch,
        per_class=per_class,
        lr=budget.lr,
        precision=budget.precision,
        graph=budget.device == "cuda" and registry.load("method", start.method).Model.cuda_graph_safe,
        workers=1 if budget.device == "cuda" else 0,
        seed=seed,
        val_every=budget.every,
        # An epoch of ten steps takes a GPU less time than saving it: a run that is killed loses half of itself at most.
        save_epochs=max(1, (budget.epochs + 1) // 2),
        save_every=1_000_000 if budget.device == "cuda" else start.optim.save_every,
        keep="both",
    )
    inputs = _SMALL_INPUTS if budget.small else start.inputs
    return replace(start, config=config, inputs=inputs, optim=optim, data=budget.data, limit=budget.limit)


def methods(budget: Budget) -> Iterator[Trial]:
    """Every method and variant that has a recipe; those with nothing to learn have no seeds."""
    names = [name.removesuffix("_coco_esc") for name in RECIPES if name.endswith("_coco_esc")]
    fixed = [name for name in names if name in FIXED]
    learned = [name for name in names if name not in (*fixed, *FIRST)]
    order = [(name, seed) for seed in budget.seeds for name in FIRST] + [(name, 0) for name in fixed]
    for name, seed in [*order, *((name, seed) for seed in budget.seeds for name in learned)]:
        infers = ("loc", "avc", "online") if name == "slavc" else ()
        prior = name not in fixed
        yield Trial("methods", name, seed, job(budget, name, seed), (EXTENDED,), prior, infers, controls=prior)


def ablations(budget: Budget) -> Iterator[Trial]:
    """SLAVC without each of its parts; the line that all others differ from is the method itself."""
    plain = {"decompose": False, "infer": "loc", "pooling": "max", "audio_term": "images"}
    paper = {"target_heads": False, "pooling": "max", "audio_term": "images"}
    lines: list[tuple[str, str, dict[str, Any]]] = [
        ("dropout", "0", {"visual_dropout": 0.0}),
        ("dropout", "0 without momentum", {"visual_dropout": 0.0, "targets": False}),
        ("momentum", "no target encoders", {"targets": False}),
        ("momentum", "0.999", {"momentum": 0.999}),
        ("decomposition", "without", plain),
        ("form", "paper", paper),
    ]
    for seed in budget.seeds:
        for group, name, changes in lines:
            yield Trial(group, name, seed, job(budget, "slavc", seed, **changes), (EXTENDED,))


def batches(budget: Budget) -> Iterator[Trial]:
    """What a batch is made of: its size, and how many clips of one class, which are false negatives, it may hold.

    The methods as they are come first, trained once more: what the others are compared with, and how far two trainings
    of the same seeds are apart on a GPU.
    """
    for seed in budget.seeds:
        for name in FIRST:
            for batch, per_class in ((128, 0), (128, 12), (32, 0), (32, 3)):
                line = f"{name} {batch}" + (f" at most {per_class}" if per_class else "")
                yield Trial("batches", line, seed, job(budget, name, seed, batch, per_class), (EXTENDED,))


def singles(budget: Budget) -> Iterator[Trial]:
    """Batches of eleven, one of each class: no false negative is left. Beside them batches of eleven as they come."""
    for seed in budget.seeds:
        for name in FIRST:
            for line, per_class in (("11", 0), ("11 at most 1", 1)):
                yield Trial("singles", f"{name} {line}", seed, job(budget, name, seed, 11, per_class), (EXTENDED,))


def labels(budget: Budget) -> Iterator[Trial]:
    """CoarsetoFine with clusters of the sounds of one epoch, when every epoch has others."""
    for seed in budget.seeds:
        made = job(budget, "coarse_to_fine", seed, clustered="sounds")
        yield Trial("labels", "coarse_to_fine by sounds", seed, made, (EXTENDED,))


GROUPS: dict[str, Callable[[Budget], Iterator[Trial]]] = {
    "methods": methods,
    "ablations": ablations,
    "batches": batches,
    "singles": singles,
    "labels": labels,
}


PARTS = {trial.group: part for part, make in GROUPS.items() for trial in make(Budget("", seeds=(0,)))}
"""The part of the study, for --only, that each table's trials belong to."""


def every() -> list[Trial]:
    """All trials that may have been measured, with up to MOST seeds; their settings are told by their own folders."""
    budget = Budget("", seeds=tuple(range(MOST)))
    return [trial for make in GROUPS.values() for trial in make(budget)]
