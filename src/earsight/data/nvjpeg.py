"""The JPEG engines of a GPU, asked without torchvision between.

Here they spread colours over neighbouring pixels as a CPU's decoder does, so that a picture is the same whoever decodes
it: a level apart at most here and there, where torchvision's way is half a level apart on the mean and up to 33.
"""

from __future__ import annotations

import ctypes
from ctypes import byref, c_int, c_size_t, c_uint, c_void_p
from functools import cache
from importlib import import_module
from threading import Lock
from typing import Any

import numpy as np
import torch
from torch import Tensor

from earsight.device import recording
from earsight.types import I64

# As nvjpeg.h numbers them.
_BY_ENGINES = 3
_SMOOTH_COLOURS = 32
_RGB = 3


class Decoder:
    """Decodes plain JPEG files of three colours, many at once, on a GPU that has engines for it.

    RuntimeError where it has none, or nvJPEG is older than smooth colours.
    """

    def __init__(self, device: torch.device) -> None:
        self._device, self._lock, self._count = device, Lock(), 0
        self._long, self._short = _library()
        self._handle, self._state, self._header = c_void_p(), c_void_p(), c_void_p()
        self._taken: dict[tuple[int, int, int], bool] = {}  # sampling, width and height of pictures
        with torch.cuda.device(device):
            _need(self._long.nvjpegCreateEx(_BY_ENGINES, None, None, _SMOOTH_COLOURS, byref(self._handle)))
            _need(self._long.nvjpegJpegStateCreate(self._handle, byref(self._state)))
            _need(self._long.nvjpegJpegStreamCreate(self._handle, byref(self._header)))

    def decode(self, files: list[Tensor], sizes: list[tuple[int, int]]) -> list[Tensor | None]:
        """Pictures uint8 (3, height, width) of files uint8 (n,) that should have these heights and widths; None for
        those of a kind that engines do not take, such as tiny ones.

        RuntimeError where one of them cannot be decoded, or is not what it should be.
        """
        found: list[Tensor | None] = [None] * len(files)
        with self._lock, torch.cuda.device(self._device):
            at = [i for i, taken in enumerate(self._takes(files, sizes)) if taken]
            if at:
                pictures = self._decoded([files[i] for i in at], [sizes[i] for i in at])
                for i, picture in zip(at, pictures, strict=True):
                    found[i] = picture
        return found

    def _decoded(self, files: list[Tensor], sizes: list[tuple[int, int]]) -> list[Tensor]:
        taken = [3 * height * width for height, width in sizes]
        out = torch.empty(sum(taken), dtype=torch.uint8, device=self._device)
        addresses = np.array([file.data_ptr() for file in files], np.int64)
        lengths = np.array([file.numel() for file in files], np.int64)
        places = places_in(out.data_ptr(), np.array(sizes, np.int64))
        given = addresses.ctypes.data, lengths.ctypes.data, places.ctypes.data
        stream = torch.cuda.current_stream(self._device)
        # NOTE: nvJPEG writes on streams of its own that do not wait for this one. Memory that was given back may still
        # be read by work that is queued here; the memory is ours now, and that work is waited for.
        stream.synchronize()
        if len(files) != self._count:
            self._count = 0
            _need(self._long.nvjpegDecodeBatchedInitialize(self._handle, self._state, len(files), 1, _RGB))
        status = self._long.nvjpegDecodeBatched(self._handle, self._state, *given, stream.cuda_stream)
        stream.synchronize()  # until then pictures are written, and the decoder needs the files and what it keeps
        self._count = 0 if status else len(files)
        if status:
            with recording:
                torch.cuda.synchronize(self._device)  # some may still be written, on streams that nobody waits for now
        _need(status)
        return [one.view(3, *size) for one, size in zip(torch.split(out, taken), sizes, strict=True)]

    def _takes(self, files: list[Tensor], sizes: list[tuple[int, int]]) -> list[bool]:
        """Whether engines take each of these files. What the decoder reads in the headers decides how much it writes,
        and so it is looked at by the decoder itself."""
        # Of each picture: how many colours, how they are sampled, and four widths and four heights.
        said = np.zeros((len(files), 10), np.int32)
        ask, handle, at, step = self._short.nvjpegGetImageInfo, self._handle, said.ctypes.data, said.strides[0]
        for file in files:
            _need(ask(handle, file.data_ptr(), file.numel(), at, at + 4, at + 8, at + 24))
            at += step
        if (said[:, 0] != 3).any() or (said[:, [6, 2]] != np.array(sizes)).any():
            raise RuntimeError("the header of a file tells of another picture")
        kinds = list(map(tuple, said[:, [1, 2, 6]].tolist()))
        for kind, file in dict(zip(kinds, files, strict=True)).items():
            if kind not in self._taken:
                self._taken[kind] = self._takes_kind(file)
        return [self._taken[kind] for kind in kinds]

    def _takes_kind(self, file: Tensor) -> bool:
        no = c_int(1)
        _need(self._long.nvjpegJpegStreamParseHeader(self._handle, file.data_ptr(), file.numel(), self._header))
        _need(self._long.nvjpegDecodeBatchedSupported(self._handle, self._header, byref(no)))
        return no.value == 0


def places_in(address: int, sizes: I64) -> I64:
    """Where pictures of these heights and widths (B, 2) lie one after another, as nvJPEG asks for it: of each, where
    its up to four colours begin, and how many bytes it is from a row to the next in each, int64 (B, 2, 4).

    >>> places_in(1000, np.array([[2, 5], [1, 7]])).tolist()
    [[[1000, 1010, 1020, 0], [5, 5, 5, 0]], [[1030, 1037, 1044, 0], [7, 7, 7, 0]]]
    """
    pixels = sizes.prod(1)
    places = np.zeros((len(sizes), 2, 4), np.int64)
    places[:, 0, :3] = address + 3 * (pixels.cumsum() - pixels)[:, None] + pixels[:, None] * np.arange(3)
    places[:, 1, :3] = sizes[:, 1:]
    return places


@cache
def _library() -> tuple[Any, Any]:
    """nvJPEG, which torchvision brings: for calls beside which other threads run, and for short ones that keep Python's
    lock."""
    import_module("torchvision.io.image")  # which loads it
    found = [path for path in torch.ops.loaded_libraries if path.rpartition("/")[2].startswith("image.")]
    try:
        long, short = ctypes.CDLL(found[0]), ctypes.PyDLL(found[0])
        pointer = c_void_p
        long.nvjpegCreateEx.argtypes = [c_int, pointer, pointer, c_uint, pointer]
        long.nvjpegJpegStateCreate.argtypes = [pointer, pointer]
        long.nvjpegJpegStreamCreate.argtypes = [pointer, pointer]
        long.nvjpegJpegStreamParseHeader.argtypes = [pointer, pointer, c_size_t, pointer]
        long.nvjpegDecodeBatchedSupported.argtypes = [pointer, pointer, pointer]
        long.nvjpegDecodeBatchedInitialize.argtypes = [pointer, pointer, c_int, c_int, c_int]
        long.nvjpegDecodeBatched.argtypes = [pointer] * 6
        short.nvjpegGetImageInfo.argtypes = [pointer, pointer, c_size_t, *[pointer] * 4]
    except (OSError, IndexError, AttributeError) as error:
        raise RuntimeError("torchvision brings no nvJPEG") from error
    return long, short


def _need(status: int) -> None:
    if status:
        raise RuntimeError(f"nvJPEG answers {status}")
