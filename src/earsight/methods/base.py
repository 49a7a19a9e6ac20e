"""What a method is. The trainer, the evaluator and the localizer know this contract and nothing else of any method.

A file in methods/ defines a frozen dataclass `Config`, a class `Model` built as `Model(config, inputs)`, and `PRESETS`:
name -> function returning a `Preset`. Any architecture can be a `Method`; most encode pictures and sounds apart and
compare them afterwards, which is a `TwoTower`.
"""

from __future__ import annotations

import copy
from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, TypeVar

import torch
from torch import Tensor, nn

from earsight import distributed, registry
from earsight.config import Form, Inputs, Optim, from_json
from earsight.encoders.base import Encoder, global_max_pool
from earsight.losses import supervised
from earsight.types import Batch, Maps, Neighbours, Row, Step

Features = dict[str, Tensor]
"""What is compared: tensors by name whose first axis counts pictures, or sounds, so that rows can be chosen."""
M = TypeVar("M", bound=nn.Module)


@dataclass(frozen=True)
class Stage:
    """A stretch of training with its own trainable parameters and optimizer. Most methods have one.

    Args:
        name: shown in the log.
        epochs: how many times all clips are seen.
        lr: learning rate, or None for what the training settings say.
        has_unused_parameters: whether a step may leave some trainable parameters without a gradient.
    """

    name: str
    epochs: int
    lr: float | None = None
    has_unused_parameters: bool = False


class Group(NamedTuple):
    """Parameters with a learning rate and a weight decay of their own; None for what the training settings say."""

    parameters: list[nn.Parameter]
    lr: float | None = None
    weight_decay: float | None = None


@dataclass(frozen=True)
class Preset:
    """A method's settings as one source gives them, together with the settings around it."""

    config: Any
    inputs: Inputs
    optim: Optim
    protocol: str


class Context(Protocol):
    """What the trainer lends a method between epochs."""

    stage: Stage
    """The stage that is being trained."""
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
    """Two calls, `loss` and `localize`; everything else has an answer for the simplest case.

    Non-persistent buffers of the method itself are what training has to remember and weights need not hold, such as
    labels of clips: they are saved with a run's state and come back when it goes on, whatever their length.
    """

    cuda_graph_safe = False
    """Whether every training step of a stage launches the same kernels on the same memory: no value is read back,
    nothing random is drawn on the CPU, and what changes between epochs is changed in place (--optim.graph)."""
    note: str = ""
    """What every result must say of the model next to its name, such as where labels came from."""
    training_rows: Sequence[Row] = ()
    """What is known of the training clips, set when a run begins and when it goes on; empty otherwise."""

    def __init__(self, inputs: Inputs) -> None:
        super().__init__()
        self.inputs = inputs
        self.training_seconds = inputs.seconds
        """Seconds of sound around the frame that training batches carry; `localize` always gets `inputs.seconds`."""

    @abstractmethod
    def loss(self, batch: Batch, counts: list[int]) -> Step:
        """The training step's loss on a batch, whose clips are each other's negatives.

        `counts` says how many clips of the batch each process has; `distributed.gather(x, counts)` brings the rows of
        all processes together, with gradient.
        """

    @abstractmethod
    def localize(self, pictures: Tensor, sounds: Tensor) -> Maps:
        """Maps for pictures uint8 (B, 3, S, S) and sounds (B, N), each pair independent of the others."""

    def groups(self) -> list[Group]:
        """What the optimizer trains."""
        return [Group([p for p in self.parameters() if p.requires_grad])]

    def after_step(self) -> None:
        """Called after each optimizer step, for averages and clamps."""

    def stages(self, epochs: int) -> tuple[Stage, ...]:
        """How training is divided, when the settings ask for `epochs`. A method with nothing to learn has no stage."""
        return (Stage("main", epochs),)

    def start_stage(self, stage: Stage) -> None:
        """Called before a stage's optimizer is made: freeze, replace or copy modules here.

        A resumed run calls this for every stage up to its own, so it must not depend on data.
        """

    def on_epoch(self, context: Context) -> None:
        """Called before a stage's first epoch and after each of its epochs but the last, for clustering and labels."""

    def neighbours(self, epoch: int) -> Neighbours | None:
        """Clips that each batch of the epoch brings along with its own, or None. The same answer for the same epoch."""
        return None

    def supervised_loss(self, maps: Maps, truth: Tensor, form: Form) -> Tensor:
        """The loss of maps (n, h, w) with gradient against ground truth (n, S, S); "own" is the method's choice."""
        return supervised(maps, truth, "squared" if form == "own" else form)

    def training_state(self) -> dict[str, Tensor]:
        """What a resumed run needs besides weights: the method's own non-persistent buffers."""
        return {name: self.get_buffer(name) for name in sorted(self._non_persistent_buffers_set)}

    def load_training_state(self, state: Mapping[str, Tensor]) -> None:
        """Take back what `training_state` gave."""
        for name, value in state.items():
            self._buffers[name] = value.to(self.get_buffer(name).device)


