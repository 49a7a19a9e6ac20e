"""Settings shared by commands: frozen, checked on construction, JSON in and out. No torch here."""

from __future__ import annotations

import dataclasses
import json
import math
import types
import typing
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

from earsight.errors import UsageError

T = TypeVar("T")
Form = Literal["own", "squared", "unscaled", "bce"]
MOST_WORKERS = 512
"""Processes that read clips, for one process that computes."""
MOST_CELLS = 1 << 21
"""Values of a spectrogram: 90 seconds as published."""
MOST_EPOCHS = 1_000_000


def need(ok: bool, expected: str, got: object, do: str = "") -> None:
    """Raise a UsageError in the project's three-part form unless `ok`."""
    if not ok:
        raise UsageError(f"Expected {expected}, but got {got}." + (f" {do}" if do else ""))


def need_workers(workers: int) -> None:
    """Refuse more processes than any machine can use: starting a slip of the finger takes the machine down."""
    need(workers >= 0, "workers of at least 0", workers)
    need(workers <= MOST_WORKERS, f"at most {MOST_WORKERS} workers", workers, "One for each core is enough.")


def check_most(config: Any, **most: float) -> None:
    """Refuse numbers that no model or study needs, and NaN: settings also come from files of strangers."""
    for name, limit in most.items():
        need(getattr(config, name) <= limit, f"{name} of at most {limit}", getattr(config, name))


def check_choices(config: Any) -> None:
    """Refuse a value that is none of its Literal's; the command line checks by itself, calls from Python do not."""
    for name, hint in typing.get_type_hints(type(config)).items():
        if typing.get_origin(hint) is Literal:
            known = typing.get_args(hint)
            need(getattr(config, name) in known, f"{name} {' or '.join(known)}", repr(getattr(config, name)))


@dataclass(frozen=True)
class Inputs:
    """How a clip becomes what the encoders see. Saved in every checkpoint, so no later command asks for it.

    >>> Inputs().frames, Inputs.paper().frames
    (276, 300)
    """

    image_size: int = 224
    """Side of the square picture the model sees."""
    resize: int = 246
    """Shorter side before the random crop in training (published code 246, paper 256)."""
    flip: bool = True
    """Mirror half of the training pictures."""
    rate: int = 22050
    """Audio samples per second; everything is resampled to it."""
    seconds: float = 3.0
    """Length of the sound around the frame."""
    window: int = 512
    """Spectrogram window in samples; gives window/2 + 1 frequencies."""
    hop: int = 238
    """Samples between spectrogram columns (published code 238, paper about 10 ms = 219)."""

    def __post_init__(self) -> None:
        need(self.image_size >= 16, "image_size of at least 16", self.image_size)
        need(self.resize >= self.image_size, f"resize of at least image_size ({self.image_size})", self.resize)
        need(self.rate >= 1000, "rate of at least 1000 samples per second", self.rate)
        need(0 < self.seconds < math.inf, "a positive number of seconds", self.seconds)
        need(self.window >= 16 and self.window % 2 == 0, "an even window of at least 16 samples", self.window)
        check_most(self, image_size=1024, resize=4096, rate=768_000, seconds=3600, window=8192)
        need(1 <= self.hop <= self.window, f"hop between 1 and window ({self.window})", self.hop)
        need(self.samples >= self.window, f"seconds long enough for one window ({self.window} samples)", self.samples)
        need(self.bins * self.frames <= MOST_CELLS, f"a spectrogram of at most {MOST_CELLS} values",
             f"{self.bins} x {self.frames}", "Use fewer seconds, or a longer hop.")  # fmt: skip

    @classmethod
    def official(cls) -> Inputs:
        """The published code: shorter side 246, 257x276 spectrogram."""
        return cls()

    @classmethod
    def paper(cls) -> Inputs:
        """The paper's text: shorter side 256, 257x300 spectrogram (23 ms windows every 9.9 ms)."""
        return cls(resize=256, hop=219)

    @property
    def samples(self) -> int:
        return round(self.rate * self.seconds)

    @property
    def bins(self) -> int:
        return self.window // 2 + 1

    @property
    def frames(self) -> int:
        return (self.samples - self.window) // self.hop + 1


