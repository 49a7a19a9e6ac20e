"""Maps in a Parquet file, read a few rows at a time."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from earsight.errors import DataError
from earsight.files import parse_json
from earsight.mapfile.base import AnyArray, MapFile, bounds_of, confidence_of, damaged, need_few, need_shape
from earsight.mapfile.npy import reading

LETTERS = 256 << 20
"""Letters of all ids together; more is a damaged or hostile file."""
AT_ONCE = 4
"""Rows that are unpacked at a time: as fast as many, and few enough for maps of any size.

A few bytes can stand for gigabytes of equal values, and nothing bounds a row before it is unpacked: pyarrow reads
lengths and values together, and asking a damaged file how many values its columns have ends the whole process.
"""


class Parquet(MapFile):
    """One row a clip: `map` holds rows of values, or all values one row after another beside `height` and `width`."""

    def __init__(self, path: Path) -> None:
        with _opened(path) as file:
            self._columns = _columns(file, path)
            bounds = _bounds(file.schema_arrow.metadata or {}, path)
            ids: list[str] = []
            letters = 0
            for batch in file.iter_batches(256, columns=["id"]):
                some = _whole(batch.column("id"), "id", path).to_pylist()
                letters += sum(map(len, some))
                if letters > LETTERS:
                    raise DataError(
                        f"Expected at most {LETTERS} letters of ids in {path}, but got more. Make the file again."
                    )
                ids += some
            confidence = None
            if "confidence" in file.schema_arrow.names:
                _need_numbers(file.schema_arrow.field("confidence").type, "confidence", path)
                column = file.read(columns=["confidence"]).column("confidence").combine_chunks()
                confidence = confidence_of(_numbers(column, "confidence", path), ids, path)
        super().__init__(path, ids, bounds, confidence)

    def maps(self, wanted: Collection[int]) -> Iterator[tuple[int, AnyArray]]:
        with _opened(self.path) as file:
            start = 0
            for group in range(file.num_row_groups):
                end = start + file.metadata.row_group(group).num_rows
                if any(at in wanted for at in range(start, end)):
                    for batch in file.iter_batches(AT_ONCE, row_groups=[group], columns=list(self._columns)):
                        yield from self._of(batch, start, wanted)
                        start += batch.num_rows
                    if start != end:
                        raise damaged(self.path, "its row groups are not as long as they say")
                start = end

    def _of(self, batch: Any, start: int, wanted: Collection[int]) -> Iterator[tuple[int, AnyArray]]:
        column = _whole(batch.column("map"), "map", self.path)
        ends = np.cumsum(_lengths(column))
        inner = column.flatten()
        if "height" in self._columns:
            height, width = (_numbers(batch.column(name), name, self.path) for name in ("height", "width"))
            values = _numbers(inner, "map", self.path)
        else:
            rows_of = _lengths(_whole(inner, "map", self.path))
            values = _numbers(inner.flatten(), "map", self.path)
            row_ends = np.cumsum(rows_of)
        for i in range(batch.num_rows):
            if start + i not in wanted:
                continue
            first, last = int(ends[i - 1]) if i else 0, int(ends[i])
            of = f"'{self.ids[start + i]}'"
            if "height" in self._columns:
                shape = need_shape((int(height[i]), int(width[i])), of, self.path)
                if shape[0] * shape[1] != last - first:
                    raise DataError(
                        f"Expected {shape[0]} x {shape[1]} values for {of} in {self.path}, but got {last - first}. "
                        "Save the map flat, row after row, beside its height and width."
                    )
            else:
                sides = sorted({int(n) for n in rows_of[first:last]} or {0})
                if len(sides) > 1:
                    raise DataError(
                        f"Expected rows of one length for {of} in {self.path}, but got rows of {sides[0]} and "
                        f"{sides[1]} values. Save a map (h, w)."
                    )
                shape = need_shape((last - first, sides[0]), of, self.path)
                first = int(row_ends[first - 1]) if first else 0
                last = first + shape[0] * shape[1]
            yield start + i, values[first:last].reshape(shape)


def _columns(file: Any, path: Path) -> tuple[str, ...]:
    """The columns that hold the maps, once their types were found good."""
    schema = file.schema_arrow
    names = schema.names
    if not {"id", "map"} <= set(names) or len(set(names)) < len(names):
        raise DataError(
            f"Expected columns id and map in {path}, each once, but got {', '.join(names)[:200]}. Name them so."
        )
    need_few(file.metadata.num_rows, path)
    kind = schema.field("id").type
    if not (pa.types.is_string(kind) or pa.types.is_large_string(kind)):
        raise DataError(f"Expected a column id of strings in {path}, but got {kind}. Save ids as strings.")
    kind = schema.field("map").type
    nested = _is_list(kind) and _is_list(kind.value_type)
    flat = _is_list(kind) and not nested
    leaf = kind.value_type.value_type if nested else kind.value_type if flat else kind
    if not (nested or flat) or not _is_number(leaf):
        raise DataError(
            f"Expected a column map of lists of numbers in {path}, but got {kind}. "
            "Save a list of rows, or a flat list beside columns height and width."
        )
    if nested:
        return ("map",)
    for name in ("height", "width"):
        if name not in names or not pa.types.is_integer(schema.field(name).type):
            raise DataError(
                f"Expected a whole number {name} beside each flat map in {path}, but got no such column. "
                "Save height and width, or each map as a list of rows."
            )
    return ("map", "height", "width")


def _is_list(kind: Any) -> bool:
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind))


def _is_number(kind: Any) -> bool:
    return bool(pa.types.is_floating(kind) or pa.types.is_integer(kind) or pa.types.is_boolean(kind))


def _bounds(metadata: dict[bytes, bytes], path: Path) -> tuple[float, float] | None:
    if b"bounds" not in metadata:
        return None
    try:
        values = parse_json(metadata[b"bounds"].decode())
    except ValueError:
        values = None
    return bounds_of(values if isinstance(values, list) else [str(metadata[b"bounds"])], path)


def _whole(column: Any, name: str, path: Path) -> Any:
    if column.null_count:
        raise DataError(
            f"Expected a value in every row of {path}, but got {column.null_count} nulls in {name}. "
            "Leave out clips without a map, and use --allow-missing."
        )
    return column


def _lengths(column: Any) -> AnyArray:
    lengths: AnyArray = pc.list_value_length(column).to_numpy(zero_copy_only=False).astype(np.int64)
    return lengths


def _need_numbers(kind: Any, name: str, path: Path) -> None:
    if not _is_number(kind):
        raise DataError(f"Expected numbers in the column {name} of {path}, but got {kind}. Save numbers.")


def _numbers(column: Any, name: str, path: Path) -> AnyArray:
    numbers: AnyArray = _whole(column, name, path).to_numpy(zero_copy_only=False)
    return numbers


@contextmanager
def _opened(path: Path) -> Iterator[Any]:
    with reading(path), _file(path) as file:
        yield file


def _file(path: Path) -> Any:
    # Without buffering ahead, and through a small buffer, a row group of gigabytes is read page by page. Checksums are
    # looked at where the file has them.
    return pq.ParquetFile(path, buffer_size=1 << 20, pre_buffer=False, page_checksum_verification=True)
