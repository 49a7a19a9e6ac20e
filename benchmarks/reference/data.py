"""A clip is a JPEG file and a WAV file of the same name; both are opened, changed and stacked one sample at a time."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import scipy.io.wavfile
import torch
from PIL import Image
from torch import Tensor
from torch.utils.data import Dataset

from benchmarks.reference.spectrogram import spectrogram
from earsight.config import Inputs

F32 = npt.NDArray[np.float32]
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


class Clips(Dataset[tuple[Tensor, Tensor]]):
    """The clips of a folder with frames/NAME.jpg and audio/NAME.wav, as float tensors.

    Args:
        folder: where they lie.
        names: which clips, in their order.
        inputs: sizes and rates; nothing but the numbers is taken from it.
        train: crop and mirror at random; else the whole picture is squeezed into a square.
    """

    def __init__(self, folder: Path, names: Sequence[str], inputs: Inputs, *, train: bool) -> None:
        self.folder, self.names, self.inputs, self.train = folder, tuple(names), inputs, train

    def __len__(self) -> int:
        return len(self.names)

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        """Picture (3, S, S) and spectrogram (1, F, T)."""
        name = self.names[index]
        picture = Image.open(self.folder / "frames" / f"{name}.jpg").convert("RGB")
        side = self.inputs.image_size
        picture = cropped(picture, self.inputs.resize, side) if self.train else squeezed(picture, side)
        wave = read_wave(self.folder / "audio" / f"{name}.wav", self.inputs)
        return to_tensor(picture), heard(wave, self.inputs)


def cropped(picture: Image.Image, shorter: int, side: int) -> Image.Image:
    """The shorter side made `shorter` pixels long, a random square cut out, mirrored half of the time."""
    width, height = picture.size
    scale = shorter / min(width, height)
    width, height = max(shorter, round(width * scale)), max(shorter, round(height * scale))
    picture = picture.resize((width, height), Image.Resampling.BICUBIC)
    left, top = random.randint(0, width - side), random.randint(0, height - side)
    picture = picture.crop((left, top, left + side, top + side))
    return picture.transpose(Image.Transpose.FLIP_LEFT_RIGHT) if random.random() < 0.5 else picture


def squeezed(picture: Image.Image, side: int) -> Image.Image:
    return picture.resize((side, side), Image.Resampling.BICUBIC)


def to_tensor(picture: Image.Image) -> Tensor:
    """Float (3, S, S), normalised by ImageNet's colours."""
    values = torch.from_numpy(np.array(picture)).permute(2, 0, 1).contiguous().float().div(255)
    return (values - torch.tensor(MEAN)[:, None, None]) / torch.tensor(STD)[:, None, None]


def read_wave(path: Path, inputs: Inputs) -> F32:
    """The middle of a sound file, or the sound repeated when it is too short."""
    rate, samples = scipy.io.wavfile.read(path)
    if rate != inputs.rate:
        raise ValueError(f"Expected {path} at {inputs.rate} samples per second, but got {rate}. Resample it first.")
    return fitted(samples.astype(np.float32) / 32768, inputs.samples)


def fitted(wave: F32, samples: int) -> F32:
    if len(wave) < samples:
        wave = np.tile(wave, samples // len(wave) + 1)[:samples]
    start = (len(wave) - samples) // 2
    return np.clip(wave[start : start + samples], -1, 1)


def heard(wave: F32, inputs: Inputs) -> Tensor:
    """The spectrogram as a tensor (1, F, T)."""
    return torch.from_numpy(spectrogram(wave, inputs.rate, inputs.window, inputs.hop))[None]
