"""Arrays in .npy and .npz files of strangers: what they declare is checked before a byte of the values is believed."""

from __future__ import annotations

import math
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from earsight.errors import DataError, EarsightError

AnyArray = npt.NDArray[Any]
SIDE = 8192
"""Longest side of a map; more is a damaged or hostile file."""
SMALL = 256 << 20
"""Bytes of ids, confidences or bounds; more is a damaged or hostile file."""
TOTAL = 256 << 30
"""Bytes of all arrays of a file when unpacked: 200,000 maps of 512x512 fit."""


class Header(NamedTuple):
    """What an array declares; `fortran` says that the first index varies fastest."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    fortran: bool


class Archive:
    """The arrays of an .npz file: their names in the file's order, and each by its place, without the others."""

    def __init__(self, path: Path, archive: zipfile.ZipFile) -> None:
        self.path, self._archive, self._members = path, archive, archive.infolist()
        self.names = [_name(member, path) for member in self._members]
        total = sum(member.file_size for member in self._members)
        if total > TOTAL:
            raise DataError(
                f"Expected at most {TOTAL >> 30} GiB of arrays in {path}, but got {total >> 30} GiB when unpacked. "
                "Save maps of a lower resolution, or in several files."
            )

    def header(self, at: int) -> Header:
        with self.opened(at) as (_, header):
            return header

    @contextmanager
    def opened(self, at: int) -> Iterator[tuple[IO[bytes], Header]]:
        """An array's values as a stream, and its header."""
        member, name = self._members[at], self.names[at]
        with self._archive.open(member) as stream:
            yield stream, read_header(stream, member.file_size, _called(name), self.path)

    def small(self, name: str) -> AnyArray:
        """An array that is no map, whole."""
        at = self.names.index(name)
        size = self._members[at].file_size
        if size > SMALL:
            raise DataError(
                f"Expected at most {SMALL >> 20} MiB for {name} in {self.path}, but got {size >> 20} MiB. "
                "Make the file again."
            )
        with self.opened(at) as (stream, header):
            return read_values(stream, header, self.path)


_TABLE = ("id", "maps", "confidence", "bounds", "__bounds__")


def _called(name: str) -> str:
    return name if name in _TABLE else f"'{name}'"


@contextmanager
def open_archive(path: Path) -> Iterator[Archive]:
    with reading(path), zipfile.ZipFile(path) as archive:
        yield Archive(path, archive)


def _name(member: zipfile.ZipInfo, path: Path) -> str:
    """What an array is called; anything that numpy would not have written is refused."""
    name = member.filename
    if not name.endswith(".npy") or name.startswith("/") or ".." in name.split("/"):
        raise DataError(
            f"Expected arrays named after clips in {path}, but got '{name[:200]}'. Make the file with np.savez."
        )
    if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED) or member.flag_bits & 1:
        raise DataError(
            f"Expected arrays stored or deflated in {path}, but got '{name[:200]}' packed or locked in another way. "
            "Make the file with np.savez or np.savez_compressed."
        )
    return name.removesuffix(".npy")


def read_header(stream: IO[bytes], size: int, of: str, path: Path) -> Header:
    """The header of an array that takes `size` bytes in all; what it declares must fit that exactly."""
    if size == 0:
        raise damaged(path, f"{of} is empty, 0 bytes")
    with reading(path):
        version = np.lib.format.read_magic(stream)
        first = version == (1, 0)
        shape, fortran, dtype = (
            np.lib.format.read_array_header_1_0(stream) if first else np.lib.format.read_array_header_2_0(stream)
        )
        left = size - stream.tell()
    if dtype.hasobject:
        raise DataError(
            f"Expected numbers for {of} in {path}, but got Python objects, which could run code when they are read. "
            "Save numbers with .astype(np.float32), and ids with np.array(ids, dtype=str)."
        )
    if min(shape, default=1) < 0 or math.prod(shape) * dtype.itemsize != left:
        raise DataError(
            f"Expected {of} in {path} to hold what it declares ({dtype} {str(shape)[:80]}), but got "
            f"{left} bytes of values. The file is damaged: make it again."
        )
    return Header(shape, dtype, fortran)


def read_values(stream: IO[bytes], header: Header, path: Path) -> AnyArray:
    """The values behind a header that was found good, or the next array of several in a row."""
    with reading(path):
        size = math.prod(header.shape) * header.dtype.itemsize
        data = stream.read(size)
        if len(data) < size:
            raise EOFError("it ends too early")
        flat = np.frombuffer(data, header.dtype) if data else np.zeros(0, header.dtype)
        return flat.reshape(header.shape, order="F" if header.fortran else "C")


def read_map(stream: IO[bytes], header: Header, id: str, path: Path) -> AnyArray:
    """One map (h, w)."""
    need_numbers(header, f"'{id}'", path)
    need_shape(header.shape, f"'{id}'", path)
    return read_values(stream, header, path)


def need_numbers(header: Header, of: str, path: Path) -> None:
    if header.dtype.kind not in "biuf" or header.dtype.itemsize > 8:
        raise DataError(
            f"Expected numbers of up to 64 bits for {of} in {path}, but got {header.dtype}. "
            "Save it with .astype(np.float32)."
        )


def need_shape(shape: tuple[int, ...], of: str, path: Path) -> None:
    """Refuse what is no map (h, w); other shapes are never squeezed."""
    if len(shape) != 2 or not all(1 <= side <= SIDE for side in shape):
        raise DataError(
            f"Expected a map (h, w) with sides from 1 to {SIDE} for {of} in {path}, but got shape {shape}. "
            + ("Save it as (h, w)." if len(shape) != 2 else "Save it again, at another size.")
        )


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Report whatever goes wrong in the block as a damaged file."""
    try:
        yield
    except EarsightError:
        raise
    except Exception as error:  # zip, zlib and numpy answer damaged files with errors of a dozen kinds
        # What numpy advises for a header that is too long is to trust the file with running code.
        raise damaged(path, "a header that is too long" if "max_header_size" in str(error) else error) from error


def damaged(path: Path, reason: object) -> DataError:
    """What to raise for a file that cannot be read to its end."""
    words = " ".join(str(reason).split()) or type(reason).__name__
    return DataError(f"Expected a whole file of maps, but got a damaged one: {path} ({words[:200]}). Make it again.")
