"""From uint8 pictures and waveforms to what the encoders see, batched, on whatever device they lie."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from earsight.config import Inputs

IMAGENET_MEAN = (0.485, 0.456, 0.406)
IMAGENET_STD = (0.229, 0.224, 0.225)
SILENCE = 1e-7
"""Added to every density, so that the logarithm of silence is finite."""
WINDOWS_TOGETHER = 1200
"""Spectrogram columns that a thread computes at once on a CPU: few enough to stay near its cache, and in memory that is
used again instead of asked anew from the system, which for a whole batch costs more than the arithmetic; enough to
make the calls cheap."""


def tukey(length: int, taper: float = 0.25) -> Tensor:
    """Periodic Tukey window, float64 (length,): cosine slopes over `taper` of it, flat between.

    >>> round(float((tukey(512) ** 2).sum()), 6)
    432.0
    """
    at = torch.arange(length, dtype=torch.float64)
    edge = taper * length / 2
    rise = 0.5 * (1 - torch.cos(torch.pi * at / edge))
    fall = 0.5 * (1 - torch.cos(torch.pi * (length - at) / edge))
    return torch.where(at < edge, rise, torch.where(at > length - edge, fall, torch.ones_like(at)))


def density_window(window: Tensor, rate: int) -> Tensor:
    """The window times what makes |FFT|^2 of a windowed piece its one-sided density: sqrt(2 / (rate * sum w^2))."""
    exact = window.double()
    return (exact * (2 / (rate * exact.square().sum())).sqrt()).float()


def log_spectrogram(waveforms: Tensor, window: Tensor, hop: int, rate: int) -> Tensor:
    """Log power spectral density, (B, N) -> (B, 1, F, T), divided by 12 as the published code does.

    Each window loses its mean, the one-sided density is |FFT|^2 / (rate * sum w^2) with the inner bins doubled, and the
    logarithm is taken of density + 1e-7, so silence stays finite: ln(1e-7) / 12 = -1.3432.

    >>> out = log_spectrogram(torch.zeros(1, 1000), tukey(512).float(), 238, 22050)
    >>> tuple(out.shape), round(float(out.max()), 4)
    ((1, 1, 257, 3), -1.3432)
    """
    return _log_densities(waveforms, density_window(window, rate), hop, torch.inf)


def _log_densities(waveforms: Tensor, window: Tensor, hop: int, limit: float) -> Tensor:
    """The log spectrogram of sound cut off at +-limit, with a `density_window`."""
    length = window.shape[0]
    frames = (waveforms.shape[-1] - length) // hop + 1
    traced = torch.compiler.is_compiling() or torch.jit.is_tracing()  # type: ignore[attr-defined, no-untyped-call]
    if traced or waveforms.device.type != "cpu" or waveforms.requires_grad:
        out = _log_density(waveforms, window, hop, limit)
    else:
        together = max(1, WINDOWS_TOGETHER * min(torch.get_num_threads(), 8) // max(1, frames))
        out = torch.empty(len(waveforms), frames, length // 2 + 1)
        for part, place in zip(torch.split(waveforms, together), torch.split(out, together), strict=True):
            _log_density(part, window, hop, limit, place)
    return out.transpose(-1, -2).unsqueeze(1)


def _log_density(waveforms: Tensor, window: Tensor, hop: int, limit: float, place: Tensor | None = None) -> Tensor:
    """(B, N) -> (B, T, F), written into `place` where one is given. Every step is one pass over the numbers."""
    length = window.shape[0]
    pieces = waveforms.float().clamp(-limit, limit).unfold(-1, length, hop)
    pieces = torch.sub(pieces, pieces.sum(-1, keepdim=True), alpha=1 / length).mul_(window)
    parts = torch.view_as_real(torch.fft.rfft(pieces))
    # The window doubles every bin's density, and the first and the last have no twin among the negative frequencies.
    parts[..., :: length // 2, :].mul_(0.5**0.5)
    # Half of what keeps silence finite comes with the real part, half with the imaginary one.
    parts = torch.addcmul(window.new_full((), SILENCE / 2), parts, parts)
    return torch.add(parts[..., 0], parts[..., 1], out=place).log2_().mul_(math.log(2) / 12)


class Pixels(nn.Module):
    """uint8 pictures (B, 3, S, S) -> float32, normalised by ImageNet's mean and deviation."""

    mean: Tensor
    std: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("mean", torch.tensor(IMAGENET_MEAN).view(1, 3, 1, 1) * 255, persistent=False)
        self.register_buffer("std", torch.tensor(IMAGENET_STD).view(1, 3, 1, 1) * 255, persistent=False)

    def forward(self, pictures: Tensor) -> Tensor:
        return (pictures.float() - self.mean) / self.std


class Spectrogram(nn.Module):
    """Sounds float32 (B, N), cut off at full scale -> log spectrogram (B, 1, F, T)."""

    window: Tensor
    """float32 (inputs.window,), scaled: see `density_window`."""

    def __init__(self, inputs: Inputs) -> None:
        super().__init__()
        self.inputs = inputs
        self.register_buffer("window", density_window(tukey(inputs.window), inputs.rate), persistent=False)

    def forward(self, waveforms: Tensor) -> Tensor:
        return _log_densities(waveforms, self.window, self.inputs.hop, 1.0)
