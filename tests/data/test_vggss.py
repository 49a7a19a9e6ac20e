"""VGG-SS: splits, negatives and their kinds, on small lists and on the real ones."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from earsight.data.clips import open_set
from earsight.data.sets import vggss
from earsight.data.truth import truth_map
from earsight.errors import DataError, MediaError
from earsight.types import Row

A, B, C, D = "aaaaaaaaaaa_000001", "bbbbbbbbbbb_000002", "ccccccccccc_000003", "ddddddddddd_000004"
LATER, STRANGE = "ccccccccccc_000077", "eeeeeeeeeee_000000"
CLASSES = {A: "dog", B: "dog", C: "cat", D: "choir"}


@pytest.fixture
def data(tmp_path: Path) -> Path:
    entries = [{"file": id, "class": name, "bbox": [[0, 0, 0.5, 0.5]]} for id, name in CLASSES.items()]
    entries[1]["bbox"] = [[0.4, 0.2, -2.88e16, 0.9]]
    (tmp_path / "vggss.json").write_text(json.dumps(entries))
    lists = {"test": (A, B, C, D), "heard_test": (A, B), "unheard_test": (C,)}
    for name, ids in lists.items():
        (tmp_path / f"vggss_{name}.csv").write_text("\r\n".join(ids))
    negatives(tmp_path, (LATER, LATER), (STRANGE, STRANGE), (A, B), (C, A), (A, C), (D, A))
    return tmp_path


def negatives(folder: Path, *pairs: tuple[str, str]) -> None:
    lines = "\r\n".join(f"{video},{audio},non-sounding" for video, audio in pairs)
    (folder / "vggss_test_plus_silent.csv").write_text(f"video,audio,label\r\n{lines}")


def shown(rows: tuple[Row, ...]) -> list[tuple[str, str, str]]:
    return [(row.id, row.label, row.kind) for row in rows]


def test_positives_keep_the_order_of_the_list_and_those_without_a_box(data: Path) -> None:
    rows = open_set("vggss:test", data).rows
    assert shown(rows) == [(id, name, "positive") for id, name in CLASSES.items()]
    assert [len(row.boxes) for row in rows] == [1, 0, 1, 1]


def test_the_extended_set_adds_the_negatives_with_their_kinds(data: Path) -> None:
    rows = open_set("vggss", data).rows
    assert shown(rows[:4]) == shown(open_set("vggss:test", data).rows)
    assert shown(rows[4:]) == [
        (LATER, "", "real"),
        (STRANGE, "", "real"),
        (f"{A}+{B}", "dog", "hard"),
        (f"{C}+{A}", "dog", "easy"),
        (f"{A}+{C}", "cat", "easy"),
        (f"{D}+{A}", "dog", "easy"),
    ]
    assert (rows[6].picture, rows[6].sound) == (A, B)


def test_heard_and_unheard_take_the_negatives_whose_picture_is_of_their_classes(data: Path) -> None:
    heard, unheard = (open_set(f"vggss:{name}_extended", data).rows for name in ("heard", "unheard"))
    assert [row.id for row in heard] == [A, B, f"{A}+{B}", f"{A}+{C}"]
    assert [row.id for row in unheard] == [C, LATER, f"{C}+{A}"]


def test_a_clip_without_an_entry_in_the_json_is_named(data: Path) -> None:
    (data / "vggss_test.csv").write_text(f"{A}\n{STRANGE}\n")
    with pytest.raises(
        DataError, match=rf"every clip of vggss_test\.csv in .*json, but got none for 1 of 2: {STRANGE}"
    ):
        open_set("vggss:test", data)


def test_a_positive_that_is_listed_as_a_real_negative_is_refused(data: Path) -> None:
    negatives(data, (A, A))
    with pytest.raises(DataError, match=rf"every clip of vggss:extended once, but got {A} again"):
        open_set("vggss:extended", data)


def test_opening_needs_no_media_and_reading_says_what_is_missing(data: Path) -> None:
    with pytest.raises(MediaError, match=rf"{A}: has no picture"):
        open_set("vggss:test", data).read(0, 8000, 1.0)


def test_counts_and_sizes_of_the_real_list_are_the_published_ones(shared: Path) -> None:
    rows = open_set("vggss:extended", shared).rows
    assert Counter(row.kind for row in rows) == {"positive": 5158, "real": 379, "easy": 3594, "hard": 1185}
    assert all(row.label for row in rows if row.kind != "real")
    test = open_set("vggss:test", shared).rows
    assert test == rows[:5158]
    areas = np.array([truth_map(row.boxes, 224, row.consensus).sum() for row in test])
    assert np.histogram(areas, [0, 1024, 9216, 20736, np.inf])[0].tolist() == [134, 1796, 1726, 1502]
    assert round(100 * float(np.mean(areas / 224**2 >= 0.5)), 2) == 21.95
    assert [row.id for row in test if not row.boxes] == ["M1P1xla8rg0_000000", "MKC9LvRivTM_000030"]


def test_heard_and_unheard_of_the_real_list_share_no_class(shared: Path) -> None:
    heard, unheard, test = (open_set(f"vggss:{split}", shared).rows for split in ("heard", "unheard", "test"))
    assert (len(heard), len(unheard)) == (2564, 2575)
    classes = [{row.label for row in rows} for rows in (heard, unheard)]
    assert [len(names) for names in classes] == [110, 110]
    assert not classes[0] & classes[1]
    neither = {row.id: row.label for row in test}
    for row in heard + unheard:
        del neither[row.id]
    assert list(neither.values()) == ["singing choir"] * 19


def test_negatives_of_the_real_list_go_to_heard_unheard_or_the_choir(shared: Path) -> None:
    kinds = [Counter(row.kind for row in open_set(f"vggss:{s}_extended", shared).rows) for s in ("heard", "unheard")]
    assert kinds[0] == {"positive": 2564, "real": 196, "easy": 1782, "hard": 598}
    assert kinds[1] == {"positive": 2575, "real": 180, "easy": 1795, "hard": 585}


def test_the_video_of_a_clip_is_its_id_without_the_second(shared: Path) -> None:
    ids = vggss.ids("extended", shared)
    assert len(ids) == len(set(ids)) == 10316
    assert all(len(vggss.video_of(id)) == 11 for id in ids)
