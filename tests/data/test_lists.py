"""Lists as they are published, line ends and absurd numbers included; another kind of file is refused by name."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from earsight.data.lists import Pair, check_rows, negative_rows, read_annotations, read_ids, read_pairs
from earsight.data.truth import truth_map
from earsight.errors import DataError
from earsight.types import Row


def written(folder: Path, name: str, content: str | bytes) -> Path:
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


@pytest.mark.parametrize(
    "text", ["a_1\n-b-2\n3.c", "a_1\r\n-b-2\r\n3.c\r\n", "\n a_1 \n\n-b-2\n3.c\n\n", b"\xef\xbb\xbfa_1\n-b-2\n3.c\n"]
)
@pytest.mark.parametrize("name", ["ids.txt", "ids.csv"])
def test_line_ends_and_blank_lines_do_not_matter(tmp_path: Path, name: str, text: str | bytes) -> None:
    assert read_ids(written(tmp_path, name, text)) == ["a_1", "-b-2", "3.c"]


def test_of_a_csv_only_the_first_column_is_read(tmp_path: Path) -> None:
    assert read_ids(written(tmp_path, "ids.csv", "10,202\r\n11,0\r\n12,917")) == ["10", "11", "12"]


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("a\nb\n\na\n", r"every id once in .*ids\.txt, but got a in lines 1 and 4\. Remove one of them"),
        ("\n \n", r"at least one id in .*ids\.txt, but got none\. Get the file again"),
        ("a\n../x\n", r"an id .* in .*ids\.txt, line 2, but got '\.\./x'\. Check that this is the right kind"),
        ("a,b\n", "line 1, but got 'a,b'"),
        ("..\n", "line 1, but got '..'"),
        ("<!DOCTYPE html>\n", "line 1, but got '<!DOCTYPE html>'"),
        ('[{"file": "a"}]', "right kind of file"),
        ("a" * 200, "right kind of file"),
        (b"\xff\xfe\x00", r"ids\.txt to be readable UTF-8 text, but got"),
    ],
)
def test_what_is_no_list_of_ids_is_refused(tmp_path: Path, text: str | bytes, match: str) -> None:
    with pytest.raises(DataError, match=match):
        read_ids(written(tmp_path, "ids.txt", text))


def test_what_is_no_csv_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"ids\.csv to be csv, but got"):
        read_ids(written(tmp_path, "ids.csv", "a" * 200_000))
    with pytest.raises(DataError, match="to be readable UTF-8 text, but got"):
        read_ids(tmp_path / "nowhere.csv")


def entry(file: str = "a", label: str = "dog", bbox: object = ((0, 0, 1, 1),)) -> dict[str, object]:
    return {"file": file, "class": label, "bbox": bbox}


def test_boxes_are_clipped_and_degenerate_ones_left_out(tmp_path: Path) -> None:
    boxes = [[-0.5, 0.25, 0.5, 2], [0.4, 0.2, -2.88e16, 0.9], [0.5, 0.5, 0.5, 0.9], [0.8, 0.1, 0.2, 0.9]]
    found = read_annotations(written(tmp_path, "vggss.json", json.dumps([entry("a", "x", boxes), entry("b", "y", [])])))
    assert found["a"] == ("x", ((0.0, 0.25, 0.5, 1.0),))
    assert found["b"] == ("y", ())
    huge = written(tmp_path, "huge.json", '[{"file": "a", "class": "x", "bbox": [[-1' + "0" * 400 + ", 0, 1, 1]]}]")
    assert read_annotations(huge)["a"].boxes == ((0.0, 0.0, 1.0, 1.0),)


@pytest.mark.parametrize(
    ("value", "match"),
    [
        ({}, "to be a list of entries with file, class and bbox, but got nothing in it"),
        ({"a": 1}, r"but got dict at the top\. Check that this is the vggss\.json"),
        ([], "but got nothing in it"),
        ([entry(), {"file": "b"}], "but got {'file': 'b'} as entry 2"),
        ([entry(), entry()], r"every file once in .*, but got a again as entry 2\. Remove it"),
        ([entry("../a")], "an id .*entry 1, but got '../a'"),
        ([entry(bbox=[[0, 0, 1]])], r"a box of four numbers in .*entry 1, but got \[0, 0, 1\]"),
        ([entry(bbox=[[0, 0, 1, float("nan")]])], "a box of four numbers"),
        ([entry(bbox=[[0, 0, 1, "1"]])], "a box of four numbers"),
        ([entry(bbox=[3])], "a box of four numbers in .*, but got 3"),
    ],
)
def test_what_is_no_vggss_json_is_refused(tmp_path: Path, value: object, match: str) -> None:
    with pytest.raises(DataError, match=match):
        read_annotations(written(tmp_path, "vggss.json", json.dumps(value)))


@pytest.mark.parametrize("text", ["a_1\nb_2\n", "", "[" * 100_000])
def test_what_is_no_json_is_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(DataError, match=r"vggss\.json to be JSON, but got"):
        read_annotations(written(tmp_path, "vggss.json", text))


def test_pairs_are_read_with_and_without_their_kind(tmp_path: Path) -> None:
    plain = written(tmp_path, "p.csv", "video,audio,label\r\na,a,non-sounding\r\n\r\na,b,non-sounding")
    assert read_pairs(plain) == [Pair("a", "a"), Pair("a", "b")]
    kinds = written(tmp_path, "k.csv", "audio,video,kind\nb,a,tough\nc,a,\n")
    assert read_pairs(kinds) == [Pair("a", "b", "tough"), Pair("a", "c")]


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("", r"columns video, audio in .*p\.csv, but got none\. Add video, audio to the names in its first line"),
        ("a,b,non-sounding\n", "columns video, audio in .*, but got a, b, non-sounding"),
        ("video,audio,label\n", "at least one negative in .*, but got none"),
        ("video,audio,label\na\n", "the two clips of a negative in .*line 2, but got 'a' and ''"),
        ("video,audio,label\na,/b,non-sounding\n", "line 2, but got '/b'"),
        (
            "video,audio,label\n\na,b,sounding\n",
            r"labelled non-sounding, but got sounding in .*line 3\. Leave that line",
        ),
        ("video,audio,kind\na,b,positive\n", "labelled non-sounding, but got positive"),
        ("video,audio\na,b\nc,d\na,b\n", "every pair once, but got a with b again in .*line 4"),
    ],
)
def test_what_is_no_list_of_pairs_is_refused(tmp_path: Path, text: str, match: str) -> None:
    with pytest.raises(DataError, match=match):
        read_pairs(written(tmp_path, "p.csv", text))


def test_negatives_are_named_by_what_is_seen_and_heard_and_labelled_by_the_sound() -> None:
    classes = {"a": "dog", "b": "dog", "c": "cat"}
    pairs = [Pair("a", "a"), Pair("a", "b"), Pair("a", "c"), Pair("a", "x"), Pair("x", "c"), Pair("b", "c", "mine")]
    assert negative_rows(pairs, lambda id: classes.get(id, "")) == [
        Row("a", "", "real"),
        Row("a+b", "dog", "hard", picture="a", sound="b"),
        Row("a+c", "cat", "easy", picture="a", sound="c"),
        Row("a+x", "", "unknown", picture="a", sound="x"),
        Row("x+c", "cat", "unknown", picture="x", sound="c"),
        Row("b+c", "cat", "mine", picture="b", sound="c"),
    ]


def test_a_positive_cannot_be_a_negative_too() -> None:
    with pytest.raises(DataError, match="Expected every clip of my set once, but got a again"):
        check_rows([Row("a"), Row("b"), Row("a", kind="real")], "my set")


def test_maps_of_the_real_boxes_are_those_of_the_raw_ones(shared: Path) -> None:
    path = shared / "metadata" / "vggss.json"
    found = read_annotations(path)
    raw = {one["file"]: one["bbox"] for one in json.loads(path.read_text())}
    assert len(found) == len(raw) == 5158
    assert len({one.label for one in found.values()}) == 221
    assert sum(len(boxes) for boxes in raw.values()) - sum(len(one.boxes) for one in found.values()) == 18
    changed = [id for id in raw if [tuple(box) for box in raw[id]] != list(found[id].boxes)]
    for id in changed + list(raw)[::50]:
        assert np.array_equal(truth_map(found[id].boxes, 224), truth_map(map(tuple, raw[id]), 224))
    assert {id for id, one in found.items() if not one.boxes} == {"M1P1xla8rg0_000000", "MKC9LvRivTM_000030"}
    assert all(0 <= a < c <= 1 and 0 <= b < d <= 1 for one in found.values() for a, b, c, d in one.boxes)
