"""VGGSound: the published training lists, and the user's own vggsound.csv."""

from __future__ import annotations

from pathlib import Path

import pytest

from earsight.data.clips import open_set
from earsight.data.sets import vggsound
from earsight.errors import DataError

TABLE = """---g-f_I2yQ,1,people marching,train
--0PQM4-hqg,30,"waterfall, burbling",train
--56QUhyDQM,185,playing tennis,test
---g-f_I2yQ,1,people marching,train
"""


@pytest.fixture
def data(tmp_path: Path) -> Path:
    (tmp_path / "vggss_10k.txt").write_text("--0PQM4-hqg_000030\n--56QUhyDQM_000185\n--5OkAjCI7g_000040")
    return tmp_path


def test_a_list_holds_ids_alone(data: Path) -> None:
    rows = open_set("vggsound:10k", data).rows
    assert [row.id for row in rows] == ["--0PQM4-hqg_000030", "--56QUhyDQM_000185", "--5OkAjCI7g_000040"]
    assert {(row.label, row.kind, row.boxes) for row in rows} == {("", "positive", ())}


def test_the_users_table_gives_the_classes_and_the_full_list(data: Path) -> None:
    (data / "metadata").mkdir()
    (data / "metadata" / "vggsound.csv").write_text(TABLE)
    assert [row.label for row in open_set("vggsound:10k", data).rows] == ["waterfall, burbling", "playing tennis", ""]
    full = open_set("vggsound:full", data).rows
    assert [(row.id, row.label) for row in full] == [
        ("---g-f_I2yQ_000001", "people marching"),
        ("--0PQM4-hqg_000030", "waterfall, burbling"),
    ]
    assert vggsound.ids("full", data) == [row.id for row in full]


@pytest.mark.parametrize("table", [None, "--56QUhyDQM,185,playing tennis,test\n"])
def test_without_the_users_table_there_is_no_full_list(data: Path, table: str | None) -> None:
    if table:
        (data / "vggsound.csv").write_text(table)
    with pytest.raises(DataError, match=r"vggsound\.csv with training rows .*, but got none in .* No address of it is"):
        open_set("vggsound:full", data)
    with pytest.raises(DataError, match=r"but got none in no folder \(--data was not given\)"):
        vggsound.ids("full", None)


@pytest.mark.parametrize(
    ("line", "match"),
    [
        ("youtube_id,start,label,split", r"id,start,label,split \(train or test\) in .*line 5, but got youtube_id"),
        ("abc,1,dog,val", "line 5, but got abc,1,dog,val"),
        ("abc,1", "line 5, but got abc,1"),
        ("---g-f_I2yQ,1,dog,train", r"one class and split for ---g-f_I2yQ_000001, but got another in .*line 5"),
        ("---g-f_I2yQ,1,people marching,test", "one class and split for ---g-f_I2yQ_000001"),
    ],
)
def test_a_wrong_line_of_the_users_table_is_named(data: Path, line: str, match: str) -> None:
    (data / "vggsound.csv").write_text(TABLE + line + "\n")
    with pytest.raises(DataError, match=match):
        open_set("vggsound:10k", data)


@pytest.mark.parametrize(
    ("split", "count", "tested"), [("144k", 144000, 3709), ("10k", 10000, 238), ("heard", 59468, 0)]
)
def test_the_real_lists_have_the_known_lengths_and_overlaps(shared: Path, split: str, count: int, tested: int) -> None:
    ids = vggsound.ids(split, shared)
    assert len(open_set(f"vggsound:{split}", shared)) == len(ids) == count
    assert len(set(ids) & {row.id for row in open_set("vggss:test", shared).rows}) == tested
