"""A folder of pairs: rows, boxes and clips as written, and messages that name the line to correct."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from earsight.data.audit import audit, leaks, listing
from earsight.data.clips import open_set
from earsight.data.controls import with_audio
from earsight.errors import DataError, MediaError, UsageError
from earsight.media.write import VideoWriter, write_png, write_wav
from earsight.types import Row

PAIRS = """image,audio,start,cls,kind
images/dog1.png,audio/bark.wav,0.5,dog,single
images/dog1.png,audio/bark.wav,0.75,dog,multi
images/dog1.png,audio/moo.wav,0.25,cow,neg_offscreen
images/sky.png,audio/moo.wav,0,cow,neg_image_ambient
"""
BOXES = """image,cls,xc,yc,w,h
images/dog1.png,dog,0.5,0.5,0.5,0.25
images/dog1.png,dog,0.1,0.1,0.2,0.2
images/dog1.png,cat,0.9,0.9,0.1,0.1
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, value in {"dog1": 100, "sky": 200}.items():
        (tmp_path / "images").mkdir(exist_ok=True)
        write_png(tmp_path / f"images/{name}.png", np.full((3, 20, 30), value, np.uint8))
    (tmp_path / "audio").mkdir()
    for name, level in {"bark": 0.25, "moo": -0.5}.items():
        write_wav(tmp_path / f"audio/{name}.wav", np.full(32000, level, np.float32), 16000)
    for split in ("train", "val", "test"):
        (tmp_path / f"pairs_{split}.csv").write_text(PAIRS)
    (tmp_path / "boxes.csv").write_text(BOXES)
    return tmp_path


def test_rows_carry_class_kind_and_the_boxes_of_their_class(folder: Path) -> None:
    rows = open_set("folder:val", folder).rows
    assert [(row.id, row.label, row.kind) for row in rows] == [
        ("images/dog1+audio/bark@0.5", "dog", "positive"),
        ("images/dog1+audio/bark@0.75", "dog", "positive"),
        ("images/dog1+audio/moo@0.25", "cow", "offscreen"),
        ("images/sky+audio/moo@0", "cow", "image_ambient"),
    ]
    assert {(row.picture, row.sound) for row in rows[:2]} == {("images/dog1.png", "audio/bark.wav")}
    assert (rows[3].picture, rows[3].sound) == ("images/sky.png", "audio/moo.wav")
    assert rows[0].boxes[0] == pytest.approx((0.25, 0.375, 0.75, 0.625))
    assert rows[0].boxes[1] == pytest.approx((0.0, 0.0, 0.2, 0.2))
    assert [len(row.boxes) for row in rows] == [2, 2, 0, 0]


def named(folder: Path, lines: list[str]) -> list[Row]:
    """The rows of these lines, of a list that needs no boxes."""
    (folder / "pairs_train.csv").write_text("\n".join(["image,audio,start,cls,kind", *lines]))
    return list(open_set("folder:train", folder).rows)


def test_a_folder_without_folders_in_it_names_clips_by_their_files(tmp_path: Path) -> None:
    assert [row.id for row in named(tmp_path, ["dog.jpg,bark.wav,0.5,dog,single"])] == ["dog+bark@0.5"]


def test_files_of_one_name_in_two_folders_are_two_clips_in_any_order_of_the_list(tmp_path: Path) -> None:
    lines = [f"{cls}/001.jpg,{cls}/001.wav,0,{cls},single" for cls in ("cat", "dog")]
    rows = named(tmp_path, lines)
    assert [row.id for row in rows] == ["cat/001+cat/001@0", "dog/001+dog/001@0"]
    assert sorted(named(tmp_path, lines[::-1]), key=lambda row: row.id) == rows


def test_names_tell_pictures_apart_that_differ_in_their_ending_or_in_what_follows_a_plus(tmp_path: Path) -> None:
    lines = [f"{image},s.wav,0,dog,single" for image in ("a.jpg", "a.png", "b+c.jpg", "b+d.jpg", "e.mp4")]
    ids = [row.id for row in named(tmp_path, lines)]
    assert ids == ["a.jpg+s@0", "a.png+s@0", "b%2Bc+s@0", "b%2Bd+s@0", "e+s@0"]
    assert len({id.partition("+")[0] for id in ids}) == 5
    assert {row.id for row in named(tmp_path, lines[::-1])} == set(ids)


