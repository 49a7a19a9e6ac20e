"""Test clips in training lists: the same clip or the same video, found in any two lists."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from earsight.data.audit import Listing, audit, leaks, listing, overlap, pictures
from earsight.data.clips import ClipSet, open_set
from earsight.errors import DataError, EarsightError, UsageError
from earsight.types import Clip, Row

IDS = st.lists(st.builds("{}_{}".format, st.sampled_from("abcdef"), st.integers(0, 3)), max_size=15)


class Named(ClipSet):
    """A list of clips that nobody reads."""

    def __init__(self, name: str, rows: Sequence[Row]) -> None:
        super().__init__(name, rows)

    def read(self, index: int, rate: int, seconds: float, draw: int = 0) -> Clip:
        raise NotImplementedError


@settings(max_examples=100, deadline=None)
@given(train=IDS, test=IDS)
def test_every_clip_is_shared_or_clean_and_clean_lists_share_no_video(train: list[str], test: list[str]) -> None:
    def video_of(id: str) -> str:
        return id[0]

    found = overlap(train, test, video_of)
    assert set(found.same_clip) == set(train) & set(test)
    assert found.tested == len(set(test))
    assert {*found.same_clip, *(id for id, _ in found.same_video), *found.clean_test} == set(test)
    assert not {id[0] for id in found.clean_train} & {id[0] for id in test}
    assert not {id[0] for id in found.clean_test} & {id[0] for id in train}
    slow = {(a, b, "same clip" if a == b else "same video") for a in test for b in train if a[0] == b[0]}
    assert set(found.pairs) == slow
    assert len(found.pairs) == len(slow)
    for id, parts in found.same_video:
        assert id not in train
        assert parts
        assert all(part in train and part[0] == id[0] for part in parts)


def test_without_videos_the_id_itself_is_compared() -> None:
    found = overlap(["a_1", "b_1"], ["a_1", "b_2"])
    assert (found.same_clip, found.same_video, found.clean_train) == (("a_1",), (), ("b_1",))


def test_a_picture_counts_once_however_many_sounds_it_is_paired_with() -> None:
    rows = [Row("a"), Row("b"), Row("a+b", "", "easy", picture="a", sound="b"), Row("r", "", "real")]
    assert pictures(rows) == ("a", "b", "r")


def test_a_list_is_a_set_or_a_text_file(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("train-00001\nx\n")
    mine, toys = listing(str(tmp_path / "mine.txt")), listing("toybox", role="train")
    assert (mine.name, mine.ids, mine.tests) == ("mine.txt", ("train-00001", "x"), ())
    assert (toys.name, len(toys.ids), toys.tests) == ("toybox:train", 3072, ("toybox:val", "toybox:extended"))
    assert audit(mine, toys).same_clip == ("train-00001",)
    assert leaks("toybox:train", None, Named("toybox:test", [Row("test-00001")])) is None


def test_a_list_that_is_not_there_is_told(tmp_path: Path) -> None:
    for name in ("nolist.txt", str(tmp_path / "nolist")):
        with pytest.raises(DataError, match=r"Expected .*nolist.* to be readable UTF-8 text, but got: .*No such file"):
            listing(name)
    with pytest.raises(UsageError, match="Unknown set 'toybx', did you mean 'toybox'"):
        listing("toybx:train")
    with pytest.raises(UsageError, match=r"Expected a split of vggsound .*, but got '1k'"):
        listing("vggsound:1k")
    with pytest.raises(UsageError, match="Expected a split of vggsound for testing, but it has none"):
        listing("vggsound")


def test_leaks_are_told_in_one_line(tmp_path: Path) -> None:
    path = tmp_path / "train.txt"
    test = Named("vggss:test", [Row(f"video_00000{i}") for i in range(3)] + [Row("other_000001")])
    for text, said in (
        ("video_000000\nvideo_000001\n", "2 of 4 test clips are in the training list train.txt, 1 more shares a video"),
        ("video_000000\n", "1 of 4 test clips is in the training list train.txt, 2 more share a video with it"),
        ("other_000001\n", "1 of 4 test clips is in the training list train.txt"),
        ("other_000009\n", "1 of 4 test clips shares a video with the training list train.txt"),
        ("video_000009\n", "3 of 4 test clips share a video with the training list train.txt"),
    ):
        path.write_text(text)
        assert str(leaks(str(path), None, test)).startswith(said)
    path.write_text("else_000001\n")
    assert leaks(str(path), None, test) is None


def test_a_training_list_that_cannot_be_opened_is_told_in_that_line() -> None:
    said = leaks("nothing.txt", None, Named("toybox:test", [Row("a")]))
    assert said is not None
    assert said.startswith("Test clips in the training list nothing.txt could not be checked: Expected nothing.txt")
    assert "could not be checked: Unknown set" in str(leaks("nothing", None, Named("mine", [Row("a")])))


def test_a_test_set_of_no_known_name_is_compared_by_id(tmp_path: Path) -> None:
    (tmp_path / "train.txt").write_text("a\nb\n")
    assert leaks(str(tmp_path / "train.txt"), None, Named("mine", [Row("a"), Row("c")])) == (
        "1 of 2 test clips is in the training list train.txt"
    )


@pytest.mark.parametrize(
    ("train", "test", "clips", "same_clip", "same_video"),
    [
        ("vggsound:144k", "vggss:test", 5158, 3709, 75),
        ("vggsound:144k", "vggss:extended", 5537, 3709, 75 + 261),  # 379 real negatives are pictures of their own
        ("vggsound:10k", "vggss:test", 5158, 238, 14),
        ("vggsound:heard", "vggss:test", 5158, 0, 1),
        ("flickr_soundnet:144k", "flickr_soundnet:test", 250, 20, 0),
        ("flickr_soundnet:144k", "flickr_soundnet:extended", 250, 20, 0),
        ("flickr_soundnet:10k", "flickr_soundnet:test", 250, 1, 0),
    ],
)
def test_the_published_lists_share_what_is_known(
    shared: Path, train: str, test: str, clips: int, same_clip: int, same_video: int
) -> None:
    data = shared / "metadata"
    found = audit(listing(train, data, role="train"), listing(test, data))
    assert (found.tested, len(found.same_clip), len(found.same_video)) == (clips, same_clip, same_video)


def test_every_real_negative_that_leaks_is_another_part_of_a_training_video(shared: Path) -> None:
    data = shared / "metadata"
    real = {row.id for row in open_set("vggss:extended", data).rows if row.kind == "real"}
    found = audit(listing("vggsound:144k", data), listing("vggss:extended", data))
    assert not real & set(found.same_clip)
    assert len(real & {id for id, _ in found.same_video}) == 261


def test_the_leak_of_the_144k_list_is_told(shared: Path) -> None:
    data = shared / "metadata"
    assert leaks("vggsound:144k", data, open_set("vggss:test", data)) == (
        "3709 of 5158 test clips are in the training list vggsound:144k, 75 more share a video with it"
    )


def test_a_training_set_that_takes_no_folder_is_looked_at_without_the_test_sets(tmp_path: Path) -> None:
    assert leaks("toybox", tmp_path, Named("mine", [Row("a")])) is None


@pytest.mark.parametrize("spec", ["nothing", "nothing.txt"])
def test_a_training_list_that_was_typed_must_be_there(spec: str, tmp_path: Path) -> None:
    with pytest.raises(EarsightError, match="nothing"):
        leaks(spec, tmp_path, Named("mine", [Row("a")]), must=True)


@pytest.mark.parametrize("written", ["{}.mp4", "/data/frames/{}.jpg", "frames/{}", "C:\\\\clips\\\\{}.WAV"])
@pytest.mark.parametrize("beside", ["", "else_000001\n"])
def test_lists_that_name_clips_in_two_ways_are_refused(tmp_path: Path, written: str, beside: str) -> None:
    path, ids = tmp_path / "mine.txt", [f"video_00000{i}" for i in range(4)]
    path.write_text(beside + "".join(f"{written.format(id)}\n" for id in ids))
    test = Named("vggss:test", [Row(id) for id in ids])
    expected = (
        r"Expected names of clips in mine\.txt as vggss:test writes them, such as 'video_000000', but got '.+': 4 "
    )
    with pytest.raises(DataError, match=expected):
        audit(listing(str(path)), Listing(test.name, pictures(test.rows)))
    with pytest.raises(DataError, match=expected):
        leaks(str(path), None, test, must=True)
    assert "could not be checked: Expected names of clips" in str(leaks(str(path), None, test))
    with pytest.raises(DataError, match=r"in mine\.txt as train writes them"):
        audit(Listing("train", tuple(ids)), listing(str(path)))


def test_files_of_one_name_in_two_folders_are_two_clips_of_one_set_and_of_lists_alike() -> None:
    cats, dogs, flat = (tuple(f"{folder}{i}.jpg" for i in range(9)) for folder in ("cat/", "dog/", ""))
    assert audit(Listing("a.txt", cats), Listing("b.txt", dogs)).shared == 0
    assert audit(Listing("a", flat, module="folder"), Listing("b", dogs, module="folder")).shared == 0


def test_many_parts_of_one_video_are_no_other_way_of_writing() -> None:
    train = Listing("mine.txt", tuple(f"a_{i:06d}" for i in range(50)))
    assert audit(train, Listing("vggss:test", ("a_000090",), lambda id: id[:-7])).shared == 1


def test_names_of_another_build_are_told_where_a_file_shares_nothing(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("clip-1\nclip-2\n")
    assert leaks(str(tmp_path / "mine.txt"), None, Named("vggss:test", [Row("video_000001")])) == (
        "No test clip is in the training list mine.txt, but that may name clips in another way: 'clip-1' there, "
        "'video_000001' in vggss:test"
    )


def test_a_set_of_ones_own_tells_its_videos_and_its_tests_by_its_modules_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "own_bells_sets").mkdir()
    (tmp_path / "own_bells_sets" / "bells.py").write_text(BELLS)
    monkeypatch.syspath_prepend(str(tmp_path))
    spec = "own_bells_sets.bells"
    train = listing(spec, role="train")
    assert (train.name, train.tests) == ("bells:train", (f"{spec}:test",))
    assert listing(f"{spec}:test").tests == ()
    (tmp_path / "mine.txt").write_text("a_7\n")
    for test in (open_set(spec), open_set(spec, limit=1)):
        assert str(leaks(str(tmp_path / "mine.txt"), None, test)).startswith("1 of 1 test clips shares a video")


BELLS = """
from earsight.data.clips import ClipSet
from earsight.types import Row

SPLITS = ("train", "test")
DEFAULTS = {"train": "train", "val": "", "test": "test"}


class Bells(ClipSet):
    def read(self, index, rate, seconds, draw=0):
        raise NotImplementedError


def open(split, data):
    return Bells(f"bells:{split}", [Row("a_1" if split == "test" else "b_1", "bell")])


def video_of(id):
    return id[0]
"""
