"""Flickr-SoundNet: boxes of several people from XML, and negatives whose kind nobody knows."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from earsight.data.clips import open_set
from earsight.data.sets import flickr_soundnet
from earsight.data.truth import truth_map
from earsight.errors import DataError


def annotate(path: Path, *boxes: tuple[int, int, int, int], tag: str = "bbox") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    values = ["".join(f"<v>{value}</v>" for value in ("name", *box)) for box in boxes]
    path.write_text("<annotations>" + "".join(f"<one><{tag}>{v}</{tag}></one>" for v in values) + "</annotations>")


@pytest.fixture
def data(tmp_path: Path) -> Path:
    (tmp_path / "flickr_test.csv").write_text("11,202\r\n12,0\r\n13,917")
    (tmp_path / "flickr_10k.txt").write_text("21\n22")
    (tmp_path / "flickr_sup_train.txt").write_text("31\n22")
    (tmp_path / "flickr_test_plus_silent.csv").write_text(
        "video,audio,label\r\n11,12,non-sounding\r\n12,13,non-sounding"
    )
    return tmp_path


@pytest.mark.parametrize("folder", ["Annotations", "annotations", "xml", "flickr/Annotations", "flickr_soundnet/xml"])
def test_boxes_come_from_xml_and_two_people_must_agree(data: Path, folder: str) -> None:
    annotate(data / folder / "11.xml", (0, 0, 128, 128), (0, 0, 256, 128))
    annotate(data / folder / "12.xml", (100, 100, 256, 256))
    annotate(data / folder / "13.xml")
    rows = open_set("flickr_soundnet:test", data).rows
    assert [row.id for row in rows] == ["11", "12", "13"]
    assert {(row.label, row.kind, row.consensus) for row in rows} == {("", "positive", 2)}
    assert rows[0].boxes == ((0.0, 0.0, 0.5, 0.5), (0.0, 0.0, 1.0, 0.5))
    first = truth_map(rows[0].boxes, 224, rows[0].consensus)
    assert [first[0, 0], first[0, 200], first[200, 0]] == [1.0, 0.5, 0.0]
    second = truth_map(rows[1].boxes, 224, rows[1].consensus)
    assert [second[87, 87], second[86, 87], second[87, 86]] == [0.5, 0.0, 0.0]
    assert rows[2].boxes == ()


def test_the_kind_of_the_negatives_is_unknown_unless_the_list_says_it(data: Path) -> None:
    for id in (11, 12, 13):
        annotate(data / "Annotations" / f"{id}.xml", (0, 0, 128, 128))
    rows = open_set("flickr_soundnet", data).rows
    assert [(row.id, row.label, row.kind) for row in rows[3:]] == [("11+12", "", "unknown"), ("12+13", "", "unknown")]
    (data / "flickr_test_plus_silent.csv").write_text("video,audio,label,kind\n11,12,non-sounding,easy\n")
    assert open_set("flickr_soundnet", data).rows[-1].kind == "easy"


def test_training_lists_need_no_boxes(data: Path) -> None:
    assert [row.id for row in open_set("flickr_soundnet:10k", data).rows] == ["21", "22"]


def test_semi_supervised_training_sees_every_clip_once_and_boxes_of_the_annotated_alone(data: Path) -> None:
    for id in (22, 31):
        annotate(data / "Annotations" / f"{id}.xml", (0, 0, 128, 128), (0, 0, 128, 256))
    annotate(data / "Annotations" / "21.xml", (0, 0, 64, 64))  # a stray file gives its clip no boxes
    rows = open_set("flickr_soundnet:semi", data).rows
    assert [(row.id, len(row.boxes), row.consensus) for row in rows] == [("21", 0, 1), ("22", 2, 2), ("31", 2, 2)]
    (data / "Annotations" / "31.xml").unlink()
    with pytest.raises(
        DataError,
        match=r"boxes for the 2 clips of flickr_soundnet:semi .* none for 1: 31\. .* of a flickr_sup_train\.txt",
    ):
        open_set("flickr_soundnet:semi", data)


@pytest.mark.parametrize("split", ["test", "extended"])
def test_without_boxes_the_message_says_what_to_put_where(data: Path, split: str) -> None:
    annotate(data / "Annotations" / "11.xml", (0, 0, 128, 128))
    with pytest.raises(
        DataError, match=rf"boxes for the 3 clips of flickr_soundnet:{split} in .*Annotations/ID\.xml, but"
    ):
        open_set(f"flickr_soundnet:{split}", data)
    with pytest.raises(
        DataError, match=r"but got none for 2: 12, 13\. Put the XML files .* take them out of a flickr_te"
    ):
        open_set(f"flickr_soundnet:{split}", data)
    assert flickr_soundnet.ids(split, data)[:3] == ["11", "12", "13"]


def test_the_folder_must_be_given_where_boxes_are_needed(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EARSIGHT_METADATA", str(data))
    with pytest.raises(DataError, match=r"the folder of Flickr-SoundNet, .*, but got none\. Pass --data DIR"):
        open_set("flickr_soundnet:test")
    assert len(open_set("flickr_soundnet:10k")) == 2


def test_annotations_of_another_form_are_told(data: Path) -> None:
    for id in (11, 12, 13):
        annotate(data / "Annotations" / f"{id}.xml", (0, 0, 128, 128), tag="bndbox")
    with pytest.raises(DataError, match=r"bbox nodes in the XML files of .*Annotations, but got none in 3 files"):
        open_set("flickr_soundnet:test", data)


@pytest.mark.parametrize(
    ("split", "count"), [("10k", 10000), ("144k", 144000), ("supervised", 4750), ("semi", 14737), ("test", 250)]
)
def test_the_real_lists_have_the_known_lengths_and_overlaps(shared: Path, split: str, count: int) -> None:
    ids = flickr_soundnet.ids(split, shared)
    assert len(ids) == count
    overlap = {"10k": 1, "144k": 20, "supervised": 0, "semi": 1, "test": 250}
    assert len(set(ids) & set(flickr_soundnet.ids("test", shared))) == overlap[split]


def test_the_real_negatives_are_of_unknown_kind(shared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EARSIGHT_METADATA", str(shared / "metadata"))
    for id in flickr_soundnet.ids("test", None):
        annotate(tmp_path / "Annotations" / f"{id}.xml", (0, 0, 128, 128))
    rows = open_set("flickr_soundnet:extended", tmp_path).rows
    assert Counter(row.kind for row in rows) == {"positive": 250, "unknown": 250}
    assert [row.id for row in rows] == flickr_soundnet.ids("extended", None)
