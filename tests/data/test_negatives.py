"""Negatives by the paper's recipe: the shares asked for, no pair that could be a positive, and nothing made up."""

from __future__ import annotations

import csv
import time
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from earsight.data.lists import Pair
from earsight.data.negatives import build, counts, read, wanted, write
from earsight.errors import DataError, UsageError
from earsight.types import Row


def rows_of(*labels: str) -> list[Row]:
    return [Row(f"c{i:03d}", label) for i, label in enumerate(labels)]


MANY = rows_of(*(["dog", "cat", "bell", "train"] * 20))


def test_the_shares_are_those_of_the_recipe() -> None:
    found = build(MANY, count=80, real=["r1", "r2"])
    assert found[:2] == [Pair("r1", "r1", "real"), Pair("r2", "r2", "real")]
    assert counts(found) == wanted(80, 0.25, 2) == {"real": 2, "hard": 20, "easy": 58}
    assert list(counts(found)) == ["real", "hard", "easy"]


@settings(max_examples=60, deadline=None)
@given(
    labels=st.lists(st.sampled_from(["dog", "cat", "bell"]), min_size=2, max_size=25),
    count=st.integers(1, 60),
    share=st.floats(0, 1),
    seed=st.integers(0, 5),
)
def test_a_pair_is_never_made_twice_never_of_one_video_and_of_the_kind_it_says(
    labels: list[str], count: int, share: float, seed: int
) -> None:
    rows = rows_of(*labels)
    label = {row.id: row.label for row in rows}
    found = build(rows, count=count, same_class=share, seed=seed, video_of=lambda id: id[:-1])
    pairs = [(n.video, n.audio) for n in found]
    assert len(set(pairs)) == len(pairs)
    assert all(video[:-1] != audio[:-1] for video, audio in pairs)
    assert all((label[n.video] == label[n.audio]) == (n.kind == "hard") for n in found)
    ask = wanted(count, share, 0)
    assert all(number <= ask[kind] for kind, number in counts(found).items())
    for kind in ("hard", "easy"):  # fewer than asked for only where every possible pair is there
        possible = [
            (a.id, b.id)
            for a in rows
            for b in rows
            if a.id[:-1] != b.id[:-1] and (a.label == b.label) == (kind == "hard")
        ]
        assert counts(found).get(kind, 0) == min(ask[kind], len(possible))


def test_a_picture_is_used_again_only_after_all_others() -> None:
    assert max(Counter(n.video for n in build(MANY, count=80)).values()) == 1
    twice = Counter(n.video for n in build(MANY, count=100))
    assert len(twice) == 80
    assert max(twice.values()) == 2


def test_the_seed_decides_and_the_order_of_the_rows_does_not() -> None:
    one = build(MANY, count=80, seed=3)
    shuffled = [MANY[i] for i in np.random.default_rng(0).permutation(len(MANY))]
    assert build(shuffled, count=80, seed=3) == one
    assert build(MANY, count=80, seed=4) != one


def test_no_picture_hears_a_recording_that_is_its_own_in_any_clip() -> None:
    rows = [Row(f"p{i // 3}+s{i % 5}@{i}", "dog", picture=f"p{i // 3}.mp4", sound=f"s{i % 5}.wav") for i in range(15)]
    rows.append(Row("p9+p0@1", "dog", picture="p9.mp4", sound="p0.mp4"))
    own = {(row.picture, row.sound) for row in rows} | {(row.picture, row.picture) for row in rows}
    picture, sound = ({row.id: getattr(row, name) for row in rows} for name in ("picture", "sound"))
    found = build(rows, count=1000, same_class=1)
    assert found
    assert not [n for n in found if (picture[n.video], sound[n.audio]) in own]
    other = [(a, b) for a in rows for b in rows if (a.picture, b.sound) not in own]
    assert len(found) == len(other)


def test_the_time_a_pair_takes_does_not_grow_with_the_list() -> None:
    rows = [Row(f"{i:06d}") for i in range(100_000)]
    begun = time.process_time()
    assert len(build(rows, count=5000, same_class=0)) == 5000
    assert time.process_time() - begun < 8  # it is about one; to list all clips for each pair takes twenty


def test_only_positives_are_paired() -> None:
    found = build([*MANY, Row("n1", "dog", "easy")], count=80)
    assert "n1" not in {id for n in found for id in (n.video, n.audio)}


def test_a_class_with_a_single_clip_gives_no_hard_pair_and_none_is_filled_in() -> None:
    found = build(rows_of("dog", "cat", "bell"), count=3, same_class=1)
    assert found == []
    found = build(rows_of("dog", "cat", "bell", "bell"), count=4, same_class=1)
    assert {(n.video, n.audio, n.kind) for n in found} == {("c002", "c003", "hard"), ("c003", "c002", "hard")}


