"""JPEG files decoded many at a time, on the device that wants them."""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import torch
from torch import Tensor

from earsight.data.jpeg import decode_jpeg
from earsight.data.nvjpeg import Decoder
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
    """The pictures of all files, on `device`. A file that its decoder refuses spoils no other and changes no other."""
    if not files:
        return []
    try:
        return _decode(files, device)
    except RuntimeError:
        pass  # which does not say whose file it was
    found, rescued = [], 0
    for file in files:  # by the same decoder as before, so that pixels stay the same
        try:
            found += _decode([file], device)
        except RuntimeError as error:
            found.append(_decode_on_cpu(file, device, str(error)))
            rescued += not found[-1].failed
    if rescued == len(files) > 1:
        raise DataError(
            f"Expected a decoder for JPEG pictures on {device}, but it read none of {len(files)} that a CPU reads. "
            "Train on a GPU with nvJPEG and enough free memory, or from files instead of a pack."
        )
    return found


def _decode(files: list[File], device: torch.device) -> list[Found]:
    data = [file.data for file in files]
    engines = engines_of(device) if device.type == "cuda" else None
    if engines is not None:
        seen = engines.decode(data, [(file.height, file.width) for file in files])
        return [
            _decode_on_cpu(file, device) if picture is None else Found(picture)
            for picture, file in zip(seen, files, strict=True)
        ]
    if device.type != "cuda":
        return [_decode_on_cpu(file, device) for file in files]
    pictures = _decode_by_torchvision(data, device)
    return [_checked(picture, file) for picture, file in zip(pictures, files, strict=True)]


def _decode_by_torchvision(data: list[Tensor], device: torch.device) -> list[Tensor]:
    from torchvision.io import ImageReadMode
    from torchvision.io import decode_jpeg as decode_on_gpu

    # NOTE: torchvision takes memory of the current stream and writes there from another one, which does not wait for
    # it: work that is queued on the current one may still be reading. So the current one is one without other work.
    wanting, own = torch.cuda.current_stream(device), _decoding(device)
    with torch.cuda.stream(own):
        pictures = list(decode_on_gpu(data, mode=ImageReadMode.RGB, device=device))
    wanting.wait_stream(own)
    for picture in pictures:
        picture.record_stream(wanting)
    return pictures


@cache
def _decoding(device: torch.device) -> torch.cuda.Stream:
    return torch.cuda.Stream(device)  # type: ignore[no-untyped-call]


@cache
def engines_of(device: torch.device) -> Decoder | None:
    """The decoder of a GPU that has engines for JPEG; on others torchvision decodes, more slowly."""
    try:
        return Decoder(device)
    except RuntimeError:
        return None


def _decode_on_cpu(file: File, device: torch.device, reason: str = "") -> Found:
    """What the device's decoder cannot read, for a `reason`, the CPU's may."""
    try:
        picture = torch.from_numpy(decode_jpeg(file.data.numpy()))
    except ValueError as error:
        reason = ((reason or str(error)).splitlines() or ["unknown"])[0][:200]
        return Found(_black(file, device), f"has a JPEG picture that cannot be decoded ({reason})")
    return _checked(picture.to(device, memory_format=torch.contiguous_format), file)


def _checked(picture: Tensor, file: File) -> Found:
    wanted = (3, file.height, file.width)
    if picture.shape != wanted:
        return Found(_black(file, picture.device), f"has a picture of {tuple(picture.shape)} instead of {wanted}")
    return Found(picture)


def _black(file: File, device: torch.device) -> Tensor:
    return torch.zeros((3, file.height, file.width), dtype=torch.uint8, device=device)
