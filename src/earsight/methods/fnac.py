"""FNAC: EZ-VSL that asks each modality which negatives are false, and how sources look, before pushing pairs apart.

Sun et al., "Learning Audio-Visual Source Localization via False Negative Aware Contrastive Learning", CVPR 2023. Clips
that sound alike, or look alike, should match each other's partners alike (false negatives are suppressed), and the
places found to sound should look as alike as the sounds sound (true negatives are enhanced).
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import l1_loss, normalize

from earsight import distributed
from earsight.config import MOST_CELLS, MOST_EPOCHS, Inputs, Optim, check_most, need
from earsight.encoders.base import global_max_pool
from earsight.losses import all_pairs, paired, pool
from earsight.methods import ezvsl
from earsight.methods.base import Context, Features, Preset
from earsight.types import Batch, Step


@dataclass(frozen=True)
class Config(ezvsl.Config):
    """Settings of FNAC: EZ-VSL's, and the published code's terms, except that masks reach the whole spectrogram."""

    visual_dropout: float = 0.9
    """Share of picture features dropped in training."""
    audio_dropout: float = 0.0
    """Share of sound features dropped in training."""
    suppress_by_sound: float = 100.0
    """Weight of pairs matching as alike as the sounds are."""
    enhance: float = 100.0
    """Weight of sounding places being as alike as the sounds are."""
    suppress_by_picture: float = 100.0
    """Weight of pairs matching as alike as the pictures are."""
    sounding: float = 0.6
    """From which value of the min-max scaled map a place counts as sounding."""
    warmup: int = 5
    """Epochs that train EZ-VSL's loss alone (scripts 5, default of the code 3)."""
    mask_width: int = 10
    """A band of frequencies and one of time, each narrower than this, are set to 0 in training; 0 for none."""
    swap_mask_ranges: bool = False
    """Draw where a frequency mask starts from the times and a time mask from the frequencies (published code)."""

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("visual_dropout", "audio_dropout"):
            need(0 <= getattr(self, name) < 1, f"{name} in [0, 1)", getattr(self, name))
        for name in ("suppress_by_sound", "enhance", "suppress_by_picture", "warmup", "mask_width"):
            need(getattr(self, name) >= 0, f"{name} of at least 0", getattr(self, name))
        check_most(self, warmup=MOST_EPOCHS, mask_width=MOST_CELLS)
        need(0 <= self.sounding < 1, "sounding in [0, 1)", self.sounding)


class Model(ezvsl.Model):
    config: Config
    epoch: Tensor

    def __init__(self, config: Config, inputs: Inputs) -> None:
        super().__init__(config, inputs)
        self.register_buffer("epoch", torch.tensor(0))  # saved with the weights, so that a resumed run knows

    def training_features(self, batch: Batch, counts: list[int]) -> tuple[Features, Features]:
        if not self.training:
            return super().training_features(batch, counts)
        c = self.config
        spectrogram = masked(self.audio.preprocess(batch.waveforms), c.mask_width, counts, c.swap_mask_ranges)
        image = distributed.dropout(self.encode_images(batch.frames), c.visual_dropout, counts)
        audio = distributed.dropout(global_max_pool(self.audio(spectrogram)), c.audio_dropout, counts)
        return self.project_image(image), {"sound": self.audio_proj(audio)}

    def step(self, image: Tensor, audio: Tensor) -> Step:
        c = self.config
        scores = pool(all_pairs(image, audio), "max") / c.temperature
        base = ezvsl.both_ways(scores)
        with torch.autocast(image.device.type, enabled=False):  # as for cosines: the temperature is small
            places, sounds = normalize(image.float(), dim=1), normalize(audio.float(), dim=1)
            # Means of unit features are not unit features, and are not made such again.
            pictures = places.mean((2, 3))
            sources = (places * is_sounding(paired(image, audio) / c.temperature, c.sounding)[:, None]).mean((2, 3))
            heard, seen, found = (x @ x.T / c.temperature for x in (sounds, pictures, sources))
        terms = {
            "loss_by_sound": differ(heard, scores),
            "loss_enhance": differ(heard, found),
            "loss_by_picture": differ(seen, scores),
        }
        weights = (c.suppress_by_sound, c.enhance, c.suppress_by_picture)
        extra = sum((w * term for w, term in zip(weights, terms.values(), strict=True)), torch.zeros_like(base.loss))
        # A product rather than a question, because asking a GPU makes it wait.
        loss = base.loss + (self.epoch >= c.warmup) * extra
        return Step(loss, {**base.logs, **{name: term.detach() for name, term in terms.items()}})

    def on_epoch(self, context: Context) -> None:
        self.epoch.fill_(context.epoch + 1)


def differ(one: Tensor, other: Tensor) -> Tensor:
    """Mean absolute difference of the row softmaxes of two (N, N) scores. Gradients flow to both.

    >>> round(float(differ(torch.eye(2), torch.eye(2)))), round(float(differ(torch.eye(2), torch.zeros(2, 2))), 6)
    (0, 0.231059)
    """
    return l1_loss(one.softmax(1), other.softmax(1))


def is_sounding(maps: Tensor, level: float) -> Tensor:
    """Where maps (N, h, w), each scaled to [0, 1] by its own least and largest value, are above `level`."""
    low, high = maps.amin((1, 2), keepdim=True), maps.amax((1, 2), keepdim=True)
    return (maps - low) / (high - low + 1e-5) > level


def masked(sound: Tensor, width: int, counts: list[int], swapped: bool) -> Tensor:
    """Spectrograms (B, 1, F, T) with one random band of frequencies and one of time set to 0, narrower than `width`.

    Bands are drawn for the clips of all processes; each uses those of its own.
    """
    if width == 0:
        return sound
    first = sum(counts[: distributed.rank()])
    for axis in (2, 3):
        # NOTE: the published code mixes up the axes here, so that some masks fall outside and some parts stay clear.
        starts = sound.shape[5 - axis if swapped else axis]
        drawn = torch.rand(2, sum(counts), 1, device=sound.device)[:, first : first + len(sound)]
        start, length = (drawn[0] * starts).floor(), (drawn[1] * width).floor()
        at = torch.arange(sound.shape[axis], device=sound.device)
        band = (at >= start) & (at < start + length)
        sound = sound.masked_fill(band[:, None, :, None] if axis == 2 else band[:, None, None, :], 0.0)
    return sound


def official() -> Preset:
    """The published code (OpenNLPLab/FNAC_AVL) with its scripts' settings."""
    optim = Optim(epochs=30, batch_size=256, weight_decay=1e-4)
    return Preset(Config(swap_mask_ranges=True), Inputs.official(), optim, "official")


PRESETS = {"official": official}
