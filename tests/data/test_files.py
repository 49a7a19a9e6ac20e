"""Lists of clips are read whatever their names, and results are written whole or not at all."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from earsight.data.files import lines, read_columns, read_names
from earsight.errors import DataError
from earsight.files import write_text


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.txt", "one\ntwo+x@0.5\n"),
        ("a.txt", "\ufeffone\r\n\r\ntwo+x@0.5"),
        ("a.txt", "one\n two+x@0.5 \none\n"),
        ("a.csv", "one,17\ntwo+x@0.5,0\n"),
        ("a.csv", "one\n\ntwo+x@0.5\n"),
        ("a.csv", "ID,label\none,dog\ntwo+x@0.5,cat\n"),
        ("a.csv", "label,id\ndog,one\ncat,two+x@0.5\ncat\n"),
    ],
)
def test_names_are_read_one_a_line_each_once(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / name).write_bytes(text.encode())
    assert read_names(tmp_path / name) == ["one", "two+x@0.5"]


@pytest.mark.parametrize(
    ("name", "data", "match"),
    [
        ("a.txt", b"", r"Expected at least one clip in .*a\.txt, but got none\. Write one name a line"),
        ("a.txt", b"\xff\xfe\x80", r"to be readable UTF-8 text, but got: .*\. Check its name, or get the file again"),
        (
            "a.csv",
            b"id;label\na;dog\n",
            r"Expected values separated by commas in .*a\.csv, but got semicolons: 'id;label'",
        ),
        ("a.csv", b"a" * 200_000, r"to be csv, but got: .*\. Save it again as csv"),
        (
            "a.csv",
            b"video,audio,label\na,b,x\n",
            r"Expected a list of clips, but got pairs in .*\. Name the set as SET\+",
        ),
    ],
)
def test_what_is_no_list_of_clips_is_told(tmp_path: Path, name: str, data: bytes, match: str) -> None:
    (tmp_path / name).write_bytes(data)
    with pytest.raises(DataError, match=match):
        read_names(tmp_path / name)


def test_what_has_no_end_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "zero.txt").symlink_to("/dev/zero")
    os.mkfifo(tmp_path / "pipe.txt")
    for name in ("zero.txt", "pipe.txt"):
        with pytest.raises(
            DataError, match=rf"Expected a file of text, but got .*{name}, which is none\. Check its name"
        ):
            read_names(tmp_path / name)
    monkeypatch.setattr("earsight.data.files.LARGEST", 1 << 20)
    (tmp_path / "large.txt").write_text("a\n" * (1 << 20))
    with pytest.raises(DataError, match=r"a list of at most 1 MiB, but got .*large\.txt with more\. Split it"):
        read_names(tmp_path / "large.txt")


def test_a_table_of_endless_columns_is_refused(tmp_path: Path) -> None:
    """Each of its lines would get as many values as the first one names."""
    (tmp_path / "a.csv").write_text("image,audio" + ",x" * 1_000_000 + "\n" + "a,b\n" * 1000)
    with pytest.raises(DataError, match=r"Expected at most 1000 columns in .*a\.csv, but got 1000002\. Leave some out"):
        read_columns(tmp_path / "a.csv", ("image", "audio"))


@pytest.mark.parametrize(("sign", "named"), [(";", "semicolons"), ("\t", "tabs")])
def test_a_table_with_another_sign_between_values_is_told_so(tmp_path: Path, sign: str, named: str) -> None:
    (tmp_path / "a.csv").write_text(f"video{sign}audio\na{sign}b\n")
    with pytest.raises(DataError, match=rf"values separated by commas in .*a\.csv, but got {named}: .*with commas"):
        read_columns(tmp_path / "a.csv", ("video", "audio"))


def test_a_list_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"to be readable UTF-8 text, but got: .*No such file"):
        read_names(tmp_path / "none.txt")


def test_text_is_written_with_plain_line_ends_and_nothing_beside_it(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "list.txt"
    write_text(path, lines(["a", "b"]))
    assert path.read_bytes() == b"a\nb\n"
    assert [p.name for p in path.parent.iterdir()] == ["list.txt"]


def test_a_failed_write_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "list.txt"
    path.write_text("old")
    with pytest.raises(UnicodeEncodeError):
        write_text(path, "\ud800")
    assert path.read_text() == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["list.txt"]


def test_columns_are_found_by_their_names_and_lines_by_their_places(tmp_path: Path) -> None:
    path = tmp_path / "table.txt"
    path.write_bytes(b'\xef\xbb\xbfb, a ,more\r\n\r\n1, two words\r\n"x\ny",z,w,too much\r\n , ,\r\n9,,')
    assert read_columns(path, ("a", "b")) == [
        (f"{path}, line 3", {"b": "1", "a": "two words", "more": ""}),
        (f"{path}, line 5", {"b": "x\ny", "a": "z", "more": "w"}),
        (f"{path}, line 7", {"b": "9", "a": "", "more": ""}),
    ]


@pytest.mark.parametrize(("text", "got"), [("", "none"), ("\n\n", "none"), ("a,c\n1,2\n", "a, c")])
def test_columns_that_are_missing_are_named(tmp_path: Path, text: str, got: str) -> None:
    (tmp_path / "t.csv").write_text(text)
    with pytest.raises(DataError, match=rf"columns a, b in .*t\.csv, but got {got}\. Add (a, )?b to the names in"):
        read_columns(tmp_path / "t.csv", ("a", "b"))
