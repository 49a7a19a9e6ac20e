"""Maps in a folder: files that are no maps, and the table of confidences."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from earsight.errors import DataError
from earsight.mapfile import open_maps


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for i, id in enumerate("cab"):
        np.save(tmp_path / f"{id}.npy", np.full((2, 2), i, np.float32))
    (tmp_path / "README.txt").write_text("other files are left alone")
    return tmp_path


def test_files_come_in_the_order_of_their_names(folder: Path) -> None:
    file = open_maps(folder)
    assert file.ids == ("a", "b", "c")
    ((at, maps),) = file.batches()
    assert at == [0, 1, 2]
    assert maps.dense[:, 0, 0].tolist() == [1, 2, 0]


def test_confidences_come_from_their_table_in_any_order(folder: Path) -> None:
    (folder / "confidence.csv").write_bytes(b"\xef\xbb\xbfid,confidence,note\r\nb,0.5,x\r\na,1e-3,y\r\nc,-2,\r\n")
    ((_, maps),) = open_maps(folder).batches()
    assert maps.confidence is not None
    assert maps.confidence.tolist() == pytest.approx([1e-3, 0.5, -2])


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "Expected columns id and confidence in .*confidence.csv, but got none of them. Write both"),
        ("a,b\n1,2\n", "Expected columns id and confidence"),
        ("id;confidence\na;1\n", "values separated by commas in .*confidence.csv, but got semicolons: 'id;confidence'"),
        ("id,confidence\na,1\nb,2\n", r"no confidence for 1 ids \(c\). Correct the table, or take it out"),
        ("id,confidence\na,1\nb,2\nc,3\nd,4\n", r"one without a map for 1 ids \(d\)"),
        ("id,confidence\na,1\na,2\nc,3\n", "Expected each id once in .*, but got 'a' again in line 3. Leave one out"),
        ("id,confidence\na,high\nb,2\nc,3\n", "Expected a number as confidence in .*, line 2, but got 'high'"),
        ("id,confidence\na\nb,2\nc,3\n", "Expected a number as confidence in .*, line 2, but got ''"),
        ("id,confidence\na,1\nb,nan\nc,3\n", "Expected finite confidences in .*, but got nan for 'b'"),
        ("id,confidence\na,1\nb,1e60\nc,3\n", r"Expected finite confidences in .*, but got 1e\+60 for 'b'"),
        ('id,confidence\n"' + "a" * 200_000, "but got a damaged one: .*confidence.csv"),
    ],
)
def test_tables_of_confidences_that_do_not_fit_are_refused(text: str, told: str, folder: Path) -> None:
    (folder / "confidence.csv").write_text(text)
    with pytest.raises(DataError, match=told):
        open_maps(folder)


def test_a_table_that_is_not_text_is_told_as_damage(folder: Path) -> None:
    (folder / "confidence.csv").write_bytes(b"id,confidence\n\xff\xfe,1\n")
    with pytest.raises(DataError, match=r"but got a damaged one: .*confidence.csv"):
        open_maps(folder)


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (b"", r"but got a damaged one: .*b.npy \('b' is empty, 0 bytes\)"),
        (b"not numpy at all", "but got a damaged one: .*b.npy"),
        (b"\x93NUMPY\x09\x00", "but got a damaged one: .*b.npy"),
    ],
)
def test_files_that_are_no_arrays_are_named(data: bytes, told: str, folder: Path) -> None:
    (folder / "b.npy").write_bytes(data)
    with pytest.raises(DataError, match=told):
        list(open_maps(folder).batches())


def test_a_file_that_was_cut_off_is_named(folder: Path) -> None:
    (folder / "b.npy").write_bytes((folder / "b.npy").read_bytes()[:-1])
    with pytest.raises(DataError, match=r"Expected 'b' in .*b.npy to hold what it declares .*but got 15 bytes"):
        list(open_maps(folder).batches())


def test_objects_and_stacks_of_maps_are_refused(folder: Path) -> None:
    np.save(folder / "b.npy", np.array([["x", None]], dtype=object))
    with pytest.raises(DataError, match=r"Expected numbers for 'b' in .*b.npy, but got Python objects"):
        list(open_maps(folder).batches())
    np.save(folder / "b.npy", np.zeros((1, 2, 2)))
    with pytest.raises(DataError, match=r"for 'b' in .*b.npy, but got shape \(1, 2, 2\)"):
        list(open_maps(folder).batches())


def test_a_map_that_went_away_is_told(folder: Path) -> None:
    file = open_maps(folder)
    (folder / "b.npy").unlink()
    with pytest.raises(DataError, match=r"but got a damaged one: .*b.npy \(.*No such file"):
        list(file.batches())
