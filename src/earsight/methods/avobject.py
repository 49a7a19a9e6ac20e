"""AVObject (ours, still frames): a picture finds its own sound among others by its best place, with a learned scale.

After Afouras et al., "Self-Supervised Learning of Audio-Visual Objects from Video", ECCV 2020, which synchronises video
with sound: a clip's own sound must match better than the same sound shifted in time. Its training code was never
published and it needs continuous video and optical flow. This still-frame form, which keeps its heads, its learned
scale and its one-sided loss, is ours: its numbers are not the paper's. Shifted sounds are a setting.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from earsight import distributed
from earsight.config import Inputs, Optim, check_choices, check_most, need
from earsight.losses import pool
from earsight.methods.base import Group, Method, Preset
from earsight.models.encoders import Encoders, make_encoders
from earsight.models.similarity import all_pairs, paired
from earsight.types import Batch, Maps, Step

LEAST, MOST = 0.01, 100.0
"""Where the learned scale is kept: below 0 it would prefer the worst match."""


def _encoders() -> Encoders:
    return Encoders(layer4_stride=1)


@dataclass(frozen=True)
class Config:
    """Settings of the still-frame form of AVObject, which is ours, on the ResNet-18 pair of all methods."""

    encoders: Encoders = field(default_factory=_encoders)
    """Which networks see and hear."""
    dim: int = 512
    """Size of the projected features; the original has 1024."""
    scale: float = 1.0
    """What the learned scale of the cosines starts from."""
    scale_lr: float = 0.01
    """Learning rate of the scale; 0 for what the training settings say, with which it would hardly move."""
    shifts: int = 0
    """Windows of each clip's own sound, half of them before its frame and half after, that are negatives too."""
    shift_seconds: float = 3.0
    """Seconds from one of these windows to the next; the original has 30 shifts of one video frame, 0.04."""

    def __post_init__(self) -> None:
        check_choices(self)
        need(self.dim >= 1, "dim of at least 1", self.dim)
        check_most(self, dim=4096, shifts=1000, shift_seconds=60)
        need(LEAST <= self.scale <= MOST, f"scale between {LEAST} and {MOST}", self.scale)
        need(self.scale_lr >= 0, "a positive scale_lr, or 0", self.scale_lr)
        need(
            self.shifts >= 0 and self.shifts % 2 == 0, "an even number of shifts, as many before as after", self.shifts
        )
        need(self.shift_seconds > 0, "positive shift_seconds", self.shift_seconds)


def find_sound(pairs: Tensor, shifted: Tensor | None = None) -> Tensor:
    """Cross-entropy of each picture's own sound among all sounds (N, N) and its own sound's shifts (N, S).

    Rows only: no sound looks for its picture.

    >>> round(float(find_sound(torch.tensor([[1.0, 0.0], [0.5, 1.0]]))), 5)
    0.39367
    >>> round(float(find_sound(torch.tensor([[0.75]]), torch.tensor([[0.25]]))), 5)
    0.47408
    """
    candidates = pairs if shifted is None else torch.cat([pairs, shifted], 1)
    return cross_entropy(candidates, torch.arange(len(pairs), device=pairs.device))


def log_places(scores: Tensor) -> Tensor:
    """Log-softmax over the places of (B, h, w), which is the map that the paper draws.

    >>> [round(x, 5) for x in log_places(torch.tensor([[[1.0, 0.0]]])).flatten().tolist()]
    [-0.31326, -1.31326]
    """
    return torch.log_softmax(scores.flatten(1), 1).view_as(scores)