def test_clips_without_a_class_are_left_out_beside_clips_with_one() -> None:
    found = build(rows_of("dog", "dog", "cat", ""), count=4, same_class=0.5)
    assert "c003" not in {id for n in found for id in (n.video, n.audio)}


def test_without_classes_the_kind_is_unknown_and_no_share_can_be_asked_for() -> None:
    rows = rows_of("", "", "")
    assert counts(build(rows, count=6, same_class=0)) == {"unknown": 6}
    assert wanted(6, 0, 0, classes=False) == {"real": 0, "unknown": 6}
    with pytest.raises(UsageError, match=r"Expected classes to choose 25% of the pairs by, .* Pass --same-class 0"):
        build(rows, count=6)


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"rows": MANY[:1]}, "at least 2 positives to pair anew, but got 1"),
        ({"count": 0}, "a count of at least 1, but got 0"),
        ({"same_class": 1.5}, "same_class of 0 to 1, but got 1.5"),
        ({"same_class": float("nan")}, "same_class of 0 to 1, but got nan"),
        ({"seed": -1}, "a seed of at least 0, but got -1"),
        ({"real": ["x", "y", "z"], "count": 2}, "at most 2 real negatives, but got 3. Raise the count"),
        ({"real": ["c001"]}, "real negatives that are no positives of the set, but got c001. Take them off"),
        ({"real": ["x", "x"]}, "each real negative once, but got x twice"),
    ],
)
def test_what_cannot_be_built_is_told(change: dict[str, object], match: str) -> None:
    values: dict[str, object] = {"rows": MANY, "count": 10, **change}
    with pytest.raises(UsageError, match=match):
        build(values.pop("rows"), **values)  # type: ignore[arg-type]


def test_a_written_list_reads_back_the_same(tmp_path: Path) -> None:
    odd = [Pair("a,b+c@0.5", 'say "x"', "easy")]
    for found in (build(MANY, count=40, real=["r"]), odd):
        write(tmp_path / "n.csv", found)
        assert read(tmp_path / "n.csv", {}) == found
    raw = (tmp_path / "n.csv").read_bytes()
    assert raw.startswith(b"video,audio,label,kind\n")
    assert b"\r" not in raw
    assert b"non-sounding,easy\n" in raw


def test_kinds_are_worked_out_where_the_list_has_none(tmp_path: Path) -> None:
    (tmp_path / "n.csv").write_text("video,audio,label\nr,r,non-sounding\na,b,x\na,c,x\na,d,x\n")
    found = read(tmp_path / "n.csv", {"a": "dog", "b": "dog", "c": "cat"})
    assert [n.kind for n in found] == ["real", "hard", "easy", "unknown"]


@pytest.mark.parametrize(
    ("text", "match"),
    [
        (None, r"Expected a csv file of negatives, but got .*n\.csv, which is not there\. Write one with"),
        (b"\xff\xfe\x80", r"to be readable UTF-8 text, but got: .* Check its name, or get the file again"),
        (b"", r"Expected columns video, audio in .*, but got none\. Add video, audio to the names in"),
        (b"a,b\n1,2\n", "but got a, b"),
        (b"video,audio\n", r"Expected at least one negative in .*, but got none\. Write it or get it again"),
        (b"video,audio\na,\n", r"Expected the two clips of a negative in .*line 2, but got 'a' and ''\. Correct"),
        (b"video,audio\na\n", "but got 'a' and ''"),
        (b'video,audio\na,"b\nc"\na,\n', "in .*line 4, but got 'a' and ''"),
        (b"video,audio,kind\na,b,positive\n", r"labelled non-sounding, but got positive in .*line 2\. Leave"),
        (b"video,audio\na,b\na,b\n", r"Expected every pair once, but got a with b again in .*line 3\. Leave it out"),
        (b"video,audio\n" + b"a" * 200_000, r"to be csv, but got: .*\. Save it again"),
    ],
)
def test_a_list_that_cannot_be_used_says_where(tmp_path: Path, text: bytes | None, match: str) -> None:
    if text is not None:
        (tmp_path / "n.csv").write_bytes(text)
    with pytest.raises(DataError, match=match):
        read(tmp_path / "n.csv", {})


def test_the_published_list_has_the_kinds_of_the_paper(shared: Path) -> None:
    from earsight.data.lists import read_annotations

    folder = shared / "metadata"
    labels = {id: entry.label for id, entry in read_annotations(folder / "vggss.json").items()}
    found = read(folder / "vggss_test_plus_silent.csv", labels)
    assert counts(found) == {"real": 379, "hard": 1185, "easy": 3594}
    with (folder / "vggss_test_plus_silent.csv").open(newline="") as file:
        assert [(n.video, n.audio) for n in found] == [(r["video"], r["audio"]) for r in csv.DictReader(file)]
    assert counts(read(folder / "flickr_test_plus_silent.csv", {})) == {"unknown": 250}
