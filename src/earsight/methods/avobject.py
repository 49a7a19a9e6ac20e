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
from earsight.encoders.base import Encoders, global_max_pool, make_encoders
from earsight.losses import all_pairs, paired, pool
from earsight.methods.base import Features, Group, Preset, TwoTower
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


class Model(TwoTower):
    cuda_graph_safe = True
    note = "ours, not the paper's"

    def __init__(self, config: Config, inputs: Inputs) -> None:
        super().__init__(inputs)
        self.config = config
        self.image, self.audio = make_encoders(config.encoders, inputs)
        wide, narrow = self.image.channels, self.audio.channels
        self.image_head = nn.Sequential(
            nn.Conv2d(wide, wide, 1, bias=False), nn.BatchNorm2d(wide), nn.ReLU(), nn.Conv2d(wide, config.dim, 1)
        )
        self.audio_head = nn.Sequential(
            nn.Linear(narrow, narrow, bias=False), nn.BatchNorm1d(narrow), nn.ReLU(), nn.Linear(narrow, config.dim)
        )
        self.scale = nn.Parameter(torch.tensor(config.scale))
        self.stride = round(config.shift_seconds * inputs.rate)
        need(self.stride >= 1, f"shift_seconds of at least one sample, 1/{inputs.rate}", config.shift_seconds)
        self.training_seconds = (inputs.samples + config.shifts * self.stride) / inputs.rate

    def project_image(self, encoded: Tensor) -> Features:
        return {"places": self.image_head(encoded)}

    def project_audio(self, encoded: Tensor) -> Features:
        return {"sound": self.audio_head(global_max_pool(encoded))}

    def windows(self, waveforms: Tensor) -> Tensor:
        """Long sounds (B, L) as the windows that the model hears, (B, shifts + 1, N); the middle one is the frame's.

        NOTE: where a clip ends less than half of L from its frame, a window beyond that end has sound of the other one.
        """
        return waveforms.unfold(1, self.inputs.samples, self.stride)

    def loss(self, batch: Batch, counts: list[int]) -> Step:
        shifts = self.config.shifts
        windows = self.windows(batch.waveforms)
        sounds = self.embed_sounds(windows.flatten(0, 1))["sound"].view(*windows.shape[:2], -1)
        image, audio = self.embed_images(batch.frames), {"sound": sounds[:, shifts // 2]}
        places, sound = distributed.gather(image["places"], counts), distributed.gather(audio["sound"], counts)
        pairs = pool(all_pairs(places, sound), "max")
        logs = {"scale": self.scale.detach(), "own": pairs.diagonal().mean().detach()}
        shifted = None
        if shifts:
            others = [i for i in range(shifts + 1) if i != shifts // 2]
            mine = torch.stack([paired(image["places"], sounds[:, i]).amax((1, 2)) for i in others], 1)
            shifted = distributed.gather(mine, counts)
            logs["shifted"] = shifted.mean().detach()
            shifted = self.scale * shifted
        loss = find_sound(self.scale * pairs, shifted)
        return Step(loss, logs, None if batch.truth is None else self.compare(image, audio))

    def compare(self, image: Features, audio: Features) -> Maps:
        """What gets thresholded is the cosine, in the order of the paper's map."""
        cosine = paired(image["places"], audio["sound"])
        scores = self.scale * cosine
        confidence = scores.amax((1, 2))  # how well the best place matches: the score that was trained
        return Maps(native=log_places(scores), dense=cosine, bounds=(-1.0, 1.0), confidence=confidence)

    def groups(self) -> list[Group]:
        networks = [p for p in self.parameters() if p.requires_grad and p is not self.scale]
        # Weight decay would pull the scale to 0, where all matches are equal.
        return [Group(networks), Group([self.scale], lr=self.config.scale_lr or None, weight_decay=0.0)]

    def after_step(self) -> None:
        with torch.no_grad():
            self.scale.clamp_(LEAST, MOST)


def ours() -> Preset:
    """The still-frame form in the setting in which the SLAVC paper compares all methods.

    NOTE: this is ours. The paper's form was not run by SLAVC, and its training code is not public.
    """
    return Preset(Config(), Inputs.official(), Optim(), "official")


PRESETS = {"ours": ours}
