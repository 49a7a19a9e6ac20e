"""Maps in a Parquet file: kinds of lists, nulls, shapes, and files that cannot be believed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import hurt
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from earsight.errors import DataError
from earsight.mapfile import base, open_maps, parquet

MAPS = [[[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]], [[0.5, 1.5, 2.5], [3.5, 4.5, 5.5]]]


def saved(folder: Path, columns: dict[str, Any], metadata: dict[str, str] | None = None) -> Path:
    path = folder / "maps.parquet"
    pq.write_table(pa.table(columns).replace_schema_metadata(metadata), path)
    return path


def read(path: Path) -> list[Any]:
    return [one.tolist() for _, maps in open_maps(path).batches() for one in maps.dense]


@pytest.mark.parametrize("value", [pa.float16(), pa.float32(), pa.float64()])
@pytest.mark.parametrize("large", [pa.list_, pa.large_list, lambda kind: pa.list_(kind, 2)])
def test_lists_of_every_kind_are_read(value: pa.DataType, large: Any, tmp_path: Path) -> None:
    halves = np.float16 if value == pa.float16() else float
    rows = [[[halves(x) for x in row] for row in one] for one in MAPS]
    column = pa.array(rows, large(pa.list_(value)))
    assert read(saved(tmp_path, {"id": ["a", "b"], "map": column})) == MAPS


@pytest.mark.parametrize("value", [pa.int16(), pa.uint8(), pa.bool_()])
def test_whole_numbers_and_truth_values_are_read(value: pa.DataType, tmp_path: Path) -> None:
    flat = pa.array([[0, 1, 1, 0], [1, 1, 0, 0]]).cast(pa.list_(value))
    path = saved(tmp_path, {"id": ["a", "b"], "map": flat, "height": [2, 1], "width": [2, 4]})
    assert read(path) == [[[0, 1], [1, 0]], [[1, 1, 0, 0]]]


def test_confidence_is_a_column(tmp_path: Path) -> None:
    file = open_maps(saved(tmp_path, {"id": ["a", "b"], "map": MAPS, "confidence": [1, 2], "other": ["x", "y"]}))
    assert file.confidence is not None
    assert file.confidence.tolist() == [1, 2]


def test_row_groups_without_wanted_maps_are_passed_over(tmp_path: Path) -> None:
    maps = [[[float(i)]] for i in range(10)]
    pq.write_table(pa.table({"id": list("abcdefghij"), "map": maps}), tmp_path / "x.parquet", row_group_size=3)
    file = open_maps(tmp_path / "x.parquet")
    assert [(at, m.dense.flatten().tolist()) for at, m in file.batches([9, 4, 5])] == [([4, 5, 9], [4.0, 5.0, 9.0])]


FLAT = [[1.0, 2.0], [3.0, 4.0]]
SIDES = {"height": [1, 1], "width": [2, 2]}


@pytest.mark.parametrize(
    ("columns", "told"),
    [
        ({"id": ["a"]}, "Expected columns id and map in .*, each once, but got id. Name them so"),
        ({"map": MAPS}, "Expected columns id and map"),
        ({"id": [1, 2], "map": MAPS}, "Expected a column id of strings in .*, but got int64"),
        (
            {"id": ["a", None], "map": MAPS},
            "Expected a value in every row of .*, but got 1 nulls in id. Leave out clips",
        ),
        ({"id": ["a", "b"], "map": [MAPS[0], None]}, "but got 1 nulls in map"),
        ({"id": ["a", "b"], "map": [MAPS[0], [None, [1.0]]]}, "but got 1 nulls in map"),
        ({"id": ["a", "b"], "map": [MAPS[0], [[None, 1.0]]]}, "but got 1 nulls in map"),
        ({"id": ["a", "b"], "map": [MAPS[0], []]}, r"Expected a map .*'b' in .*, but got shape \(0, 0\)"),
        ({"id": ["a", "b"], "map": [MAPS[0], [[]]]}, r"Expected a map .*'b' in .*, but got shape \(1, 0\)"),
        ({"id": ["a", "b"], "map": [MAPS[0], [[1.0], [1.0, 2.0]]]}, "rows of one length for 'b' .*rows of 1 and 2 val"),
        ({"id": ["a", "b"], "map": [1.0, 2.0]}, "Expected a column map of lists of numbers in .*, but got double"),
        ({"id": ["a"], "map": [["x"]]}, "Expected a column map of lists of numbers in .*, but got list<.*string>"),
        ({"id": ["a"], "map": [[[[1.0]]]]}, "Expected a column map of lists of numbers"),
        ({"id": ["a", "b"], "map": FLAT}, "Expected a whole number height beside each flat map .*no such column"),
        ({"id": ["a", "b"], "map": FLAT, "height": [1, 1]}, "Expected a whole number width"),
        ({"id": ["a", "b"], "map": FLAT, **SIDES, "height": [1.0, 1.0]}, "Expected a whole number height"),
        ({"id": ["a", "b"], "map": FLAT, **SIDES, "height": [1, None]}, "but got 1 nulls in height"),
        ({"id": ["a", "b"], "map": FLAT, **SIDES, "height": [1, 2]}, "Expected 2 x 2 values for 'b' .*, but got 2"),
        ({"id": ["a", "b"], "map": FLAT, **SIDES, "height": [1, -1]}, r"but got shape \(-1, 2\)"),
        ({"id": ["a", "b"], "map": FLAT, **SIDES, "width": [2, 2**40]}, r"but got shape \(1, 1099511627776\)"),
        ({"id": ["a", "b"], "map": [[1.0, None], FLAT[1]], **SIDES}, "but got 1 nulls in map"),
        ({"id": ["a", "b"], "map": MAPS, "confidence": ["x", "y"]}, "Expected numbers in the column confidence"),
        ({"id": ["a", "b"], "map": MAPS, "confidence": [1.0, None]}, "but got 1 nulls in confidence"),
        ({"id": ["a", "b"], "map": MAPS, "confidence": [1.0, np.inf]}, "Expected finite confidences .*got inf for 'b'"),
        ({"id": pa.array([], pa.string()), "map": pa.array([], pa.list_(pa.list_(pa.float32())))}, "but got none"),
    ],
)
def test_tables_of_another_kind_are_refused(columns: dict[str, Any], told: str, tmp_path: Path) -> None:
    path = saved(tmp_path, columns)
    with pytest.raises(DataError, match=told):
        read(path)


@pytest.mark.parametrize("text", ["", "-1 1", "[1]", "[1, -1]", "[0, NaN]", '["a", "b"]', "{}", "3", "[[0], [1]]"])
def test_bounds_that_are_no_two_numbers_are_refused(text: str, tmp_path: Path) -> None:
    path = saved(tmp_path, {"id": ["a", "b"], "map": MAPS}, {"bounds": text})
    with pytest.raises(DataError, match=r"Expected bounds as two numbers in .*, the lower first, but got"):
        open_maps(path)


def test_a_column_that_is_there_twice_is_refused(tmp_path: Path) -> None:
    arrays = [pa.array(["a"]), pa.array(["b"]), pa.array([[[1.0]]])]
    pq.write_table(pa.table(arrays, names=["id", "id", "map"]), tmp_path / "x.parquet")
    with pytest.raises(DataError, match=r"Expected columns id and map in .*, each once, but got id, id, map"):
        open_maps(tmp_path / "x.parquet")


def test_no_cut_or_flipped_byte_ends_in_anything_but_a_told_error(tmp_path: Path) -> None:
    path = saved(tmp_path, {"id": ["a", "b"], "map": MAPS})
    hurt.cut(path, read, every=29)
    assert hurt.flipped(path, read, times=200) > 40


def test_too_many_or_too_long_ids_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = saved(tmp_path, {"id": ["a", "b"], "map": MAPS})
    monkeypatch.setattr(parquet, "LETTERS", 1)
    with pytest.raises(DataError, match=r"Expected at most 1 letters of ids in"):
        open_maps(path)
    monkeypatch.setattr(base, "MOST", 1)
    with pytest.raises(DataError, match=r"Expected at most 1 maps in .*, but got 2. Use several files"):
        open_maps(path)


def test_a_flipped_bit_is_found_where_the_file_has_checksums(tmp_path: Path) -> None:
    path = tmp_path / "x.parquet"
    table = pa.table({"id": ["a"], "map": [np.arange(400.0).reshape(20, 20).tolist()]})
    pq.write_table(table, path, write_page_checksum=True, compression="NONE", use_dictionary=False)
    data = bytearray(path.read_bytes())
    data[data.index(np.float64(200.0).tobytes())] ^= 1
    path.write_bytes(data)
    with pytest.raises(DataError, match=r"Expected a whole file of maps, but got a damaged one"):
        read(path)
