"""JPEG files decoded many at a time, on the device that wants them."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor
from torchvision.io import ImageReadMode, decode_jpeg


class File(NamedTuple):
    """A JPEG file and the size that its header says: uint8 (n,)."""

    data: Tensor
    height: int
    width: int


class Found(NamedTuple):
    """A picture uint8 (3, height, width); black where it could not be decoded, and why."""

    picture: Tensor
    failed: str = ""


def decode_files(files: list[File], device: torch.device) -> list[Found]:
    """The pictures of all files, on `device`. A file that cannot be decoded spoils no other."""
    if not files:
        return []
    data = [file.data for file in files]
    try:
        if device.type == "cuda":
            pictures = decode_jpeg(data, mode=ImageReadMode.RGB, device=device)
        else:
            pictures = [decode_jpeg(one, mode=ImageReadMode.RGB) for one in data]
        if all(picture.shape == (3, file.height, file.width) for picture, file in zip(pictures, files, strict=True)):
            return [Found(picture) for picture in pictures]
    except RuntimeError:
        pass  # which does not say whose file it was
    return [_decode_alone(file, device) for file in files]


def _decode_alone(file: File, device: torch.device) -> Found:
    """As the CPU decodes it."""
    black = torch.zeros((3, file.height, file.width), dtype=torch.uint8, device=device)
    try:
        picture = decode_jpeg(file.data, mode=ImageReadMode.RGB)
    except RuntimeError as error:
        return Found(black, f"has a JPEG picture that cannot be decoded ({str(error).splitlines()[0][:200]})")
    if picture.shape != black.shape:
        return Found(black, f"has a picture of {tuple(picture.shape)} instead of {tuple(black.shape)}")
    return Found(picture.to(device, memory_format=torch.contiguous_format))
