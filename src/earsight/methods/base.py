"""What a method is. The trainer, the evaluator and the localizer know this class and nothing else of any method.

A file in methods/ defines a frozen dataclass `Config`, a class `Model(Method)` built as `Model(config, inputs)`, and
`PRESETS`: name -> function returning a `Preset`.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from torch import Tensor, nn

from earsight import registry
from earsight.config import Inputs, Optim, from_json
from earsight.models.frontend import FrontEnd
from earsight.types import Batch, Maps, Step


@dataclass(frozen=True)
class Stage:
    """A stretch of training with its own trainable parameters and optimizer. Most methods have one.

    Args:
        name: shown in the log and kept in the checkpoint.
        epochs: how long, or 0 for what the training settings say.
        lr: learning rate, or None for what the training settings say.
    """

    name: str = "main"
    epochs: int = 0
    lr: float | None = None


@dataclass(frozen=True)
class Preset:
    """A method's settings as one source gives them, together with the settings around it."""

    config: Any
    inputs: Inputs
    optim: Optim
    protocol: str


class Context(Protocol):
    """What the trainer lends a method between epochs."""

    epoch: int

    def extract(self, fn: Callable[[Batch], Tensor]) -> Tensor:
        """Run `fn` over the whole training set without augmentation, in order, gathered over processes.

        Rows of clips that cannot be read are NaN, or -1 for integers, so that every row keeps its place.
        """


class Method(nn.Module):
    """A trainable method: `forward` is the training step, `localize` answers for pairs independently of each other."""

    def __init__(self, inputs: Inputs) -> None:
        super().__init__()
        self.inputs = inputs
        self.front = FrontEnd(inputs)

    needs_truth = False
    """Whether training batches must carry ground-truth maps."""

    rests = False
    """Whether a training step may leave some trainable parameters without a gradient."""

    @abstractmethod
    def forward(self, batch: Batch) -> Step:
        """The training step's loss on a batch, whose clips are each other's negatives."""

    @abstractmethod
    def localize(self, frames: Tensor, waveforms: Tensor) -> Maps:
        """Maps for uint8 frames (B, 3, S, S) and waveforms (B, N). One pair or many, the same answer for each."""

    def compiled(self) -> list[nn.Module]:
        """The modules worth compiling in place."""
        return []

    def after_step(self) -> None:
        """Called after each optimizer step, for averages and clamps."""

    def stages(self) -> tuple[Stage, ...]:
        return (Stage(),)

    def start_stage(self, stage: Stage) -> None:
        """Called before a stage's optimizer is made: freeze, replace or copy modules here."""

    def between_epochs(self, context: Context) -> None:
        """Called after each epoch but a stage's last, for clustering and relabelling."""


def build(name: str, config: Any, inputs: Inputs) -> Method:
    """Make the method `name` (a file in methods/, or a dotted module path) with its settings.

    `config` is the method's Config, or the plain JSON of one.
    """
    module = registry.load("method", name)
    if isinstance(config, dict):
        config = from_json(module.Config, config)
    model: Method = module.Model(config, inputs)
    return model