class Model(Method):
    steady = True

    @property
    def remark(self) -> str:
        return "ours, not the paper's"

    def __init__(self, config: Config, inputs: Inputs) -> None:
        super().__init__(inputs)
        self.config = config
        self.image, self.audio, channels = make_encoders(config.encoders)
        self.image_head = nn.Sequential(
            nn.Conv2d(channels, channels, 1, bias=False),
            nn.BatchNorm2d(channels),
            nn.ReLU(),
            nn.Conv2d(channels, config.dim, 1),
        )
        self.audio_head = nn.Sequential(
            nn.Linear(channels, channels, bias=False),
            nn.BatchNorm1d(channels),
            nn.ReLU(),
            nn.Linear(channels, config.dim),
        )
        self.scale = nn.Parameter(torch.tensor(config.scale))
        self.stride = round(config.shift_seconds * inputs.rate)
        need(self.stride >= 1, f"shift_seconds of at least one sample, 1/{inputs.rate}", config.shift_seconds)

    @property
    def training_seconds(self) -> float:
        return (self.inputs.samples + self.config.shifts * self.stride) / self.inputs.rate

    def see(self, frames: Tensor) -> Tensor:
        """Places (B, dim, h, w)."""
        places: Tensor = self.image_head(self.image(self.front.image(frames)))
        return places

    def hear(self, waveforms: Tensor) -> Tensor:
        """Sounds (B, dim)."""
        sounds: Tensor = self.audio_head(self.audio(self.front.sound(waveforms)))
        return sounds

    def windows(self, waveforms: Tensor) -> Tensor:
        """Long sounds (B, L) as the windows that the model hears, (B, shifts + 1, N); the middle one is the frame's.

        NOTE: where a clip ends less than half of L from its frame, a window beyond that end has sound of the other one.
        """
        return waveforms.unfold(1, self.inputs.samples, self.stride)

    def forward(self, batch: Batch) -> Step:
        counts = distributed.sizes(len(batch))
        windows = self.windows(batch.waveforms)
        heard = self.hear(windows.flatten(0, 1)).view(*windows.shape[:2], -1)
        image, sound = self.see(batch.frames), heard[:, self.config.shifts // 2]
        pairs = pool(all_pairs(distributed.gather(image, counts), distributed.gather(sound, counts)), "max")
        logs = {"scale": self.scale.detach(), "own": pairs.diagonal().mean().detach()}
        shifted = None
        if self.config.shifts:
            others = [i for i in range(self.config.shifts + 1) if i != self.config.shifts // 2]
            mine = torch.stack([paired(image, heard[:, i]).amax((1, 2)) for i in others], 1)
            shifted = distributed.gather(mine, counts)
            logs["shifted"] = shifted.mean().detach()
            shifted = self.scale * shifted
        loss = find_sound(self.scale * pairs, shifted)
        return Step(loss, logs, None if batch.truth is None else self.maps(paired(image, sound)))

    def maps(self, cosine: Tensor) -> Maps:
        """Maps of paired cosines (B, h, w); what gets thresholded is the cosine, in the order of the paper's map."""
        scores = self.scale * cosine
        confidence = scores.amax((1, 2))  # how well the best place matches: the score that was trained
        return Maps(native=log_places(scores), dense=cosine, bounds=(-1.0, 1.0), confidence=confidence)

    def localize(self, frames: Tensor, waveforms: Tensor) -> Maps:
        return self.maps(paired(self.see(frames), self.hear(waveforms)))

    def groups(self) -> list[Group]:
        networks = [p for p in self.parameters() if p.requires_grad and p is not self.scale]
        # Weight decay would pull the scale to 0, where all matches are equal.
        return [Group(networks), Group([self.scale], lr=self.config.scale_lr or None, weight_decay=0.0)]

    def after_step(self) -> None:
        with torch.no_grad():
            self.scale.clamp_(LEAST, MOST)

    def compiled(self) -> list[nn.Module]:
        return [self.image, self.audio]


def ours() -> Preset:
    """The still-frame form in the setting in which the SLAVC paper compares all methods.

    NOTE: this is ours. The paper's form was not run by SLAVC, and its training code is not public.
    """
    return Preset(Config(), Inputs.official(), Optim(), "official")


PRESETS = {"ours": ours}
