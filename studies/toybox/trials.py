"""What the study trains: a list of jobs, each under the group of the table it belongs to."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import studies.trial
from earsight.config import Supervision
from earsight.encoders.base import no_start_weights
from earsight.methods.base import build
from earsight.recipes import RECIPES
from earsight.training.job import Job

SEEDS = (0, 1, 2)
EXTENDED = "toybox:extended"
OPEN = ("toybox:heard", "toybox:unheard")
SHARE = 0.1
"""Of the training clips, those whose ground truth semi-supervised runs may see."""

WEIGHTS = {"slavc": 1.0, "attention10k": 0.1, "ezvsl": 10.0}
"""Of the loss on their maps, for the methods of the semi-supervised table."""


@dataclass(frozen=True)
class Trial(studies.trial.Trial):
    tests: tuple[str, ...] = (EXTENDED,)


def with_objects(trial: Trial, weights: str) -> Trial:
    """The same with this network, for a method that is one which sees objects and nothing else."""
    if not hasattr(trial.job.config, "weights"):
        return trial
    return replace(trial, job=replace(trial.job, config=replace(trial.job.config, weights=weights)))


def recipe(method: str, seed: int) -> Job:
    job = RECIPES[f"{method}_toybox"]()
    return replace(job, optim=replace(job.optim, seed=seed, val_every=1, keep="both"))


def slavc(seed: int, **changes: Any) -> Job:
    job = recipe("slavc", seed)
    return replace(job, config=replace(job.config, **changes))


def methods(seeds: Sequence[int]) -> Iterator[Trial]:
    """Every recipe for toybox, so every method and its variants; those with nothing to learn have no seeds."""
    for name in (recipe.removesuffix("_toybox") for recipe in RECIPES if recipe.endswith("_toybox")):
        for seed in seeds if _learns(recipe(name, 0)) else (0,):
            yield Trial("methods", name, seed, recipe(name, seed), prior=True)


def _learns(job: Job) -> bool:
    with no_start_weights():
        return bool(build(job.method, job.config, job.inputs).stages(1))


def ablations(seeds: Sequence[int]) -> Iterator[Trial]:
    """The paper's ablations of SLAVC; the line in the middle of each is the same run, trained once."""
    for seed in seeds:
        for rate in (0.0, 0.5, 0.75, 0.95):
            yield Trial("visual_dropout", f"{rate:g}", seed, slavc(seed, visual_dropout=rate))
        for rate in (0.5, 0.75, 0.9):
            yield Trial("audio_dropout", f"{rate:g}", seed, slavc(seed, audio_dropout=rate))
        for momentum in (0.0, 0.9, 0.995, 0.999):
            yield Trial("momentum", f"{momentum:g}", seed, slavc(seed, momentum=momentum))
        yield Trial("momentum", "no target encoders", seed, slavc(seed, targets=False))
        plain = slavc(seed, decompose=False, infer="loc", pooling="max", audio_term="images")
        yield Trial("decomposition", "without", seed, plain)
        yield Trial("decomposition", "with", seed, slavc(seed), infers=("loc", "avc", "both"))


def semi_supervised(seeds: Sequence[int]) -> Iterator[Trial]:
    """A tenth of the clips annotated, for the two methods of the paper's table and one that has no such form."""
    for method in WEIGHTS:
        for seed in seeds:
            supervision = Supervision(weight=WEIGHTS[method], share=SHARE)
            yield Trial("semi_supervised", method, seed, replace(recipe(method, seed), supervision=supervision))


def open_set(seeds: Sequence[int]) -> Iterator[Trial]:
    """Trained on half of the toys: how well are the others localized?"""
    for method in ("slavc", "ezvsl", "lvs"):
        for seed in seeds:
            # The validation list has all toys, so nothing is chosen by it.
            job = replace(recipe(method, seed), on="toybox:train_heard", val="")
            job = replace(job, optim=replace(job.optim, keep="last"))
            yield Trial("open_set", method, seed, job, tests=OPEN)


GROUPS = {
    "methods": methods,
    "ablations": ablations,
    "semi_supervised": semi_supervised,
    "open_set": open_set,
}
