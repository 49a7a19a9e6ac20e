"""The front end as layers that every ONNX runtime has and runs fast: the spectrogram is one convolution."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn.functional import conv1d

from earsight.config import Inputs
from earsight.encoders.frontend import SILENCE, Spectrogram, density_window, tukey


def dft_kernels(inputs: Inputs) -> Tensor:
    """Real and imaginary parts of a density's Fourier transform as filters, float32 (2 F, 1, window).

    A window loses its mean, is tapered and transformed, and its first and last bin count half: all of that is linear,
    and so is one matrix. A convolution with it needs a hundredth of a ResNet's work, and unlike ONNX's own Fourier
    transform it is fast in every runtime.

    >>> tuple(dft_kernels(Inputs()).shape)
    (514, 1, 512)
    """
    length = inputs.window
    window = density_window(tukey(length), inputs.rate).double()
    at = torch.arange(length, dtype=torch.float64)
    turns = torch.outer(torch.arange(inputs.bins, dtype=torch.float64), at) % length  # exact for sines of large angles
    angles = 2 * math.pi * turns / length
    parts = torch.stack([torch.cos(angles), -torch.sin(angles)]) * window
    parts = parts - parts.mean(-1, keepdim=True)
    parts[:, :: length // 2] *= 0.5**0.5
    return parts.flatten(0, 1).unsqueeze(1).float()


class ExportSpectrogram(Spectrogram):
    """Gives what the usual one gives, up to rounding."""

    kernels: Tensor

    def __init__(self, inputs: Inputs) -> None:
        super().__init__(inputs)
        self.register_buffer("kernels", dft_kernels(inputs), persistent=False)

    def forward(self, waveforms: Tensor) -> Tensor:
        heard = waveforms.float().clamp(-1.0, 1.0).unsqueeze(1)
        real, imaginary = conv1d(heard, self.kernels, stride=self.inputs.hop).square().chunk(2, 1)
        return ((real + imaginary + SILENCE).log() / 12).unsqueeze(1)


def replace_spectrograms(model: nn.Module) -> None:
    """Put convolutions in the place of a model's spectrograms."""
    for module in list(model.modules()):
        for name, child in module.named_children():
            if type(child) is Spectrogram:
                setattr(module, name, ExportSpectrogram(child.inputs))
