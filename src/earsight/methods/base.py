"""What a method is. The trainer, the evaluator and the localizer know this class and nothing else of any method.

A file in methods/ defines a frozen dataclass `Config`, a class `Model(Method)` built as `Model(config, inputs)`, and
`PRESETS`: name -> function returning a `Preset`.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from torch import Tensor, nn

from earsight import registry
from earsight.config import Form, Inputs, Optim, from_json
from earsight.losses import supervised
from earsight.models.frontend import FrontEnd
from earsight.types import Batch, Maps, Row, Step


@dataclass(frozen=True)
class Stage:
    """A stretch of training with its own trainable parameters and optimizer. Most methods have one.

    Args:
        name: shown in the log.
        epochs: how many times all clips are seen.
        lr: learning rate, or None for what the training settings say.
    """

    name: str
    epochs: int
    lr: float | None = None


class Group(NamedTuple):
    """Parameters with a learning rate and a weight decay of their own; None for what the training settings say."""

    parameters: list[nn.Parameter]
    lr: float | None = None
    weight_decay: float | None = None


class Near(NamedTuple):
    """For each clip of the training list, int64 (N,): whose picture and whose sound a batch brings along with it."""

    pictures: Tensor
    sounds: Tensor


@dataclass(frozen=True)
class Preset:
    """A method's settings as one source gives them, together with the settings around it."""

    config: Any
    inputs: Inputs
    optim: Optim
    protocol: str


class Context(Protocol):
    """What the trainer lends a method before a stage and between epochs."""

    epoch: int
    """The epoch of the stage that is over; -1 before its first."""
    rows: Sequence[Row]
    """What is known of the training clips; a batch's `index` counts these."""

    def forget(self, parameters: Iterable[nn.Parameter]) -> None:
        """Let the optimizer treat these parameters as new, because their values were drawn again."""

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

    @property
    def remark(self) -> str:
        """What every result must say of the model beside its name, such as where labels came from."""
        return ""

    steady = False
    """Whether every training step of a stage launches the same kernels on the same memory: no value is read back,
    nothing random is drawn on the CPU, and what changes between epochs is changed in place. Such steps can be replayed
    as a graph (--optim.graph)."""

    rests = False
    """Whether a training step may leave some trainable parameters without a gradient."""

    @property
    def training_seconds(self) -> float:
        """Seconds of sound around the frame that training batches carry; `localize` always hears `inputs.seconds`."""
        return self.inputs.seconds

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

    def stages(self, epochs: int) -> tuple[Stage, ...]:
        """How training is divided, when the settings ask for `epochs`. A method with nothing to learn has no stage."""
        return (Stage("main", epochs),)

    def start_stage(self, stage: Stage) -> None:
        """Called before a stage's optimizer is made: freeze, replace or copy modules here.

        A resumed run calls this for every stage up to its own, so it must not depend on data.
        """

    def prepare(self, stage: Stage, context: Context) -> None:
        """Called once after `start_stage`, for what a stage first has to find out about the training set."""

    def between_epochs(self, context: Context) -> None:
        """Called after each epoch but a stage's last, for clustering and relabelling."""

    def groups(self) -> list[Group]:
        """What the optimizer trains."""
        return [Group([p for p in self.parameters() if p.requires_grad])]

    def near(self, epoch: int) -> Near | None:
        """Clips that each batch of the epoch brings along with its own, or None. The same answer for the same epoch."""
        return None

    def training_state(self) -> dict[str, Tensor]:
        """What training must remember over a resume and weights files need not hold, such as labels of clips."""
        return {}

    def load_training_state(self, state: dict[str, Tensor]) -> None:
        """Take back what `training_state` gave."""

    def supervised_loss(self, maps: Maps, truth: Tensor, form: Form) -> Tensor:
        """The loss of maps (n, h, w) with gradient against ground truth (n, S, S); "own" is the method's choice."""
        return supervised(maps, truth, "squared" if form == "own" else form)


def build(name: str, config: Any, inputs: Inputs) -> Method:
    """Make the method `name` (a file in methods/, or a dotted module path) with its settings.

    `config` is the method's Config, or the plain JSON of one.
    """
    module = registry.load("method", name)
    if isinstance(config, dict):
        config = from_json(module.Config, config)
    model: Method = module.Model(config, inputs)
    return model
