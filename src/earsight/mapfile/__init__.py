"""Maps of any program in files: which clips they are of, and the maps themselves, a few at a time.

Two forms are read, told apart by what is in the file and not by its name:

- an .npz file, either with arrays `id` (N,) and `maps` (N, h, w), optionally `confidence` (N,) and `bounds` (2,); or
  with one array (h, w) a clip under the clip's id, optionally `__bounds__` (2,);
- a folder of ID.npy files (h, w), optionally with confidence.csv (columns id, confidence); those in folders inside it
  have ids such as "part/clip".

Where each clip has an array of its own, resolutions may differ. Values are whole numbers, truth values or floats of up
to 64 bits, and become float32. Nothing is guessed: what is not of these forms is refused and named.
"""

from __future__ import annotations

import csv
import io
import math
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from earsight.config import need
from earsight.data.files import need_commas
from earsight.errors import DataError
from earsight.files import local_path, write_atomically
from earsight.mapfile.arrays import (
    SMALL,
    AnyArray,
    Archive,
    Header,
    need_numbers,
    need_shape,
    open_archive,
    read_header,
    read_map,
    read_values,
    reading,
)
from earsight.types import F32, Bounds, MapArrays

MOST = 1_000_000
"""Maps in one file."""
BYTES = 64 << 20
"""Size at which a batch goes out, however many maps it was to hold."""
WAITING = 2 * BYTES
"""Size of all maps that wait for others of their resolution."""
CONFIDENCE = "confidence.csv"
BOUNDS = "__bounds__"
_TABLE = {"id", "maps", "confidence", "bounds"}
_UNNAMED = {"arr_0", "arr_1"}
"""What np.savez calls arrays that were given without a name."""


class MapFile:
    """Maps with ids. Nothing but the ids, bounds and confidences is held in memory.

    Args:
        path: the file or folder.
        ids: the clips in the file's order; an id that is there twice stays twice, so that it can be named.
        read: gives the maps (h, w) at some positions, as they are stored; the positions are in ascending order.
        bounds: lowest and highest value that a map can have in theory, or None.
        confidence: float32 (N,), what the file itself says about "the source is visible", or None.
    """

    def __init__(
        self,
        path: Path,
        ids: Sequence[str],
        read: Callable[[Sequence[int]], Iterator[AnyArray]],
        bounds: Bounds = None,
        confidence: F32 | None = None,
    ) -> None:
        self.path, self.ids, self.bounds, self.confidence = path, tuple(ids), bounds, confidence
        self._read = read

    def __len__(self) -> int:
        return len(self.ids)

    def batches(self, wanted: Collection[int] | None = None, size: int = 512) -> Iterator[tuple[list[int], MapArrays]]:
        """Up to `size` maps of one resolution at a time with their positions; by default all maps of the file.

        The file is read once, from front to end, and only what waits for its batch is held.
        """
        waiting: dict[tuple[int, ...], list[tuple[int, F32]]] = {}
        held = 0
        positions = sorted(set(range(len(self)) if wanted is None else wanted))
        for position, stored in zip(positions, self._read(positions), strict=True):
            one = self._float32(stored, position)
            group = waiting.setdefault(one.shape, [])
            group.append((position, one))
            held += one.nbytes
            if len(group) >= size or len(group) * one.nbytes >= BYTES:
                full = one.shape
            elif held >= WAITING:
                full = max(waiting, key=lambda shape: len(waiting[shape]) * math.prod(shape))
            else:
                continue
            held -= sum(map_.nbytes for _, map_ in waiting[full])
            yield self._batch(waiting.pop(full))
        for group in waiting.values():
            yield self._batch(group)

    def _batch(self, group: list[tuple[int, F32]]) -> tuple[list[int], MapArrays]:
        at = [position for position, _ in group]
        dense = np.stack([one for _, one in group])
        return at, MapArrays(dense, dense, self.bounds, None if self.confidence is None else self.confidence[at])

    def _float32(self, stored: AnyArray, position: int) -> F32:
        with np.errstate(over="ignore"):
            one: F32 = stored.astype(np.float32)
        if not np.isfinite(one).all():
            found = "NaN or infinity"
            if np.isfinite(stored).all():
                found = f"{stored.flat[np.abs(stored).argmax()]:g}, which is too large for float32,"
            raise DataError(
                f"Expected finite maps, but got {found} in the map of '{self.ids[position]}' in {self.path}. "
                "Correct it, or leave it out and use --allow-missing."
            )
        return one


