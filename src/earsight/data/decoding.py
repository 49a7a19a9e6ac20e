"""JPEG files decoded many at a time, on the device that wants them."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor
from torchvision.io import ImageReadMode, decode_jpeg

from earsight.errors import DataError


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
    """The pictures of all files, on `device`. A file that cannot be decoded spoils no other and changes no other."""
    if not files:
        return []
    try:
        pictures = _decode([file.data for file in files], device)
        return [_checked(picture, file) for picture, file in zip(pictures, files, strict=True)]
    except RuntimeError:
        pass  # which does not say whose file it was
    found, rescued = [], 0
    for file in files:  # by the same decoder as before, so that pixels stay the same
        try:
            found.append(_checked(_decode([file.data], device)[0], file))
        except RuntimeError as error:
            found.append(_decode_on_cpu(file, device, error))
            rescued += not found[-1].failed
    if rescued == len(files) > 1:
        raise DataError(
            f"Expected a decoder for JPEG pictures on {device}, but it read none of {len(files)} that a CPU reads. "
            "Train on a GPU with nvJPEG and enough free memory, or from files instead of a pack."
        )
    return found


def _decode(data: list[Tensor], device: torch.device) -> list[Tensor]:
    if device.type != "cuda":
        return [decode_jpeg(one, mode=ImageReadMode.RGB) for one in data]
    # NOTE: torchvision decodes on a stream of its own that does not wait for this one, into memory that work still
    # queued here may be reading from; so that work is waited for.
    torch.cuda.current_stream(device).synchronize()
    return list(decode_jpeg(data, mode=ImageReadMode.RGB, device=device))


def _decode_on_cpu(file: File, device: torch.device, error: RuntimeError) -> Found:
    """What the device's decoder cannot read, the CPU's may."""
    try:
        picture = decode_jpeg(file.data, mode=ImageReadMode.RGB)
    except RuntimeError:
        reason = str(error).splitlines()[0][:200] if str(error) else "unknown"
        return Found(_black(file, device), f"has a JPEG picture that cannot be decoded ({reason})")
    return _checked(picture.to(device, memory_format=torch.contiguous_format), file)


def _checked(picture: Tensor, file: File) -> Found:
    wanted = (3, file.height, file.width)
    if picture.shape != wanted:
        return Found(_black(file, picture.device), f"has a picture of {tuple(picture.shape)} instead of {wanted}")
    return Found(picture)


def _black(file: File, device: torch.device) -> Tensor:
    return torch.zeros((3, file.height, file.width), dtype=torch.uint8, device=device)
