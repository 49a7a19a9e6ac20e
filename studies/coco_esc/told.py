"""The command that trains a trial, as it would be typed."""

from __future__ import annotations

import shlex
from dataclasses import replace
from typing import Any

from earsight.cli.screen import flat
from earsight.recipes import RECIPES
from earsight.training.job import Job


def train_command(job: Job, run: str) -> str:
    """What to type to train this: the recipe, and every setting that differs from it.

    >>> from dataclasses import replace
    >>> start = RECIPES["slavc_coco_esc"]()
    >>> one = replace(start, data="packs/coco_esc", optim=replace(start.optim, seed=1, graph=True))
    >>> train_command(one, "R")
    'earsight train --recipe slavc_coco_esc --data PACK --optim.graph --optim.seed 1 --out R'
    """
    job = named(job)
    begin, settings = _nearest(job), flat(job.to_json())
    words = ["earsight", "train", "--recipe", begin]
    words += ["--data", job.data] if job.data else []
    start = flat(RECIPES[begin]().to_json())
    for name, value in settings.items():
        if name != "data" and value != start[name]:
            words += _flag(name, value)
    return shlex.join([*words, "--out", run])


def named(job: Job) -> Job:
    """The same with PACK and WEIGHTS for what lies somewhere on one machine."""
    config = job.config
    if hasattr(config, "encoders"):
        config = replace(config, encoders=replace(config.encoders, weights=_named(config.encoders.weights)))
    if hasattr(config, "weights"):
        config = replace(config, weights=_named(config.weights))
    return replace(job, config=config, data="PACK" if job.data else "")


def _named(weights: str) -> str:
    return weights if weights in ("imagenet", "random") else "WEIGHTS"


def _nearest(job: Job) -> str:
    """The recipe of this method that differs in the fewest settings."""
    settings = flat(job.to_json())
    near = [name for name, recipe in RECIPES.items() if name.endswith("_coco_esc") and recipe.method == job.method]
    return min(near, key=lambda name: sum(settings[k] != v for k, v in flat(RECIPES[name]().to_json()).items()))


def _flag(name: str, value: Any) -> list[str]:
    """--method.dim 64; switches are --optim.graph and --optim.no-graph."""
    *path, last = name.replace("config.", "method.", 1).replace("_", "-").split(".")
    if isinstance(value, bool):
        return ["--" + ".".join([*path, last if value else f"no-{last}"])]
    return ["--" + ".".join([*path, last]), str(value)]
