"""Categories from classes and from a tagger's files, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from earsight.category_labels import from_classes, from_files, read_tagged, targets
from earsight.data import files
from earsight.errors import DataError, EarsightError, UsageError
from earsight.types import Row

ROWS = [Row("a", "dog"), Row("b", "violin"), Row("c", "cat"), Row("d", "dog")]
TAGS = "id,animal,music\nd,0.75,0.25\nc,1,0\nb,0,1\na,0.5,0.5\nunused,0,0\n"
WANTED = [[0.5, 0.5], [0.0, 1.0], [1.0, 0.0], [0.75, 0.25]]


def write(path: Path, text: str) -> str:
    path.write_text(text, encoding="utf-8")
    return str(path)


def save(path: Path, **arrays: Any) -> str:
    with path.open("wb") as file:
        np.savez(file, **arrays)
    return str(path)


def test_targets_are_one_hot_for_categories_and_unchanged_for_probabilities() -> None:
    index = torch.tensor([2, 0])
    assert targets(torch.tensor([1, 0, 2]), index, 3).tolist() == [[0, 0, 1], [0, 1, 0]]
    assert targets(torch.tensor(WANTED), index, 2).tolist() == [[1.0, 0.0], [0.5, 0.5]]


def test_a_clip_without_a_label_is_of_no_category() -> None:
    assert targets(torch.tensor([-1, 1]), torch.tensor([0, 1]), 2).tolist() == [[0, 0], [0, 1]]


def test_every_class_is_a_category_of_its_own_in_the_order_of_the_alphabet() -> None:
    assert from_classes(ROWS, 3).tolist() == [1, 2, 0, 1]
    assert from_classes(list(reversed(ROWS)), 3).tolist() == [1, 0, 2, 1]


def test_a_part_of_the_list_may_lack_classes() -> None:
    assert from_classes(ROWS[:2], 3).tolist() == [0, 1]


def test_a_file_sorts_classes_into_categories_in_its_own_order(tmp_path: Path) -> None:
    groups = write(tmp_path / "groups.csv", "class,category\nviolin,music\n\ncat,animal\n dog , animal\ntuba,music\n")
    assert from_classes(ROWS, 2, groups).tolist() == [1, 0, 1, 1]


def test_clips_without_a_class_are_refused_with_what_to_do() -> None:
    with pytest.raises(DataError, match=r"a class for every training clip, but got none for 1 of 2 \(b\)\. Train on a"):
        from_classes([Row("a", "dog"), Row("b")], 2)
    with pytest.raises(DataError, match=r"none for 7 of 7 .*and 2 more.*use --method.labels clusters or file"):
        from_classes([Row(str(i)) for i in range(7)], 2)


def test_more_classes_than_categories_are_refused_with_the_number_to_set() -> None:
    with pytest.raises(
        UsageError, match=r"at most 2 classes .* but got 3\. Set --method.categories 3, or .*class-groups"
    ):
        from_classes(ROWS, 2)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("dog,animal\n", r"Expected columns class, category in .*groups.csv, but got dog, animal\. Add"),
        ("", r"Expected columns class, category in .*groups.csv, but got none"),
        ("class,category\ndog\n", r"one category for one class in .*, line 2, but got dog, no category\. Correct"),
        ("class,category\n,animal\n", "line 2, but got no class, animal"),
        ("class,category\ndog,a\ndog,b\n", "line 3, but got dog, b again"),
        (
            "class,category\ndog,animal\n",
            r"Expected 2 categories in .*, but got 1\. Set --method.categories 1, or name",
        ),
        ("class,category\ndog,a\nrat,b\n", r"every class of the training list in .* none for cat, violin\. Add a line"),
    ],
)
def test_a_file_of_classes_that_does_not_fit_is_refused(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(EarsightError, match=message):
        from_classes(ROWS, 2, write(tmp_path / "groups.csv", text))


def test_a_taggers_csv_is_read_by_id_whatever_its_order(tmp_path: Path) -> None:
    path = write(tmp_path / "tags.csv", TAGS)
    for labels in (*from_files(ROWS, 2, path, ""), *from_files(ROWS, 2, "", path)):
        assert labels.dtype == torch.float32
        assert labels.tolist() == WANTED


def test_sounds_and_pictures_may_have_files_of_their_own(tmp_path: Path) -> None:
    sounds = write(tmp_path / "sounds.csv", TAGS)
    pictures = write(tmp_path / "pictures.csv", "id,animal,music\n" + "".join(f"{id},0,0.125\n" for id in "abcd"))
    heard, seen = from_files(ROWS, 2, sounds, pictures)
    assert heard.tolist() == WANTED
    assert seen.tolist() == [[0.0, 0.125]] * 4


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.uint8])
def test_an_npz_may_hold_both_or_one_for_both(tmp_path: Path, dtype: Any) -> None:
    names = {"ids": np.array(list("abcd")), "names": np.array(["animal", "music"])}
    audio, picture = np.eye(4, 2, dtype=dtype), np.ones((4, 2), dtype=dtype)
    heard, seen = from_files(ROWS, 2, save(tmp_path / "both.npz", audio=audio, picture=picture, **names), "")
    assert (heard.tolist(), seen.tolist()) == (audio.tolist(), picture.tolist())
    for name in ("audio", "picture"):
        heard, seen = from_files(ROWS, 2, "", save(tmp_path / "one.npz", **{name: audio}, **names))
        assert heard.tolist() == seen.tolist() == audio.tolist()


def test_without_a_file_there_are_no_labels_from_files() -> None:
    with pytest.raises(
        UsageError, match=r"Expected a tagger's file .* but got none\. Name one with --method.sound-labels"
    ):
        from_files(ROWS, 2, "", "")


def test_another_number_of_categories_than_the_settings_have_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "tags.csv", TAGS)
    with pytest.raises(
        UsageError, match=r"Expected 7 categories in .*, but got 2\. Set --method.categories 2, or name"
    ):
        from_files(ROWS, 7, path, "")


def test_files_of_sounds_and_pictures_must_name_the_same_categories(tmp_path: Path) -> None:
    one, two = (
        write(tmp_path / "one.csv", TAGS),
        write(tmp_path / "two.csv", TAGS.replace("animal,music", "music,animal")),
    )
    with pytest.raises(
        DataError, match=r"the same categories in .* but got animal, music and music, animal\. Give both"
    ):
        from_files(ROWS, 2, one, two)


def test_a_training_clip_that_the_tagger_did_not_see_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "tags.csv", TAGS)
    with pytest.raises(
        DataError, match=r"every training clip in .*tags.csv, but got none for 1 of 5 \(new\)\. Run the"
    ):
        from_files([*ROWS, Row("new")], 2, path, "")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", r"Expected id and a column for each category in .*, but got nothing\. Add the first line"),
        ("a,0.5,0.5\n", r"Expected id and a column for each category in .*, but got a,0.5,0.5"),
        ("id\na\n", r"Expected id and a column for each category in .*, but got id\. Add"),
        ("id,x,y\na,0.5,high\n", r"Expected 2 numbers in .*, line 2, but got 0.5,high\. Correct that line"),
        ("id,x,y\n\na,0.5\n", r"Expected 2 numbers in .*, line 3, but got 0.5\. Correct that line"),
        ("id,x,y\na,0.5,0.5,0.5\n", r"Expected 2 numbers in .*, line 2, but got 0.5,0.5,0.5"),
        ("id,x,y\na,0,1\na,1,0\n", r"Expected every id once in .*, but got a again\. Leave all but one out"),
        ("id,x,x\na,0,1\n", "Expected every category once in .*, but got x again"),
        ("id,x,y\na,0,-3.5\n", r"Expected probabilities between 0 and 1 in .*, but got -3.5\. Save what comes after"),
        ("id,x,y\na,0,nan\n", "Expected probabilities between 0 and 1 in .*, but got nan"),
    ],
)
def test_a_csv_that_is_none_of_a_tagger_is_refused(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(DataError, match=message):
        read_tagged(Path(write(tmp_path / "tags.csv", text)))


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        (
            {"ids": ["a"], "names": ["x"]},
            r"Expected the arrays ids, names, and audio or picture in .*, but got ids, names",
        ),
        ({"maps": [1.0]}, r"audio or picture in .*, but got none\. Save it with np.savez"),
        (
            {"ids": ["a"], "names": ["x"], "audio": [[0.5, 0.5]]},
            r"numbers \(1, 1\) as audio .* but got float64 \(1, 2\)",
        ),
        ({"ids": ["a"], "names": ["x"], "audio": [["0.5"]]}, r"numbers \(1, 1\) as audio in .*, but got <U3 \(1, 1\)"),
        ({"ids": np.array([None]), "names": ["x"]}, "to be an .npz file of plain arrays, but got: Object arrays"),
        (
            {"ids": np.frombuffer(b"\xff\xff\xff\xff", "<U1"), "names": ["x"], "audio": [[0.5]]},
            "to be an .npz file of plain arrays, but got: invalid maximum character",
        ),
    ],
)
def test_an_npz_with_other_arrays_is_refused(tmp_path: Path, arrays: dict[str, Any], message: str) -> None:
    with pytest.raises(DataError, match=message):
        read_tagged(Path(save(tmp_path / "tags.npz", **arrays)))


def test_an_npz_that_unpacks_to_far_more_than_it_has_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "MOST_PACKED", 1 << 20)
    arrays = {"ids": np.arange(1 << 17).astype("U8"), "names": ["x"], "audio": np.zeros((1 << 17, 1))}
    np.savez(tmp_path / "stored.npz", **arrays)
    assert len(read_tagged(tmp_path / "stored.npz").ids) == 1 << 17
    np.savez_compressed(tmp_path / "packed.npz", **arrays)
    with pytest.raises(DataError, match="5 MiB when unpacked, and at most 1 are"):
        read_tagged(tmp_path / "packed.npz")


@pytest.mark.parametrize("content", [b"", b"not an archive", None])
def test_a_file_that_is_no_npz_is_refused(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "tags.npz"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(
        DataError, match=r"Expected .*tags.npz to be an .npz file of plain arrays, but got: .*Save it with"
    ):
        read_tagged(path)


def test_a_csv_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"Expected .*tags.csv to be readable UTF-8 text, but got: "):
        read_tagged(tmp_path / "tags.csv")