def open_maps(path: Path | str, bounds: tuple[float, float] | None = None) -> MapFile:
    """Open a file or folder of maps and read its ids, but no map yet. `bounds` go before those in the file."""
    path = local_path(path)
    if bounds is not None:
        low, high = bounds
        ordered = -np.inf < low < high < np.inf
        need(ordered, "bounds as two numbers, the lower first", f"{low} {high}", "For example: --bounds -1 1")
    found = _open(path)
    if not found.ids:
        raise DataError(f"Expected maps in {path}, but got none. Save one map (h, w) for each clip under its id.")
    if bounds is not None:
        found.bounds = _bounds_of(bounds, path)
    return found


def write_maps(path: Path | str, ids: Sequence[str], maps: MapArrays) -> None:
    """Write the dense maps, their bounds and their confidence as an .npz file that `open_maps` reads, atomically."""
    if len(ids) != len(maps) or len(set(ids)) < len(ids):
        raise ValueError(f"Expected {len(maps)} different ids, but got {len(ids)} of which {len(set(ids))} differ.")
    arrays: dict[str, AnyArray] = {"id": np.array(list(ids), dtype=np.str_), "maps": maps.dense}
    if maps.confidence is not None:
        arrays["confidence"] = maps.confidence
    if maps.bounds is not None:
        arrays["bounds"] = np.array(maps.bounds, dtype=np.float64)

    def write(beside: Path) -> None:
        with beside.open("wb") as file:  # given a name, numpy would add .npz to it
            np.savez(file, allow_pickle=False, **arrays)

    write_atomically(Path(path), write)


def _open(path: Path) -> MapFile:
    if not path.exists():
        raise DataError(f"Expected a file or folder of maps, but there is nothing at {path}. Check the path.")
    if path.is_dir():
        return _folder(path)
    with path.open("rb") as file:
        start = file.read(6)
    if start[:4] in (b"PK\x03\x04", b"PK\x05\x06"):
        with open_archive(path) as archive:
            return _table(archive) if {"id", "maps"} <= set(archive.names) else _members(archive)
    got = "a single array without ids" if start == b"\x93NUMPY" else "something else" if start else "an empty file"
    raise DataError(
        f"Expected an .npz file or a folder of ID.npy files, but got {got} in {path}. "
        "Save it with np.savez(FILE, id=ids, maps=maps)."
    )


def _table(archive: Archive) -> MapFile:
    """All maps in one array (N, h, w)."""
    path, names = archive.path, archive.names
    other = sorted(set(names) - _TABLE)
    if other:
        raise DataError(
            f"Expected {', '.join(sorted(_TABLE))} and nothing else in {path}, but got also '{other[0]}'. Leave it out."
        )
    need_once(names, path)
    ids = _ids(archive.small("id"), path)
    at = names.index("maps")
    header = archive.header(at)
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
    need_shape(header.shape[1:], "each id", path)
    one = Header(header.shape[1:], header.dtype, fortran=False)

    def read(wanted: Sequence[int]) -> Iterator[AnyArray]:
        position = -1
        with open_archive(path) as archive, archive.opened(at) as (stream, _):
            for next_one in wanted:
                for _ in range(next_one - position):  # what is not wanted is read too: that is how to skip
                    values = read_values(stream, one, path)
                position = next_one
                yield values

    confidence = _confidence_of(archive.small("confidence"), ids, path) if "confidence" in names else None
    bounds = _bounds_of(archive.small("bounds").ravel().tolist(), path) if "bounds" in names else None
    return MapFile(path, ids, read, bounds, confidence)


def _members(archive: Archive) -> MapFile:
    """One array a clip, under the clip's id."""
    path, names = archive.path, archive.names
    if "maps" in names and len(archive.header(names.index("maps")).shape) == 3:
        raise DataError(
            f"Expected an array `id` beside `maps` in {path}, but got none. "
            "Save it with np.savez(FILE, id=ids, maps=maps)."
        )
    if "id" in names or set(names) & _UNNAMED or _is_misnamed(archive):
        raise DataError(
            f"Expected arrays `id` and `maps` in {path}, but got {', '.join(names)[:200]}. "
            "Save it with np.savez(FILE, id=ids, maps=maps)."
        )
    bounds = None
    if BOUNDS in names:
        need_once([name for name in names if name == BOUNDS], path)
        bounds = _bounds_of(archive.small(BOUNDS).ravel().tolist(), path)
    places = [at for at, name in enumerate(names) if name != BOUNDS]

    def read(wanted: Sequence[int]) -> Iterator[AnyArray]:
        with open_archive(path) as archive:
            for position in wanted:
                with archive.opened(places[position]) as (stream, header):
                    yield read_map(stream, header, names[places[position]], path)

    return MapFile(path, [names[at] for at in places], read, bounds)


