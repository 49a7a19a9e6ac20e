"""Runs on coco_esc: every method with the ResNet-18 pair from ImageNet, under one budget. The settings are ours."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from earsight import registry
from earsight.config import Inputs, Optim
from earsight.recipes.base import Recipe
from earsight.training.job import Job

OPTIM = Optim(epochs=60, val_every=5, save_epochs=5)
"""One budget for all methods: 1342 photos, 60 times, in batches of 128 with Adam at 1e-4, as the papers have it."""
TESTS = ("coco_esc:extended", "coco_esc:interactive")
_EQUAL = "earsight: every method under one budget, from ImageNet weights"
_KNOWS = "earsight: nothing to learn; measured on coco_esc"


@dataclass(frozen=True)
class _Run:
    """A method on coco_esc, and what differs from its own settings."""

    method: str
    changes: dict[str, Any] = field(default_factory=dict)
    epochs: int = OPTIM.epochs
    source: str = _EQUAL

    def __call__(self) -> Job:
        config = replace(registry.load("method", self.method).Config(), **self.changes)
        return Job(self.method, config, Inputs(), replace(OPTIM, epochs=self.epochs), "coco_esc:train",
                   "coco_esc:val")  # fmt: skip


# There are eleven classes, and 600 steps where the papers have 22 000: momentum copies at 0.999 would still be near
# their start at the end, and neighbours that are looked for after every ten steps are hardly others. DSOL sees
# all clips twice in an epoch, to localize and to classify. A photo has another sound in every epoch, so that a cluster
# of the first one is no label for the next.
_RUNS = {
    "slavc": _Run("slavc", {"momentum": 0.99}),
    "ezvsl": _Run("ezvsl"),
    "marginnce": _Run("marginnce"),
    "fnac": _Run("fnac"),
    "lvs": _Run("lvs"),
    "hardpos": _Run("hardpos", {"remine": 5}),
    "attention10k": _Run("attention10k"),
    "dmc": _Run("dmc"),
    "coarse_to_fine": _Run("coarse_to_fine", {"clustered": "pictures", "categories": 11}),
    "coarse_to_fine_classes": _Run("coarse_to_fine", {"labels": "classes", "categories": 11}),
    "dsol": _Run("dsol", {"clusters": 11, "passes": 1}, epochs=30),
    "avobject": _Run("avobject"),
    "center_prior": _Run("center_prior", source=_KNOWS),
    "ogl": _Run("ogl", source=_KNOWS),
}
RECIPES = tuple(
    Recipe(f"{name}_coco_esc", run.method, "coco_esc:train", TESTS, run.source, run) for name, run in _RUNS.items()
)
