"""From uint8 pictures and waveforms to what the encoders see, batched, on whatever device they lie."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from earsight.config import Inputs

IMAGENET_MEAN = (0.485, 0.456, 0.406)
IMAGENET_STD = (0.229, 0.224, 0.225)


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


def log_spectrogram(waveforms: Tensor, window: Tensor, hop: int, rate: int) -> Tensor:
    """Log power spectral density, (B, N) -> (B, 1, F, T), divided by 12 as the published code does.

    Each window loses its mean, the one-sided density is |FFT|^2 / (rate * sum w^2) with the inner bins doubled, and the
    logarithm is taken of density + 1e-7, so silence stays finite: ln(1e-7) / 12 = -1.3432.

    >>> out = log_spectrogram(torch.zeros(1, 1000), tukey(512).float(), 238, 22050)
    >>> tuple(out.shape), round(float(out.max()), 4)
    ((1, 1, 257, 3), -1.3432)
    """
    # In place where it can be: on a CPU, fresh memory for each step costs more than the arithmetic.
    pieces = waveforms.float().unfold(-1, window.shape[0], hop)
    pieces = (pieces - pieces.mean(-1, keepdim=True)).mul_(window)
    spectrum = torch.fft.rfft(pieces)
    density = spectrum.real.square().addcmul_(spectrum.imag, spectrum.imag)
    density.mul_(2 / (rate * window.double().square().sum().item()))
    density[..., 0].mul_(0.5)
    density[..., -1].mul_(0.5)
    out: Tensor = density.add_(1e-7).log_().div_(12).transpose(-1, -2).unsqueeze(1)
    return out


class FrontEnd(nn.Module):
    """The part of every model that has nothing to learn: picture normalisation and the spectrogram."""

    window: Tensor
    mean: Tensor
    std: Tensor

    def __init__(self, inputs: Inputs) -> None:
        super().__init__()
        self.inputs = inputs
        self.register_buffer("window", tukey(inputs.window).float(), persistent=False)
        self.register_buffer("mean", torch.tensor(IMAGENET_MEAN).view(1, 3, 1, 1) * 255, persistent=False)
        self.register_buffer("std", torch.tensor(IMAGENET_STD).view(1, 3, 1, 1) * 255, persistent=False)

    def image(self, frames: Tensor) -> Tensor:
        """uint8 (B, 3, S, S) -> normalised float32 (B, 3, S, S)."""
        return (frames.float() - self.mean) / self.std

    def sound(self, waveforms: Tensor) -> Tensor:
        """float32 (B, N) -> log spectrogram (B, 1, F, T)."""
        return log_spectrogram(waveforms.clamp(-1, 1), self.window, self.inputs.hop, self.inputs.rate)
