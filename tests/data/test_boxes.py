"""Boxes of Flickr-SoundNet: scaled as published, and nothing in the file is trusted."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from earsight.data.boxes import LARGEST_XML, read_boxes_xml
from earsight.data.truth import truth_map
from earsight.errors import DataError


def bbox(*values: object) -> str:
    tags = ("name", "xmin", "ymin", "xmax", "ymax")
    return "<bbox>" + "".join(f"<{tag}>{value}</{tag}>" for tag, value in zip(tags, values, strict=False)) + "</bbox>"


def written(folder: Path, *nodes: str, name: str = "1.xml") -> Path:
    path = folder / name
    path.write_text(f"<?xml version='1.0'?><annotation><object>{''.join(nodes)}</object></annotation>")
    return path


def test_boxes_are_fractions_of_a_grid_of_256(tmp_path: Path) -> None:
    path = written(tmp_path, "<name>dog</name>", bbox("one", 64, 0, 128, 256), "<bbx/>", bbox("two", 0, 32, 64, 96))
    assert read_boxes_xml(path) == ((0.25, 0.0, 0.5, 1.0), (0.0, 0.125, 0.25, 0.375))


def test_boxes_of_all_children_count_and_other_levels_do_not(tmp_path: Path) -> None:
    path = tmp_path / "1.xml"
    one = bbox("x", 0, 0, 128, 128)
    path.write_text(f"<a>{one}<b>{one}</b><c>{one}<d>{one}</d></c></a>")
    assert read_boxes_xml(path) == ((0.0, 0.0, 0.5, 0.5),) * 2


def test_every_coordinate_scales_as_the_published_code_does(tmp_path: Path) -> None:
    assert int(224 * 100 / 256) == 87
    nodes = [bbox("x", v, 0, 256, 256) for v in range(256)]
    for v, box in enumerate(read_boxes_xml(written(tmp_path, *nodes))):
        row = truth_map([box], 224)[0]
        assert int(np.argmax(row)) == int(224 * v / 256)


def test_boxes_that_cover_nothing_are_left_out_and_others_cut_at_the_edge(tmp_path: Path) -> None:
    path = written(tmp_path, bbox("x", 9, 9, 9, 20), bbox("x", 200, 9, 100, 20), bbox("x", -8, 0, 300, 64))
    assert read_boxes_xml(path) == ((0.0, 0.0, 1.0, 0.25),)


@pytest.mark.parametrize("node", [bbox("x", 1, 2, 3), bbox("x", 1, 2, 3, "four"), bbox("x", 1, 2, 3, "9" * 400)])
def test_a_box_without_four_numbers_is_refused(tmp_path: Path, node: str) -> None:
    with pytest.raises(DataError, match=r"a bbox in .*1\.xml to hold a name and four whole numbers, but got 1, 2, 3"):
        read_boxes_xml(written(tmp_path, node))


BOMB = '<!DOCTYPE a [<!ENTITY x "y"><!ENTITY z "&x;&x;">]><a><b>&z;</b></a>'


@pytest.mark.parametrize("content", [BOMB.encode(), BOMB.encode("utf-16"), b"<!DOCTYPE a SYSTEM 'file:///x'><a/>"])
def test_entities_and_references_are_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "1.xml").write_bytes(content)
    with pytest.raises(DataError, match=r"plain XML in .*1\.xml, but got a DOCTYPE"):
        read_boxes_xml(tmp_path / "1.xml")


@pytest.mark.parametrize(
    "content",
    [b"", b"<a><b></a>", b"\xff\xd8\xff", b"{}", b"<a>&x;</a>", b"<?xml version='1.0' encoding='utf-7'?><a/>"],
)
def test_what_is_no_xml_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "1.xml").write_bytes(content)
    with pytest.raises(DataError, match=r"1\.xml to be XML, but got"):
        read_boxes_xml(tmp_path / "1.xml")


def test_a_large_file_is_refused_and_a_missing_one_told(tmp_path: Path) -> None:
    (tmp_path / "1.xml").write_bytes(b"<a>" + b" " * LARGEST_XML + b"</a>")
    with pytest.raises(DataError, match=r"at most 1,048,576 bytes in .*1\.xml, but got more"):
        read_boxes_xml(tmp_path / "1.xml")
    with pytest.raises(DataError, match=r"to read .*2\.xml, but got"):
        read_boxes_xml(tmp_path / "2.xml")