def test_a_clip_is_the_photo_with_the_sound_from_its_start(folder: Path) -> None:
    clip = open_set("folder", folder).read(2, 8000, 1.0)
    assert clip.id == "images/dog1+audio/moo@0.25"
    assert (clip.frame.shape, int(clip.frame[0, 0, 0])) == ((3, 20, 30), 100)
    assert (len(clip.waveform), clip.time) == (8000, 0.5)
    np.testing.assert_allclose(clip.waveform[100:-100], -0.5, atol=1e-3)


def test_the_image_may_be_a_video(folder: Path) -> None:
    brightening(folder / "images/v.mp4", 2.0)
    (folder / "pairs_train.csv").write_text("image,audio,start,cls,kind\nimages/v.mp4,audio/moo.wav,0.5,cow,single\n")
    frame = open_set("folder:train", folder).read(0, 8000, 1.0).frame
    assert frame.mean() == pytest.approx(120, abs=3)


def test_a_missing_file_is_told_when_its_clip_is_read(folder: Path) -> None:
    (folder / "audio/moo.wav").unlink()
    clips = open_set("folder:test", folder)
    assert clips.read(0, 8000, 1.0).id == "images/dog1+audio/bark@0.5"
    with pytest.raises(MediaError, match=r"moo\.wav: does not exist"):
        clips.read(2, 8000, 1.0)


def test_a_picture_and_a_sound_are_all_a_line_needs(folder: Path) -> None:
    (folder / "pairs_train.csv").write_text("image,audio\nimages/dog1.png,audio/bark.wav\n")
    clips = open_set("folder:train", folder)
    row = clips.rows[0]
    assert (row.id, row.label, row.kind, row.boxes) == ("images/dog1+audio/bark@0", "", "positive", ())
    assert clips.notes == ()
    assert len(clips.read(0, 8000, 1.0).waveform) == 8000
    (folder / "boxes.csv").write_text("image,xc,yc,w,h\nimages/dog1.png,0.5,0.5,0.5,0.5\n")
    assert open_set("folder:train", folder).rows[0].boxes == ((0.25, 0.25, 0.75, 0.75),)


def brightening(path: Path, seconds: float, sound: Path | None = None) -> None:
    """A video at 10 frames per second, each frame by 10 brighter than the one before."""
    with VideoWriter(path, 32, 32, Fraction(10), sound_from=sound) as out:
        for k in range(round(10 * seconds)):
            out.write(np.full((3, 32, 32), 20 + 10 * k, np.uint8), k / 10)


def test_a_video_alone_is_seen_and_heard_in_its_middle(folder: Path) -> None:
    brightening(folder / "v.mp4", 2.0, folder / "audio/bark.wav")
    (folder / "pairs_train.csv").write_text("image\nv.mp4\n")
    clips = open_set("folder:train", folder)
    assert (clips.rows[0].id, clips.rows[0].picture, clips.rows[0].sound) == ("v+v@middle", "v.mp4", "v.mp4")
    clip = clips.read(0, 8000, 1.0)
    assert (clip.id, clip.time, len(clip.waveform)) == ("v+v@middle", pytest.approx(0.5, abs=0.05), 8000)
    assert clip.frame.mean() == pytest.approx(120, abs=12)
    (folder / "pairs_train.csv").write_text("image,audio,start\nv.mp4,,0\nv.mp4,audio/moo.wav,\n")
    clips = open_set("folder:train", folder)
    assert [row.id for row in clips.rows] == ["v+v@0", "v+audio/moo@0"]
    assert clips.read(0, 8000, 0.4).frame.mean() == pytest.approx(40, abs=3)
    assert clips.read(1, 8000, 1.0).waveform.mean() == pytest.approx(-0.5, abs=0.01)


def empty(folder: Path, *names: str) -> None:
    """Files of these names, with nothing in them: to list a folder no file is opened."""
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).touch()


def test_files_of_the_same_name_are_pairs_without_any_list(tmp_path: Path) -> None:
    empty(
        tmp_path, "b.JPG", "b.wav", "a.png", "a.ogg", "dog/1.jpeg", "dog/1.flac", "c.mp4", ".hidden.jpg", ".git/x.wav"
    )
    empty(tmp_path, "Images/cat/1.jpg", "audio/cat/1.mp3", "set/frames/2.jpg", "set/sounds/2.m4a", "a.b.jpg", "a.b.wav")
    clips = open_set("folder:train", tmp_path)
    assert [(row.picture, row.sound) for row in clips.rows] == [
        ("a.png", "a.ogg"),
        ("a.b.jpg", "a.b.wav"),
        ("b.JPG", "b.wav"),
        ("c.mp4", "c.mp4"),
        ("Images/cat/1.jpg", "audio/cat/1.mp3"),
        ("dog/1.jpeg", "dog/1.flac"),
        ("set/frames/2.jpg", "set/sounds/2.m4a"),
    ]
    assert [row.id for row in clips.rows][:4] == ["a+a@0", "a.b+a.b@0", "b+b@0", "c+c@middle"]
    assert {(row.label, row.kind, row.boxes) for row in clips.rows} == {("", "positive", ())}
    assert clips.notes == ()
    assert open_set("folder", tmp_path, role="train", limit=2).rows[0] == clips.rows[0]


