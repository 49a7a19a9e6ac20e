"""Arrays in numpy's own format: the header is checked before a byte of the values is believed."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np

from earsight.errors import DataError, EarsightError
from earsight.mapfile.base import AnyArray, damaged, need_shape


@dataclass(frozen=True)
class Header:
    """What an array says about itself.

    Args:
        shape, dtype: of the array.
        fortran: whether the first index varies fastest.
        start: bytes of the header, after which the values begin.
    """

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    fortran: bool
    start: int

    @property
    def nbytes(self) -> int:
        return math.prod(self.shape) * self.dtype.itemsize


def read_header(stream: IO[bytes], size: int, of: str, path: Path) -> Header:
    """The header of an array that takes `size` bytes in all; what it declares must fit that exactly."""
    if size == 0:
        raise damaged(path, f"{of} is empty, 0 bytes")
    with reading(path):
        version = np.lib.format.read_magic(stream)
        if version == (1, 0):
            shape, fortran, dtype = np.lib.format.read_array_header_1_0(stream)
        else:
            shape, fortran, dtype = np.lib.format.read_array_header_2_0(stream)
        header = Header(shape, dtype, fortran, stream.tell())
    if dtype.hasobject:
        raise DataError(
            f"Expected numbers for {of} in {path}, but got Python objects, which could run code when they are read. "
            "Save numbers with .astype(np.float32), and ids with np.array(ids, dtype=str)."
        )
    if min(shape, default=1) < 0 or header.start + header.nbytes != size:
        raise DataError(
            f"Expected {of} in {path} to hold what it declares ({dtype} {_brief(shape)}), but got "
            f"{size - header.start} bytes of values. The file is damaged: make it again."
        )
    return header


def need_numbers(header: Header, of: str, path: Path) -> None:
    if header.dtype.kind not in "biuf" or header.dtype.itemsize > 8:
        raise DataError(
            f"Expected numbers of up to 64 bits for {of} in {path}, but got {header.dtype}. "
            "Save it with .astype(np.float32)."
        )


def read_map(stream: IO[bytes], size: int, id: str, path: Path) -> AnyArray:
    """One map (h, w) that takes `size` bytes with its header."""
    of = f"'{id}'"
    header = read_header(stream, size, of, path)
    need_numbers(header, of, path)
    need_shape(header.shape, of, path)
    return read_values(stream, header, path)


def read_values(stream: IO[bytes], header: Header, path: Path) -> AnyArray:
    """The values behind a header that was found good."""
    with reading(path):
        data = stream.read(header.nbytes)
        if len(data) < header.nbytes:
            raise EOFError("it ends too early")
        flat = np.frombuffer(data, header.dtype) if data else np.zeros(0, header.dtype)
        return flat.reshape(header.shape, order="F" if header.fortran else "C")


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Tell whatever goes wrong in the block as a damaged file."""
    try:
        yield
    except EarsightError:
        raise
    except Exception as error:  # zip, zlib and numpy answer damaged files with errors of a dozen kinds
        # What numpy advises for a header that is too long is to trust the file with running code.
        told = "a header that is too long" if "max_header_size" in str(error) else error
        raise damaged(path, told) from error


def _brief(shape: tuple[int, ...]) -> str:
    return str(shape)[:80]
