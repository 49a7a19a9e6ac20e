"""Runs on the built-in set, with small encoders: they learn in minutes and need no data. The settings are ours."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Literal

from earsight import registry
from earsight.config import Inputs, Optim
from earsight.recipes.base import Recipe
from earsight.training.job import Job

INPUTS = Inputs(image_size=112, resize=128, rate=11025, seconds=2.0, window=256, hop=160)
OPTIM = Optim(epochs=8, batch_size=64, optimizer="adamw", lr=2e-3, weight_decay=1e-2, warmup_steps=20, val_every=2)
"""One budget for all methods: 3072 clips, 8 times. Rate, schedule and a setting or two are each method's own."""


@dataclass(frozen=True)
class _Toybox:
    """A method on toybox: its learning rate and schedule, and what else differs from its own settings."""

    method: str
    changes: dict[str, Any] = field(default_factory=dict)
    lr: float = OPTIM.lr
    schedule: Literal["constant", "cosine"] = "cosine"
    inputs: Inputs = INPUTS
    source: str = "earsight: small encoders that learn from nothing in minutes on two CPU cores"

    def __call__(self) -> Job:
        from earsight.encoders.base import Encoders

        config = registry.load("method", self.method).Config()
        small = {"encoders": Encoders("small", "small")} if hasattr(config, "encoders") else {}
        config = replace(config, **small, **self.changes)
        optim = replace(OPTIM, lr=self.lr, schedule=self.schedule)
        return Job(self.method, config, self.inputs, optim, on="toybox:train", val="toybox:val")


# Temperatures are higher than published and momentum lower, because training has hundreds of steps where the papers
# have thousands; the small encoders' cosines and distances are smaller, so levels are lower. How all this was chosen,
# and why FNAC's masks are off, is told in docs/results-toybox.md.
_TRIMAP = {"positive": 0.5, "negative": 0.3}
_FALSE_NEGATIVES = {"suppress_by_sound": 10.0, "enhance": 10.0, "suppress_by_picture": 10.0}
_LARGE = replace(INPUTS, image_size=224, resize=224)
_KNOWS = "earsight: nothing to learn; measured on the built-in set"
_RUNS = {
    "slavc": _Toybox("slavc", {"dim": 128, "temperature": 0.07, "momentum": 0.99}, schedule="constant"),
    "ezvsl": _Toybox("ezvsl", {"dim": 128, "temperature": 0.07}, lr=5e-4),
    "marginnce": _Toybox("marginnce", {"dim": 128}),
    "fnac": _Toybox(
        "fnac",
        {"dim": 128, "temperature": 0.07, "warmup": 2, "visual_dropout": 0.5, "mask_width": 0, **_FALSE_NEGATIVES},
        lr=1e-3,
    ),
    "lvs": _Toybox("lvs", _TRIMAP, lr=1e-3),
    "hardpos": _Toybox("hardpos", _TRIMAP, lr=1e-3),
    "attention10k": _Toybox("attention10k", lr=3e-4),
    "dmc": _Toybox("dmc", {"margin": 10.0, "sharpness": 3.0}, lr=1e-3),
    "coarse_to_fine": _Toybox("coarse_to_fine", {"labels": "clusters", "categories": 8}, lr=1e-3),
    "coarse_to_fine_classes": _Toybox("coarse_to_fine", {"labels": "classes", "categories": 8}, lr=1e-3),
    "dsol": _Toybox("dsol", {"clusters": 8, "passes": 1}, lr=1e-3),
    "avobject": _Toybox("avobject", {"dim": 128}, lr=1e-3),
    "center_prior": _Toybox("center_prior", inputs=_LARGE, source=_KNOWS),
    "ogl": _Toybox("ogl", inputs=_LARGE, source=_KNOWS),
}
RECIPES = tuple(
    Recipe(f"{name}_toybox", run.method, "toybox:train", ("toybox:extended",), run.source, run, data=False)
    for name, run in _RUNS.items()
)
