"""What a training run is: everything that decides its result, written into the run's folder and read back on resume."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from earsight import registry
from earsight.config import Inputs, Optim, Supervision, from_json, need, to_json

FREE = ("data", "optim.workers", "optim.save_every", "optim.save_epochs", "optim.max_failed")
"""What may be changed when a run goes on: where its data lie, and how it is worked on. Its lists stay the same."""


@dataclass(frozen=True)
class Job:
    """A training run.

    Args:
        method: a file in methods/, a dotted module path, or a class with its settings as `Config`, which becomes its
            name.
        config: the method's Config; by default as it is.
        inputs: how clips become inputs.
        optim: schedule and precision.
        on: training set, "set" or "set:split".
        val: validation set, disjoint from every test set; empty for none.
        data: folder of the data, for sets that need one.
        limit: use at most this many clips of each set; 0 for all.
        protocol: the evaluation protocol for validation and calibration.
        supervision: ground truth in training, off by default.
        false_alarm: share of validation negatives that the calibrated verdict may call visible.
    """

    method: Any
    config: Any = None
    inputs: Inputs = field(default_factory=Inputs)
    optim: Optim = field(default_factory=Optim)
    on: str = ""
    val: str = ""
    data: str = ""
    limit: int = 0
    protocol: str = "exact"
    false_alarm: float = 0.1
    supervision: Supervision = field(default_factory=Supervision)

    def __post_init__(self) -> None:
        if isinstance(self.method, type):
            object.__setattr__(self, "method", registry.register(self.method))
        if self.config is None:
            object.__setattr__(self, "config", registry.load("method", self.method).Config())
        need(self.limit >= 0, "limit of at least 0", self.limit)
        need(0 < self.false_alarm < 1, "false_alarm between 0 and 1", self.false_alarm)

    @property
    def folder(self) -> Path | None:
        return Path(self.data) if self.data else None

    def to_json(self) -> dict[str, Any]:
        return to_json(self)

    @classmethod
    def from_json(cls, values: dict[str, Any], config_type: type) -> Job:
        """Read a run's settings back; `config_type` is the method's Config."""
        config: Any = from_json(config_type, values["config"])
        job: Job = replace(from_json(cls, {**values, "config": None}), config=config)
        return job

    def worked_on_like(self, other: Job) -> Job:
        """This job with those settings of another that may be changed when a run goes on."""
        names = [name.removeprefix("optim.") for name in FREE if name.startswith("optim.")]
        return replace(self, data=other.data, optim=replace(self.optim, **{n: getattr(other.optim, n) for n in names}))


def deciding(values: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """A job's plain values without what may be changed when the run goes on.

    >>> deciding({"on": "toybox", "data": "/tmp", "optim": {"epochs": 3, "workers": 8}})
    {'on': 'toybox', 'optim': {'epochs': 3}}
    """
    return {
        name: deciding(value, f"{prefix}{name}.") if isinstance(value, dict) else value
        for name, value in values.items()
        if prefix + name not in FREE
    }