def test_files_without_a_partner_are_counted_and_named(tmp_path: Path) -> None:
    empty(tmp_path, "a.jpg", "a.wav", "dog/b.jpg", "cat/b.wav", "c.png", "c.jpg", "readme.txt", "boxes.csv")
    (tmp_path / "boxes.csv").write_text("image,xc,yc,w,h\n")
    (tmp_path / "elsewhere").symlink_to(tmp_path)
    clips = open_set("folder:train", tmp_path, limit=1)
    assert [row.id for row in clips.rows] == ["a+a@0"]
    assert clips.notes == (
        "not used: 3 pictures (without a sound of the same name): c.jpg, c.png, dog/b.jpg",
        "not used: 1 sound (without a picture of the same name): cat/b.wav",
        "not used: 1 file (neither picture, sound nor video by the ending): readme.txt",
        "not used: 1 folder (a link, which is not followed): elsewhere",
    )
    (tmp_path / "a.wav").unlink()
    with pytest.raises(DataError, match=r"but got no pair; not used: 4 pictures .*: a\.jpg, .* Rename them, or write"):
        open_set("folder:train", tmp_path)


def test_what_localize_wrote_is_no_part_of_the_pairs(tmp_path: Path) -> None:
    empty(tmp_path, "a.jpg", "a.wav", "a.earsight.png", "drum.mp4", "drum.earsight.png", "drum.earsight.mp4")
    empty(tmp_path, "drum.earsight.json")
    clips = open_set("folder:train", tmp_path)
    assert [row.id for row in clips.rows] == ["a+a@0", "drum+drum@middle"]
    (note,) = clips.notes
    assert note.startswith("not used: 4 files (written by earsight localize): a.earsight.png, drum.earsight.json, ")


@pytest.mark.parametrize(
    ("names", "match"),
    [
        (["a.jpg", "a.png", "a.wav"], r"more of 1: a\.jpg and a\.png and a\.wav\. Rename or remove"),
        (["a.jpg", "a.wav", "audio/a.ogg"], r"more of 1: a\.jpg and a\.wav and audio/a\.ogg"),
        (["v.mp4", "v.jpg"], r"more of 1: v\.jpg and v\.mp4"),
        (["v.mp4", "audio/v.wav"], r"more of 1: audio/v\.wav and v\.mp4"),
    ],
)
def test_names_that_could_be_several_pairs_are_refused(tmp_path: Path, names: list[str], match: str) -> None:
    empty(tmp_path, *names)
    with pytest.raises(DataError, match=f"one picture and one sound of each name in .*, or one video, but got {match}"):
        open_set("folder:train", tmp_path)


def test_what_another_list_names_is_not_trained_on(tmp_path: Path) -> None:
    empty(tmp_path, *(f"{name}.{ending}" for name in "abcd" for ending in ("jpg", "wav")))
    (tmp_path / "boxes.csv").write_text("image,xc,yc,w,h\na.jpg,0.5,0.5,0.5,0.5\n")
    (tmp_path / "pairs_val.csv").write_text("image,audio,kind\na.jpg,a.wav,\na.jpg,./b.wav,neg_easy\n")
    clips = open_set("folder:train", tmp_path)
    assert [row.id for row in clips.rows] == ["c+c@0", "d+d@0"]
    assert clips.notes == ("not used: 2 names (in another list): a, b",)
    assert [row.id for row in open_set("folder:val", tmp_path).rows] == ["a+a@0", "a+b@0"]


def test_files_whose_names_are_not_text_are_not_used(tmp_path: Path) -> None:
    empty(tmp_path, "a.jpg", "a.wav", "b\udcff.jpg", "b\udcff.wav")
    clips = open_set("folder:train", tmp_path)
    assert len(clips) == 1
    assert clips.notes[0].startswith("not used: 2 files (")


