"""A training step of SLAVC on a batch that is on the device already: ours against the recipe as published.

Ours begins with uint8 pictures and waveforms, and so computes the spectrogram too; the reference is given floats and
spectrograms, which its data loader makes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch

from benchmarks.measure import How, Result, compare
from benchmarks.reference import training
from earsight.config import Inputs, Optim, Supervision
from earsight.encoders.base import Encoders
from earsight.encoders.frontend import Pixels, Spectrogram
from earsight.methods import slavc
from earsight.recipes.toybox import INPUTS as SMALL_INPUTS
from earsight.training.step import Stepper, make_optimizer, prepared, wrap
from earsight.types import Batch


@dataclass(frozen=True)
class Settings:
    """What both sides train: ResNet-18 pair as in the paper, or a small pair that a CPU can train."""

    small: bool
    batch: int
    inputs: Inputs
    dim: int
    optim: Optim
    """Of ours; the reference has no choice."""

    @classmethod
    def of(cls, how: How) -> Settings:
        if how.gpu:
            return cls(False, 128, Inputs(), 512, Optim(precision="bf16", compile=True, graph=True))
        return cls(True, 32, SMALL_INPUTS, 128, Optim())

    @property
    def encoders(self) -> Encoders:
        return Encoders(*2 * ("small" if self.small else "resnet18",), weights="random")


def synthetic(device: str, settings: Settings) -> Batch:
    """A batch of noise."""
    random = torch.Generator().manual_seed(0)
    side, count = settings.inputs.image_size, settings.batch
    frames = torch.randint(0, 256, (count, 3, side, side), dtype=torch.uint8, generator=random)
    waves = torch.rand(count, settings.inputs.samples, generator=random) - 0.5
    return Batch(frames, waves, torch.arange(count)).to(device)


def ours_step(device: str, batch: Batch, settings: Settings) -> Callable[[], object]:
    """What the trainer does in a step."""
    where = torch.device(device)
    config = slavc.Config(encoders=settings.encoders, dim=settings.dim)
    model = prepared(slavc.Model(config, settings.inputs), settings.optim, where)
    optimizer = make_optimizer(model.groups(), settings.optim, settings.optim.lr)
    take = Stepper(wrap(model, Supervision()), model, optimizer, settings.optim, where, settings.batch)
    model.train()
    return lambda: take(batch, settings.optim.lr)


def reference_step(device: str, batch: Batch, settings: Settings) -> Callable[[], object]:
    """The same by the published recipe."""
    pair = training.small_pair() if settings.small else training.resnet18_pair()
    model = training.Slavc(pair, settings.dim).to(device)
    optimizer = training.make_optimizer(model)
    image = Pixels().to(device)(batch.frames)
    audio = Spectrogram(settings.inputs).to(device)(batch.waveforms)
    model.train()

    def step() -> None:
        with training.torch_defaults():
            training.step(model, optimizer, image, audio)

    return step


def run(how: How) -> Result:
    settings = Settings.of(how)
    batch = synthetic(how.device, settings)
    ours = ours_step(how.device, batch, settings)
    reference = reference_step(how.device, batch, settings)
    steps = how.count(20, 10) if how.gpu else how.count(3, 1)

    def several(step: Callable[[], object]) -> Callable[[], None]:
        def work() -> None:
            for _ in range(steps):
                step()

        return work

    seconds = compare(several(ours), several(reference), rounds=how.count(5, 2), device=how.device)
    pair = "small encoders" if settings.small else "ResNet-18 pair"
    extra = {"peak GPU memory, both (GiB)": torch.cuda.max_memory_allocated() / 2**30} if how.gpu else {}
    return Result(
        "train_step",
        f"SLAVC, {pair}, batches of {settings.batch}, without data",
        "the trainer's step with --optim.precision bf16 --optim.compile --optim.graph"
        if how.gpu
        else "the trainer's step",
        "fp32 with TF32 convolutions, parameter by parameter" if how.gpu else "fp32, parameter by parameter",
        steps * settings.batch,
        "clips",
        *seconds,
        extra,
    )