@dataclass(frozen=True)
class Optim:
    """How training goes: schedule, precision, and when to look. The defaults are those of SLAVC's published code."""

    epochs: int = 20
    batch_size: int = 128
    """Clips per step over all processes together."""
    optimizer: Literal["adam", "adamw", "sgd"] = "adam"
    """Adam adds weight decay to the gradient, AdamW shrinks the weights directly; SGD has momentum 0.9."""
    lr: float = 1e-4
    weight_decay: float = 0.0
    """Published code 0, paper 1e-4."""
    schedule: Literal["constant", "cosine"] = "constant"
    warmup_steps: int = 0
    clip_norm: float = 0.0
    """Largest gradient norm; 0 leaves gradients alone."""
    precision: Literal["fp32", "bf16"] = "fp32"
    compile: bool = False
    """Compile the encoders in place; the first epoch then begins a minute later."""
    graph: bool = False
    """On one GPU, launch each step at once as a graph of kernels, for methods whose steps are all alike."""
    seed: int = 0
    workers: int | None = None
    """Processes that read clips; 0 reads in the training process. By default 0 on a CPU, and one a core on a GPU, at
    most 12."""
    val_every: int = 1
    """Epochs between validations; 0 validates only at the end."""
    keep: Literal["last", "best", "both"] = "last"
    """Which epoch's weights the run ends with: the last, the best AP on the validation set (early stopping), or both:
    the last, and the best beside it in best.safetensors."""
    deterministic: bool = False
    """Use only repeatable kernels on the GPU, where some fast ones are not; CPU runs always repeat bit for bit."""
    save_every: int = 500
    """Steps between saved states; the end of an epoch is saved as well."""
    save_epochs: int = 1
    """Epochs between states saved at their end; the last is always saved. Short epochs may take longer to save than to
    train."""
    sampler: str = "shuffle"
    """Which clips an epoch trains on, in which order (earsight list samplers)."""
    per_class: int = 0
    """Most clips of one label in a batch, where they are false negatives of each other; 0 leaves it to chance."""
    max_failed: float = 0.05
    """Largest share of clips that may be unreadable before training stops."""

    def __post_init__(self) -> None:
        check_choices(self)
        check_most(self, epochs=MOST_EPOCHS, batch_size=1 << 20, warmup_steps=1 << 40, seed=(1 << 63) - 1,
                   val_every=MOST_EPOCHS, save_every=1 << 40, save_epochs=MOST_EPOCHS, per_class=1 << 20)  # fmt: skip
        need(self.epochs >= 1, "epochs of at least 1", self.epochs)
        need(self.batch_size >= 2, "batch_size of at least 2 (the other clips are the negatives)", self.batch_size)
        need(0 < self.lr < math.inf, "a positive lr", self.lr)
        need(self.warmup_steps >= 0, "warmup_steps of at least 0", self.warmup_steps)
        need(self.seed >= 0, "a seed of at least 0", self.seed)
        need(0 <= self.weight_decay < math.inf, "weight_decay of at least 0", self.weight_decay)
        need(0 <= self.clip_norm < math.inf, "clip_norm of at least 0", self.clip_norm)
        if self.workers is not None:
            need_workers(self.workers)
        need(self.val_every >= 0, "val_every of at least 0", self.val_every)
        need(self.save_every >= 1, "save_every of at least 1", self.save_every)
        need(self.save_epochs >= 1, "save_epochs of at least 1", self.save_epochs)
        need(self.per_class >= 0, "per_class of at least 0", self.per_class)
        need(0 <= self.max_failed <= 1, "max_failed between 0 and 1", self.max_failed)


@dataclass(frozen=True)
class Supervision:
    """Ground truth in training (semi-supervised): a loss on the maps of annotated clips, added to the method's own."""

    weight: float = 0.0
    """Times this is added to the method's loss; 0 trains without ground truth."""
    form: Form = "own"
    """How a map meets its ground truth: squared error of the map scaled to [0, 1], the same "unscaled" (SLAVC's paper,
    where cosines themselves become 0 and 1), "bce" (its published code, here with the gradient that it lacks), or what
    the method itself was published with; squared error where it has none."""
    over: Literal["annotated", "batch"] = "annotated"
    """What the mean runs over: the annotated clips of a batch (papers), or all its clips, of which those without ground
    truth count as 0 (published codes)."""
    share: float = 1.0
    """Share of the annotated clips whose ground truth is used; which ones is a function of their names."""
    ids: str = ""
    """File with one clip's name a line: only these may be annotated."""

    def __post_init__(self) -> None:
        check_choices(self)
        need(0 <= self.weight < math.inf, "a weight of at least 0", self.weight)
        need(0 < self.share <= 1, "a share above 0 and at most 1", self.share)
        chosen = self.share < 1 or bool(self.ids)
        need(self.weight > 0 or not chosen, "a weight above 0 where annotated clips are chosen", self.weight,
             "Add --supervision.weight 1.")  # fmt: skip


def to_json(config: Any) -> dict[str, Any]:
    """A frozen dataclass as plain JSON values."""
    if not dataclasses.is_dataclass(config) or isinstance(config, type):
        raise TypeError(f"Expected a dataclass instance, but got {type(config).__name__}.")
    plain: dict[str, Any] = json.loads(json.dumps(dataclasses.asdict(config)))
    return plain


def from_json(cls: type[T], values: dict[str, Any]) -> T:
    """Build `cls` from plain JSON values; unknown keys and wrong types are refused, missing ones take their default.

    >>> from_json(Inputs, {"rate": 16000}).rate
    16000
    """
    if not dataclasses.is_dataclass(cls):
        raise TypeError(f"Expected a dataclass, but got {cls!r}.")
    need(isinstance(values, dict), f"settings of {cls.__name__} by name", repr(values))
    hints = typing.get_type_hints(cls)
    names = [f.name for f in dataclasses.fields(cls)]
    unknown = sorted(set(values) - set(names))
    need(not unknown, f"settings of {cls.__name__} ({', '.join(names)})", f"unknown {', '.join(unknown)}")
    return cls(**{name: _plain_to(hints[name], value, f"{cls.__name__}.{name}") for name, value in values.items()})


def _plain_to(hint: Any, value: Any, name: str) -> Any:
    """A plain value as its setting's type: dataclasses, tuples and floats come out of JSON as something else."""
    if dataclasses.is_dataclass(hint) and isinstance(hint, type):
        return from_json(hint, value)
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        if value is None and type(None) in args:
            return None
        others = [a for a in args if a is not type(None)]
        return _plain_to(others[0], value, name) if len(others) == 1 else value
    if origin is tuple:
        need(isinstance(value, list | tuple), f"a list for {name}", repr(value))
        each = [args[0]] * len(value) if args[1:] == (...,) else list(args)
        need(len(each) == len(value), f"{len(each)} values for {name}", len(value))
        return tuple(_plain_to(a, v, name) for a, v in zip(each, value, strict=True))
    if origin is dict:
        need(isinstance(value, dict), f"values by name for {name}", repr(value))
        return {key: _plain_to(args[1], one, name) for key, one in value.items()}
    if hint is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if hint in (bool, int, float, str):
        # bool is a kind of int in Python, and "image_size": true would pass for 1.
        need(type(value) is hint, f"{hint.__name__} for {name}", repr(value))
    return value