class TwoTower(Method):
    """A method that encodes pictures and sounds apart and compares them afterwards.

    It has an encoder for each (`image` and `audio`, or what `encoders` gives), projects what they give to features
    (`project_image`, `project_audio`), and makes maps of aligned rows of both (`compare`). So one picture can meet many
    sounds for the price of one, and any two encoders can be chosen, of any width.
    """

    image: Encoder
    audio: Encoder

    def encoders(self) -> tuple[Encoder, Encoder]:
        """The encoders of pictures and sounds that maps are made with."""
        return self.image, self.audio

    def project_image(self, encoded: Tensor) -> Features:
        """Features of encoded pictures (B, C, h, w); by default as they are, under "places"."""
        return {"places": encoded}

    def project_audio(self, encoded: Tensor) -> Features:
        """Features of encoded sounds (B, C, f, t); by default the largest value of each channel, under "sound"."""
        return {"sound": global_max_pool(encoded)}

    @abstractmethod
    def compare(self, image: Features, audio: Features) -> Maps:
        """Maps of aligned rows of pictures and sounds."""

    def encode_images(self, pictures: Tensor) -> Tensor:
        """uint8 pictures (B, 3, S, S) -> (B, C, h, w)."""
        encoder, _ = self.encoders()
        encoded: Tensor = encoder(encoder.preprocess(pictures))
        return encoded

    def encode_sounds(self, sounds: Tensor) -> Tensor:
        """Sounds (B, N) -> (B, C, f, t)."""
        _, encoder = self.encoders()
        encoded: Tensor = encoder(encoder.preprocess(sounds))
        return encoded

    def embed_images(self, pictures: Tensor) -> Features:
        """Features of uint8 pictures (B, 3, S, S)."""
        return self.project_image(self.encode_images(pictures))

    def embed_sounds(self, sounds: Tensor) -> Features:
        """Features of sounds (B, N)."""
        return self.project_audio(self.encode_sounds(sounds))

    def localize(self, pictures: Tensor, sounds: Tensor) -> Maps:
        return self.compare(self.embed_images(pictures), self.embed_sounds(sounds))


def choose(features: Features, rows: Tensor) -> Features:
    """Some rows of features, in this order, repeated where a row is named twice."""
    return {name: x.index_select(0, rows) for name, x in features.items()}


def gather(features: Features, counts: list[int]) -> Features:
    """The features of all processes' clips, with gradient."""
    return {name: distributed.gather(x, counts) for name, x in features.items()}


def build(name: str, config: Any, inputs: Inputs, rows: Sequence[Row] = ()) -> Method:
    """Make the method `name` (a file in methods/, or a dotted module path) with its settings.

    `config` is the method's Config, or the plain JSON of one; `rows` are those of the training list, if it is trained.
    """
    module = registry.load("method", name)
    if isinstance(config, dict):
        config = from_json(module.Config, config)
    model: Method = module.Model(config, inputs)
    model.training_rows = rows
    return model


def frozen_copy(module: M) -> M:
    """A copy that never receives gradients; buffers start equal and from then on are the copy's own."""
    twin = copy.deepcopy(module)
    twin.requires_grad_(False)
    return twin


@torch.no_grad()
def ema_update(average: Iterable[Tensor], online: Iterable[Tensor], momentum: float) -> None:
    """average <- momentum * average + (1 - momentum) * online, for parameters in matching order.

    >>> average, online = [torch.zeros(1)], [torch.ones(1)]
    >>> ema_update(average, online, 0.9); ema_update(average, online, 0.9)
    >>> round(average[0].item(), 6)
    0.19
    """
    average, online = list(average), [p.detach() for p in online]
    if average:
        torch._foreach_lerp_(average, online, 1 - momentum)