def test_boxes_are_optional_for_training_and_asked_for_in_tests(folder: Path) -> None:
    (folder / "boxes.csv").unlink()
    assert len(open_set("folder", folder, role="train")) == 4
    for split in ("val", "test"):
        with pytest.raises(
            DataError, match=r"a box for every positive pair of folder:\w+, but got none for 2 of 2: images/dog1\+"
        ):
            open_set(f"folder:{split}", folder)


def test_the_folder_must_be_given_and_be_there(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"Expected the folder of the set, but got none\. Pass --data"):
        open_set("folder")
    with pytest.raises(
        DataError, match=r"Expected a folder of pairs, but got .*nowhere, which is not there\. Check --data"
    ):
        open_set("folder", tmp_path / "nowhere")
    with pytest.raises(
        DataError,
        match=r"Expected pairs_test\.csv with columns image and audio \(.*\), but got none in .*\. Add it, with boxes",
    ):
        open_set("folder", tmp_path)
    with pytest.raises(DataError, match=r"Expected pairs_val\.csv .* To train without, use --val none"):
        open_set("folder:val", tmp_path)
    with pytest.raises(DataError, match=r"dog\.jpg and dog\.wav\) or videos in .*, but got no pair\. Rename them"):
        open_set("folder:train", tmp_path)


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("picture,audio,cls\na,b,c\n", r"Expected columns image in .*, but got picture, audio, cls\. Add image"),
        ("", "but got none. Add image"),
        ("image,cls\na.jpg,dog\n", r"a sound for a\.jpg in .*line 2, but got no audio\. Fill it in; only videos"),
        ("image,audio\n,b.wav\n", r"Expected a value for image in .*line 2, but got no image\. Fill it in"),
        ("image,audio,start\na.jpg,b.wav,middle\n", "Expected start of at least 0 in .*line 2, but got middle"),
        ("image\nv.mp4\nv.mp4\n", r"every pair once, but got v\.mp4 with v\.mp4 from its middle in .*line 3 and in"),
        (PAIRS + "../a.png,b.wav,1,dog,single\n", r"inside the folder in .*line 6, but got '\.\./a\.png'\. Put the"),
        (PAIRS + "a.png,audio/../../b.wav,1,dog,single\n", r"but got 'audio/\.\./\.\./b\.wav'\. Put the file into"),
        (PAIRS + "a.png,/etc/b.wav,1,dog,neg_x\n", "a path inside the folder in .*line 6, but got '/etc/b.wav'"),
        (PAIRS + "a\0.png,b.wav,1,dog,neg_x\n", "a path inside the folder in .*line 6, but got"),
        (
            PAIRS + "./images/dog1.png,audio//bark.wav,0.50,dog,neg_x\n",
            r"every pair once, but got images/dog1\.png with audio/bark\.wav from 0\.5 s in .*line 6 and in .*line 2\.",
        ),
        ("image,audio,start,cls,kind\n", "Expected at least one pair, but got none"),
        (PAIRS + "a.png,b.wav,soon,dog,single\n", r"start of at least 0 in .*line 6, but got soon\. Correct that line"),
        (PAIRS + "a.png,b.wav,-1,dog,single\n", "start of at least 0 in .*line 6, but got -1"),
        (PAIRS + "a.png,b.wav,nan,dog,single\n", "but got nan"),
        (PAIRS + "a.png,b.wav,1,dog,maybe\n", "kind single, multi or neg_<kind> in .*line 6, but got maybe"),
        (PAIRS + "a.png,b.wav,1,dog,neg_\n", "but got neg_"),
        (PAIRS + "a.png,,1,dog,single\n", r"line 6, but got no audio\. Fill it in"),
        (PAIRS + "a.png\n", r"line 6, but got no audio\. Fill it in"),
    ],
)
def test_a_wrong_line_of_pairs_is_named(folder: Path, text: str, match: str) -> None:
    (folder / "pairs_test.csv").write_text(text)
    with pytest.raises(DataError, match=match):
        open_set("folder", folder)


@pytest.mark.parametrize(
    ("line", "match"),
    [
        ("a.png,dog,0.5,0.5,2,0.1", "Expected w of 0 to 1 in .*line 5, but got 2"),
        (
            "a.png,dog,0.9,0.5,0.5,0.1",
            r"a box inside the picture in .*line 5, but got x0, y0, x1, y1 = 0\.65, 0\.45, 1\.15",
        ),
        ("a.png,dog,0.5,0.5,0,0.1", "a box inside the picture"),
        ("a.png,dog,x,0.5,0.1,0.1", "Expected xc of 0 to 1"),
    ],
)
def test_a_wrong_box_is_named(folder: Path, line: str, match: str) -> None:
    (folder / "boxes.csv").write_text(BOXES + line + "\n")
    with pytest.raises(DataError, match=match):
        open_set("folder", folder)


