"""Maps in an .npz file, read from front to end through the archive, packed or not, and never all at once."""

from __future__ import annotations

import zipfile
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from earsight.errors import DataError
from earsight.mapfile.base import AnyArray, MapFile, bounds_of, confidence_of, need_few, need_shape
from earsight.mapfile.npy import Header, need_numbers, read_header, read_map, read_values, reading
from earsight.types import F32

SMALL = 256 << 20
"""Bytes of ids, confidences or bounds; more is a damaged or hostile file."""
TOTAL = 256 << 30
"""Bytes of all arrays of a file when unpacked: 200,000 maps of 512x512 fit."""
BOUNDS = "__bounds__"
_TABLE = {"id", "maps", "confidence", "bounds"}
_UNNAMED = {"arr_0", "arr_1"}
"""What np.savez calls arrays that were given without a name."""


def open_npz(path: Path) -> MapFile:
    """The maps of an .npz file in either of its forms."""
    with _archive(path) as archive:
        members = archive.infolist()
        names = [_name(info, path) for info in members]
        total = sum(info.file_size for info in members)
        if total > TOTAL:
            raise DataError(
                f"Expected at most {TOTAL >> 30} GiB of arrays in {path}, but got {total >> 30} GiB when unpacked. "
                "Save maps of a lower resolution, or in several files."
            )
        if {"id", "maps"} <= set(names):
            return _table(path, archive, names)
        if "maps" in names and len(_header(archive, members[names.index("maps")], "maps", path).shape) == 3:
            raise DataError(
                f"Expected an array `id` beside `maps` in {path}, but got none. "
                "Save it with np.savez(FILE, id=ids, maps=maps)."
            )
        if "id" in names or set(names) & _UNNAMED or _is_misnamed(archive, path):
            raise DataError(
                f"Expected arrays `id` and `maps` in {path}, but got {', '.join(names)[:200]}. "
                "Save it with np.savez(FILE, id=ids, maps=maps)."
            )
        bounds = None
        if BOUNDS in names:
            _need_once(names, [BOUNDS], path)
            bounds = bounds_of(_small(archive, members[names.index(BOUNDS)], BOUNDS, path).ravel().tolist(), path)
    kept = [(name, info) for name, info in zip(names, members, strict=True) if name != BOUNDS]
    return _Members(path, [name for name, _ in kept], [info for _, info in kept], bounds)


def _is_misnamed(archive: zipfile.ZipFile, path: Path) -> bool:
    """Whether a few arrays are a table under other names: something of one dimension beside something of three."""
    named = {_name(member, path): member for member in archive.infolist()}
    if BOUNDS in named or len(named) > len(_TABLE):
        return False
    sides = {len(_header(archive, member, f"'{name}'", path).shape) for name, member in named.items()}
    return 1 in sides and max(sides) >= 3


class _Table(MapFile):
    """All maps in one array (N, h, w)."""

    def __init__(
        self,
        path: Path,
        ids: Sequence[str],
        bounds: tuple[float, float] | None,
        confidence: F32 | None,
        member: zipfile.ZipInfo,
        shape: tuple[int, int],
    ) -> None:
        super().__init__(path, ids, bounds, confidence)
        self._member, self._shape = member, shape

    def maps(self, wanted: Collection[int]) -> Iterator[tuple[int, AnyArray]]:
        with _archive(self.path) as archive, archive.open(self._member) as stream:
            header = read_header(stream, self._member.file_size, "maps", self.path)
            one = Header(self._shape, header.dtype, False, header.start)
            for position in range(max(wanted, default=-1) + 1):
                values = read_values(stream, one, self.path)  # read also where it is not wanted: that is how to skip
                if position in wanted:
                    yield position, values


class _Members(MapFile):
    """One array a clip, under the clip's id."""

    def __init__(
        self,
        path: Path,
        ids: Sequence[str],
        members: Sequence[zipfile.ZipInfo],
        bounds: tuple[float, float] | None,
    ) -> None:
        super().__init__(path, ids, bounds)
        self._members = tuple(members)

    def maps(self, wanted: Collection[int]) -> Iterator[tuple[int, AnyArray]]:
        with _archive(self.path) as archive:
            for position in sorted(wanted):
                member = self._members[position]
                with archive.open(member) as stream:
                    yield position, read_map(stream, member.file_size, self.ids[position], self.path)


def _table(path: Path, archive: zipfile.ZipFile, names: list[str]) -> MapFile:
    other = sorted(set(names) - _TABLE)
    if other:
        raise DataError(
            f"Expected {', '.join(sorted(_TABLE))} and nothing else in {path}, but got also '{other[0]}'. Leave it out."
        )
    _need_once(names, names, path)
    members = dict(zip(names, archive.infolist(), strict=True))
    ids = _ids(_small(archive, members["id"], "id", path), path)
    header = _header(archive, members["maps"], "maps", path)
    need_numbers(header, "maps", path)
    if len(header.shape) != 3 or header.shape[0] != len(ids):
        raise DataError(
            f"Expected maps ({len(ids)}, h, w) for {len(ids)} ids in {path}, but got shape {header.shape}. "
            "Save one map for each id, in the same order."
        )
    if header.fortran:
        raise DataError(
            f"Expected the maps in {path} one after another, but got them in Fortran order. "
            "Save np.ascontiguousarray(maps)."
        )
    shape = need_shape(header.shape[1:], "each id", path)
    confidence = bounds = None
    if "confidence" in members:
        confidence = confidence_of(_small(archive, members["confidence"], "confidence", path), ids, path)
    if "bounds" in members:
        bounds = bounds_of(_small(archive, members["bounds"], "bounds", path).ravel().tolist(), path)
    return _Table(path, ids, bounds, confidence, members["maps"], shape)


def _ids(values: AnyArray, path: Path) -> list[str]:
    if values.ndim != 1 or values.dtype.kind != "U":
        raise DataError(
            f"Expected `id` (N,) of strings in {path}, but got shape {values.shape} of {values.dtype}. "
            "Save it with id=np.array(ids, dtype=str)."
        )
    need_few(len(values), path)
    with reading(path):
        ids: list[str] = values.tolist()
    return ids


def _small(archive: zipfile.ZipFile, member: zipfile.ZipInfo, of: str, path: Path) -> AnyArray:
    """An array that is no map, whole."""
    if member.file_size > SMALL:
        raise DataError(
            f"Expected at most {SMALL >> 20} MiB for {of} in {path}, but got {member.file_size >> 20} MiB. "
            "Make the file again."
        )
    with archive.open(member) as stream:
        return read_values(stream, read_header(stream, member.file_size, of, path), path)


def _header(archive: zipfile.ZipFile, member: zipfile.ZipInfo, of: str, path: Path) -> Header:
    with archive.open(member) as stream:
        return read_header(stream, member.file_size, of, path)


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


def _need_once(names: Sequence[str], known: Sequence[str], path: Path) -> None:
    counts = Counter(names)
    twice = sorted({name for name in known if counts[name] > 1})
    if twice:
        raise DataError(f"Expected one array '{twice[0]}' in {path}, but got {counts[twice[0]]}. Make it again.")


@contextmanager
def _archive(path: Path) -> Iterator[zipfile.ZipFile]:
    with reading(path), zipfile.ZipFile(path) as archive:
        yield archive