def _is_misnamed(archive: Archive) -> bool:
    """Whether a few arrays are a table under other names: something of one dimension beside something of three."""
    if BOUNDS in archive.names or len(set(archive.names)) > len(_TABLE):
        return False
    sides = {len(archive.header(at).shape) for at in range(len(archive.names))}
    return 1 in sides and max(sides) >= 3


def _folder(path: Path) -> MapFile:
    """One file a clip, in the order of their names."""
    files = sorted((file for file in path.rglob("*.npy") if file.is_file()), key=lambda file: file.as_posix())
    ids = [file.relative_to(path).as_posix().removesuffix(".npy") for file in files]

    def read(wanted: Sequence[int]) -> Iterator[AnyArray]:
        for position in wanted:
            file, id = files[position], ids[position]
            with reading(file), file.open("rb") as stream:
                found = read_map(stream, read_header(stream, file.stat().st_size, f"'{id}'", file), id, file)
            yield found

    table = path / CONFIDENCE
    return MapFile(path, ids, read, confidence=_confidence_in(table, ids) if table.exists() else None)


def _confidence_in(path: Path, ids: Sequence[str]) -> F32:
    """The confidences of all ids, from a table with columns id and confidence."""
    with reading(path):
        if path.stat().st_size > SMALL:
            raise DataError(f"Expected at most {SMALL >> 20} MiB in {path}, but got more. Check the file.")
        text = path.read_text(encoding="utf-8-sig")
        lines = list(csv.DictReader(io.StringIO(text, newline=""), restkey="", restval=""))
    if lines:
        need_commas(path, list(lines[0]))
    if not lines or not {"id", "confidence"} <= set(lines[0]):
        raise DataError(
            f"Expected columns id and confidence in {path}, but got none of them. Write both, with a header."
        )
    found: dict[str, float] = {}
    for number, line in enumerate(lines, start=2):
        id, text = line["id"], line["confidence"]
        if id in found:
            raise DataError(f"Expected each id once in {path}, but got '{id}' again in line {number}. Leave one out.")
        try:
            found[id] = float(text)
        except ValueError as error:
            raise DataError(
                f"Expected a number as confidence in {path}, line {number}, but got '{text}'. Correct it."
            ) from error
    for words, some in (("no confidence for", set(ids) - set(found)), ("one without a map for", set(found) - set(ids))):
        if some:
            raise DataError(
                f"Expected a confidence for each map and no other in {path}, but got {words} {len(some)} ids "
                f"({', '.join(sorted(some)[:5])}). Correct the table, or take it out of the folder."
            )
    return _confidence_of(np.array([found[id] for id in ids], dtype=np.float64), ids, path)


def _confidence_of(values: AnyArray, ids: Sequence[str], path: Path) -> F32:
    """One finite number a clip as float32 (N,)."""
    if values.shape != (len(ids),) or values.dtype.kind not in "biuf":
        raise DataError(
            f"Expected one confidence for each of {len(ids)} maps in {path}, but got shape {values.shape} of "
            f"{values.dtype}. Save as many numbers as there are ids."
        )
    with np.errstate(over="ignore"):
        numbers: F32 = values.astype(np.float32)
    bad = np.flatnonzero(~np.isfinite(numbers))
    if len(bad):
        raise DataError(
            f"Expected finite confidences in {path}, but got {values[bad[0]]} for '{ids[bad[0]]}'. Correct it."
        )
    return numbers


def _bounds_of(values: Iterable[Any], path: Path) -> tuple[float, float]:
    """Two finite numbers in order, as bounds that a file holds."""
    try:
        low, high = map(float, values)
    except (TypeError, ValueError):
        low, high = math.nan, math.nan
    if not (-math.inf < low < high < math.inf):
        raise DataError(
            f"Expected bounds as two numbers in {path}, the lower first, but got {str(values)[:80]}. "
            "Save the lowest and the highest value that a map can have, for example -1 and 1."
        )
    return low, high


def _ids(values: AnyArray, path: Path) -> list[str]:
    if values.ndim != 1 or values.dtype.kind != "U":
        raise DataError(
            f"Expected `id` (N,) of strings in {path}, but got shape {values.shape} of {values.dtype}. "
            "Save it with id=np.array(ids, dtype=str)."
        )
    if len(values) > MOST:
        raise DataError(f"Expected at most {MOST} maps in {path}, but got {len(values)}. Use several files.")
    with reading(path):
        ids: list[str] = values.tolist()
    return ids


def need_once(names: Sequence[str], path: Path) -> None:
    """Refuse two arrays under one name."""
    name, count = Counter(names).most_common(1)[0]
    if count > 1:
        raise DataError(f"Expected one array '{name}' in {path}, but got {count}. Make it again.")