def test_a_file_that_is_not_text_is_told(folder: Path) -> None:
    (folder / "pairs_test.csv").write_bytes(b"\xff\xfe\x00\x80")
    with pytest.raises(DataError, match="to be readable UTF-8 text, but got"):
        open_set("folder", folder)
    (folder / "pairs_test.csv").write_text("image,audio,start,cls,kind\n" + "a" * 200_000 + ",b,0,c,single\n")
    with pytest.raises(DataError, match="to be csv, but got"):
        open_set("folder", folder)


def test_the_real_folder_opens_and_reads(shared_media: Path) -> None:
    data = shared_media / "coco_esc"
    for split in ("train", "val", "test"):
        clips = open_set(f"folder:{split}", data)
        assert len({row.id for row in clips.rows}) == len(clips)
        assert all(row.boxes for row in clips.rows if row.positive)
    assert set(Counter(row.kind for row in clips.rows)) >= {"positive", "offscreen", "image", "image_ambient"}
    for index in range(0, len(clips), len(clips) // 8):
        clip = clips.read(index, 22050, 3.0)
        assert clip.frame.shape == (3, 256, 256)
        assert 0 < len(clip.waveform) <= 3 * 22050


def test_no_clip_of_the_shuffled_control_hears_its_own_recording(tmp_path: Path) -> None:
    rows = named(tmp_path, [f"{i}.jpg,{i % 4}.wav,{i},dog,single" for i in range(12)])
    heard = with_audio(open_set("folder:train", tmp_path), "shuffled").sound_of  # type: ignore[attr-defined]
    assert all(rows[i].sound != rows[j].sound for i, j in enumerate(heard))


def test_pictures_of_two_folders_are_told_apart_by_what_they_hold(tmp_path: Path) -> None:
    for folder, colour in (("a", b"red"), ("b", b"blue")):
        (tmp_path / folder).mkdir()
        boxes = [f"{k}.jpg,dog,.5,.5,.5,.5" for k in (1, 2)]
        (tmp_path / folder / "boxes.csv").write_text("\n".join(["image,cls,xc,yc,w,h", *boxes]))
        named(tmp_path / folder, ["1.jpg,1.wav,0,dog,single", "2.jpg,2.wav,0,dog,single"])
        (tmp_path / folder / "pairs_test.csv").write_text((tmp_path / folder / "pairs_train.csv").read_text())
        (tmp_path / folder / "1.jpg").write_bytes(colour)
        (tmp_path / folder / "2.jpg").write_bytes(b"the same in both")
    tested = open_set("folder:test", tmp_path / "b")
    assert leaks("folder:train", tmp_path / "b", tested) == "2 of 2 test clips are in the training list folder:train"
    assert leaks("folder:train", tmp_path / "a", tested) == "1 of 2 test clips is in the training list folder:train"
    (tmp_path / "a" / "1.jpg").unlink()  # what cannot be looked at may be the same
    assert leaks("folder:train", tmp_path / "a", tested) == "2 of 2 test clips are in the training list folder:train"


def test_pictures_are_found_in_another_split_whatever_they_are_heard_with(tmp_path: Path) -> None:
    (tmp_path / "boxes.csv").write_text("image,cls,xc,yc,w,h\ncat/1.jpg,x,.5,.5,.5,.5\ndog/1.jpg,x,.5,.5,.5,.5\n")
    for split, lines in (
        ("train", ["cat/1.jpg,cat/1.wav,0,x,single"]),
        (
            "test",
            ["cat/1.jpg,cat/1.wav,2,x,single", "cat/1.jpg,cat/2.wav,0,x,single", "dog/1.jpg,cat/1.wav,0,x,single"],
        ),
    ):
        (tmp_path / f"pairs_{split}.csv").write_text("\n".join(["image,audio,start,cls,kind", *lines]))
    found = audit(listing("folder:train", tmp_path), listing("folder:test", tmp_path))
    assert (found.same_clip, found.clean_test) == (("cat/1.jpg",), ("dog/1.jpg",))
    assert leaks("folder:train", tmp_path, open_set("folder:test", tmp_path)) == (
        "1 of 2 test clips is in the training list folder:train"
    )
