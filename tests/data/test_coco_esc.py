"""Facts about coco_esc: its two layouts, what is packed of them, draws, and files that are missing or damaged."""

from __future__ import annotations

import csv
import json
import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from earsight.cli import main
from earsight.data.clips import Limited, open_set
from earsight.data.coco import lists
from earsight.data.controls import with_audio
from earsight.data.pairs import PairSet
from earsight.errors import DataError, MediaError, UsageError
from earsight.types import floats
from tiny import coco_trees

Output = pytest.CaptureFixture[str]
SMALL = ("--size", "16", "--rate", "2000", "--shard-rows", "100")


@pytest.fixture(scope="module")
def trees(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """COCO and ESC-50 with the photos and sounds of the validation list, and all annotations."""
    return coco_trees.official(tmp_path_factory.mktemp("official"), ("val",))


@pytest.fixture(scope="module")
def pack(trees: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("packs") / "pack"
    assert main(["data", "prepare", "coco_esc:val", *given(trees), "--out", str(out), *SMALL]) == 0
    return out


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return coco_trees.folder(tmp_path_factory.mktemp("folder"), ("val",))


def given(trees: tuple[Path, Path]) -> list[str]:
    return ["--coco", str(trees[0]), "--esc50", str(trees[1])]


@pytest.mark.slow
def test_a_pack_of_the_published_layouts_has_the_pairs_of_the_shipped_lists(tmp_path: Path, capsys: Output) -> None:
    trees, out = coco_trees.official(tmp_path), tmp_path / "pack"
    assert main(["data", "prepare", "coco_esc", *given(trees), "--out", str(out), *SMALL]) == 0
    assert "coco_esc:photos_train: 1342 of 1342 clips packed" in capsys.readouterr().out
    for name, split in (("train", "train"), ("val", "val"), ("test", "extended")):
        with Path(lists.__file__).with_name(f"pairs_{name}.csv").open() as file:
            listed = [(r["photo"], r["cls"], r["kind"], r["sound"], float(r["start"])) for r in csv.DictReader(file)]
        clips = open_set(f"coco_esc:{split}", out)
        assert isinstance(clips, PairSet)
        found = [
            (row.picture, row.label, row.kind, *clips.heard(i, 0))
            for i, row in enumerate(clips.rows)
            if row.kind not in ("silence", "noise")
        ]
        positive = {"single": "positive", "multi": "positive"}
        assert found == [(p, c, positive.get(k, k), s, t) for p, c, k, s, t in listed]
        clips.read(len(clips) - 1, 2000, 3.0)
    again = tmp_path / "again"
    assert main(["data", "prepare", "coco_esc:train", *given(trees), "--out", str(again), *SMALL]) == 0
    for path in again.rglob("*"):
        if path.is_file() and "pack.txt" not in path.name:
            assert path.read_bytes() == (out / path.relative_to(again)).read_bytes()


def test_pack_and_folder_give_the_same_rows_and_sounds(pack: Path, folder: Path) -> None:
    packed, loose = open_set("coco_esc:val", pack), open_set("coco_esc:val", folder)
    assert packed.rows == loose.rows
    assert packed.list_hash() == loose.list_hash()
    for i in (0, 100, len(packed) - 1):
        for seconds in (1.0, 3.0, 5.0):
            one, two = packed.read(i, 2000, seconds), loose.read(i, 2000, seconds)
            assert (one.id, one.time) == (two.id, two.time)
            np.testing.assert_allclose(floats(one.waveform), floats(two.waveform), atol=1e-4)
        assert one.frame.shape == (3, 16, 16)  # squeezed into a square
        assert two.frame.shape == (3, 12, 16)
        assert abs(float(one.frame.mean()) - float(two.frame.mean())) < 3


def test_a_box_is_that_of_the_annotation(pack: Path) -> None:
    row = open_set("coco_esc:val", pack).rows[0]
    x, y, w, h = coco_trees.bbox(row.picture)
    expected = (x / 640, y / 480, (x + w) / 640, (y + h) / 480)
    assert row.boxes == (pytest.approx(expected, abs=1e-5),)


def test_what_was_used_is_recorded_with_its_hash(pack: Path, trees: tuple[Path, Path]) -> None:
    from hashlib import sha256

    with (pack / "coco_esc" / "used_val.csv").open() as file:
        used = {line["file"]: line["sha256"] for line in csv.DictReader(file)}
    assert len(used) == 4 + 2 + 284 + 136
    json_file = trees[0] / "annotations" / "instances_train2017.json"
    assert used["annotations/instances_train2017.json"] == sha256(json_file.read_bytes()).hexdigest()
    assert {"meta/esc50.csv", "coco/pairs_val.csv", "train2017/000000000042.jpg", "audio/4-191687-A-0.wav"} <= set(used)


def test_what_is_heard_is_the_sound_of_the_clip_also_through_limits_and_controls(pack: Path) -> None:
    clips = open_set("coco_esc:val", pack)
    for one in (clips, Limited(clips, 20), with_audio(clips, "shuffled"), with_audio(clips, "silent")):
        sound, clip = one.hear(3, 2000, 3.0), one.read(3, 2000, 3.0)
        assert (sound.time, sound.rate) == (clip.time, clip.rate)
        assert sound.waveform.dtype == np.int16
        np.testing.assert_array_equal(sound.waveform, clip.waveform)
    again = pickle.loads(pickle.dumps(clips))
    assert again.hear(3, 2000, 3.0).time == clips.hear(3, 2000, 3.0).time


def test_training_hears_another_sound_on_every_visit_and_tests_never_do(tmp_path: Path) -> None:
    root = coco_trees.folder(tmp_path / "f", ())
    train, whole, val = (open_set(f"coco_esc:{split}", root) for split in ("train", "train_all", "val"))
    assert isinstance(train, PairSet)
    assert isinstance(whole, PairSet)
    assert isinstance(val, PairSet)
    for i in (0, 700, 1341):
        pair = lists.pairs("train")[i]
        assert train.heard(i, 0) == (pair.sound, pair.start)
        heard = [train.heard(i, draw) for draw in range(8)]
        assert len(set(heard)) > 4
        assert {lists.sounds()[sound].label for sound, _ in heard} == {train.rows[i].label}
        assert val.heard(i % 500, 0) == val.heard(i % 500, 7)
    labels = {lists.sounds()[whole.heard(i, 0)[0]].label == row.label for i, row in enumerate(whole.rows)}
    assert labels == {True}


def test_sound_that_was_not_packed_is_told(pack: Path) -> None:
    clips = open_set("coco_esc:val", pack)
    told = (
        r"Expected 3 s of sound at 22050 samples per second, but .* was packed in .* with 5 s at 2000\. "
        r"Run: earsight data prepare coco_esc:val --coco DIR --esc50 DIR --out OTHER --rate 22050"
    )
    with pytest.raises(UsageError, match=told):
        clips.check_audio_spec(22050, 3.0)
    assert len(clips.read(0, 2000, 6.0).waveform) == 5 * 2000  # as from files: no sound is longer


def test_a_list_that_is_not_in_the_pack_is_told_with_what_to_run(pack: Path) -> None:
    told = r"Expected photos and sounds of the train list of coco_esc in the pack .*, but got none that are finished\. "
    with pytest.raises(UsageError, match=told):
        open_set("coco_esc:train", pack)


def test_a_limited_pack_has_the_pairs_of_its_photos(trees: tuple[Path, Path], tmp_path: Path, capsys: Output) -> None:
    out = tmp_path / "pack"
    assert main(["data", "prepare", "coco_esc:val", *given(trees), "--out", str(out), *SMALL, "--limit", "5"]) == 0
    clips = open_set("coco_esc:val", out)
    assert len({row.picture for row in clips.rows}) == 5
    assert all(clips.read(i, 2000, 3.0).id == row.id for i, row in enumerate(clips.rows))


def test_check_and_show_know_its_packs(pack: Path, capsys: Output) -> None:
    assert main(["data", "check", str(pack)]) == 0
    assert "coco_esc:photos_val, 284 clips in 3 shards: all as it was packed" in capsys.readouterr().out
    assert main(["data", "check", "coco_esc:val", "--data", str(pack)]) == 0
    assert "coco_esc:sounds_val, 136 clips in 2 shards: all as it was packed" in capsys.readouterr().out
    assert main(["data", "check", "coco_esc:single", "--data", str(pack)]) == 1
    assert "coco_esc-photos_test" in capsys.readouterr().out
    assert main(["show", str(pack)]) == 0
    assert "coco_esc:sounds_val:" in capsys.readouterr().out
    assert main(["data", "audit", "coco_esc:train"]) == 0
    assert "0" in capsys.readouterr().out


def test_missing_photos_and_sounds_are_named_and_too_many_stop(tmp_path: Path, capsys: Output) -> None:
    trees, out = coco_trees.official(tmp_path, ("val",)), tmp_path / "pack"
    photo, sound = lists.pairs("val")[0].photo, lists.pairs("val")[0].sound
    (trees[0] / "train2017" / f"{photo}.jpg").unlink()
    (trees[1] / "audio" / f"{sound}.wav").write_bytes(b"RIFF")
    command = ["data", "prepare", "coco_esc:val", *given(trees), "--out", str(out), *SMALL]
    assert main(command) == 0
    told = capsys.readouterr().out
    assert f"{photo}: has no picture. Expected {photo}.{{jpg," in told
    assert f"in {trees[0] / 'train2017'} or {trees[0] / 'val2017'}." in told
    assert f"{sound}.wav" in told
    clips = open_set("coco_esc:val", out)
    with pytest.raises(MediaError, match=r"could not be packed: .* has no picture"):
        clips.read(0, 2000, 3.0)
    lost = clips.failed_clips()
    assert lost[0].startswith(f"{photo}: could not be packed: {photo}: has no picture.")
    pairs = lists.pairs("val")
    assert set(lost) == {i for i, pair in enumerate(pairs) if pair.photo == photo or pair.sound == sound}
    assert {reason.partition(":")[0] for reason in lost.values()} == {photo, sound}
    assert isinstance(clips, PairSet)
    listed = [(pair.sound, pair.start) for pair in pairs]
    learned = PairSet(
        "coco_esc:train", clips.rows, listed, clips.tables, (lists.LENGTH, lists.WINDOW), lists.sound_of_visit
    )
    assert set(learned.failed_clips()) == {i for i, pair in enumerate(pairs) if pair.photo == photo}
    coco_trees.put_photos(trees[0] / "val2017", [photo])  # found there as well
    for path in (trees[1] / "audio").iterdir():
        path.unlink()
    assert main(command) == 0  # what was packed before is kept
    assert clips.name == open_set("coco_esc:val", out).name
    assert main([*command[: -len(SMALL)], "--out", str(tmp_path / "new"), *SMALL]) == 1
    assert "coco_esc:sounds_val is not finished: more than 5% of its clips cannot be read" in capsys.readouterr().err


def change(trees: tuple[Path, Path], what: str) -> None:
    """Damage a tree in one way."""
    path, table = trees[0] / "annotations" / "instances_train2017.json", trees[1] / "meta" / "esc50.csv"
    values = json.loads(path.read_text())
    if what == "cut":
        path.write_text(path.read_text()[:5000])
        return
    if what == "no json":
        path.unlink()
        return
    if what == "fold":
        table.write_text(table.read_text().replace(",4,0,dog,", ",5,0,dog,"))
        return
    if what == "no table":
        table.unlink()
        return
    if what == "photo":
        values["images"] = values["images"][5:]
    if what == "negative":
        pair = next(pair for pair in lists.pairs("val") if pair.kind == "no_object")
        box = {"image_id": int(pair.photo), "category_id": coco_trees.CATEGORIES["sheep"], "bbox": [1, 1, 9, 9]}
        values["annotations"].append(box)
    if what == "positive":
        values["annotations"] = values["annotations"][3000:]
    if what == "bbox":
        values["annotations"][0]["bbox"] = ["a", 1, 2]
    if what == "item":
        values["annotations"][0] = [1, 2]
    if what == "nan":
        values["images"][0]["width"] = 0
    path.write_text(json.dumps(values))


@pytest.mark.parametrize(
    ("what", "told"),
    [
        ("cut", r"Expected .*instances_train2017\.json to be an instances file of COCO, but got: .*\. Get it again"),
        ("no json", r"Expected instances_train2017\.json in .*annotations, but got none\. Unpack COCO's"),
        (
            "fold",
            r"Expected every sound of the lists in .*esc50\.csv with its category and fold, but got others for 8 of",
        ),
        ("no table", r"Expected .*esc50\.csv to be readable UTF-8 text, but got"),
        (
            "photo",
            r"Expected every photo of the lists in .*, but got none for 5 of 2700: .*\. Use COCO's own instances",
        ),
        (
            "negative",
            r"Expected no box of what a negative must not show in .*, but got some in 1 places: \d+ \(sheep\)\.",
        ),
        (
            "positive",
            r"Expected boxes for every positive of coco_esc:val in .*, but got none for .*\. Use the boxes of",
        ),
        ("bbox", r"Expected annotations as COCO writes them in .*, but got \{'bbox': \['a', 1, 2\]\}\. Get the file"),
        ("item", r"Expected annotations as COCO writes them in .*, but got \[1, 2\]\. Get the file again from COCO\."),
        ("nan", r"Expected annotations as COCO writes them in .*, but got \{'bbox'"),
    ],
)
def test_lists_of_others_and_damaged_ones_are_refused_before_any_work(what: str, told: str, tmp_path: Path) -> None:
    from earsight.data.manifest import Settings
    from earsight.data.sets.coco_esc import plan

    trees = coco_trees.official(tmp_path, ())
    change(trees, what)
    with pytest.raises(DataError, match=told):
        plan("val", Settings(), data=None, coco=trees[0], esc50=trees[1])


@pytest.mark.parametrize(
    ("args", "told"),
    [
        ([], "Expected --coco DIR and --esc50 DIR, the folders of COCO and ESC-50, but got neither."),
        (["--coco", "c"], "Expected --coco DIR and --esc50 DIR, the folders of COCO and ESC-50, but got no --esc50."),
        (["--esc50", "e"], "Expected --coco DIR and --esc50 DIR, the folders of COCO and ESC-50, but got no --coco."),
        (["--coco", "c", "--data", "d"], "Expected --data, or --coco and --esc50, but got both. Leave one out."),
        (["--limit", "-1"], "Expected a limit of at least 1, or 0 for all clips, but got -1."),
    ],
)
def test_wrong_flags_are_told(args: list[str], told: str, tmp_path: Path, capsys: Output) -> None:
    assert main(["data", "prepare", "coco_esc:val", "--out", str(tmp_path / "p"), *args]) == 2
    assert told in capsys.readouterr().err
    assert not (tmp_path / "p").exists()


def test_folders_that_are_none_are_told(tmp_path: Path, capsys: Output) -> None:
    args = ["--coco", str(tmp_path), "--esc50", str(tmp_path), "--out", str(tmp_path / "p")]
    assert main(["data", "prepare", "coco_esc", *args]) == 1
    told = f"Expected the folder of COCO, with annotations/ in it, but got {tmp_path}. Check --coco."
    assert told in capsys.readouterr().err
    assert main(["data", "prepare", "toybox", *args]) == 2
    assert "Expected --coco and --esc50 with coco_esc alone, but got them with toybox." in capsys.readouterr().err


def test_a_set_needs_its_folder(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"Expected the folder of coco_esc, but got none\. Pass --data DIR"):
        open_set("coco_esc")
    with pytest.raises(DataError, match=r"Expected a folder with images/, audio/ and boxes\.csv, but got .*nothing"):
        open_set("coco_esc", tmp_path / "nothing")
    with pytest.raises(DataError, match=r"Expected boxes\.csv with columns .*, but got none in .*\. Give the folder"):
        open_set("coco_esc", tmp_path)


def test_a_folder_with_other_pairs_is_refused(tmp_path: Path) -> None:
    root = coco_trees.folder(tmp_path / "f", ())
    pair = lists.pairs("val")[0]
    head = "image,audio,start,cls,kind\n"
    (root / "pairs_val.csv").write_text(f"{head}images/{pair.photo}.jpg,audio/{pair.sound}.ogg,0.5,dog,single\n")
    with pytest.raises(DataError, match=r"to be the list of coco_esc, 572 pairs, but got 1 pairs, 1 of them others"):
        open_set("coco_esc:val", root)
    kinds = {"offscreen": "neg_offscreen", "no_object": "neg_image"}
    same = [(p.photo, p.sound, f"{p.start:.3f}", p.label, kinds.get(p.kind, p.kind)) for p in lists.pairs("val")]
    text = [f"images/{photo}.jpg,audio/{sound}.ogg,{','.join(rest)}" for photo, sound, *rest in same]
    (root / "pairs_val.csv").write_text(head + "\n".join(text))
    assert len(open_set("coco_esc:val", root)) == 572
    (root / "pairs_val.csv").write_text(head + "\n".join([*text, text[0]]))
    with pytest.raises(DataError, match="572 pairs, but got 573 pairs, 0 of them others"):
        open_set("coco_esc:val", root)
    (root / "pairs_val.csv").write_text(head + text[0].replace("0.220", "x"))
    with pytest.raises(DataError, match=r"Expected start of 0 to 5 in .*pairs_val\.csv, line 2, but got x\. Correct"):
        open_set("coco_esc:val", root)


@pytest.mark.slow
def test_a_pack_is_read_without_what_decodes_media(pack: Path) -> None:
    """Machines that only train need no PyAV."""
    code = (
        "import sys; sys.modules.update(av=None, tyro=None); from pathlib import Path; "
        "from earsight.data.clips import open_set; clips = open_set('coco_esc:val', Path(sys.argv[1])); "
        "assert clips.read(3, 2000, 3.0).frame.shape == (3, 16, 16) and clips.hear(3, 2000, 3.0).rate == 2000"
    )
    subprocess.run([sys.executable, "-c", code, str(pack)], check=True)


def test_media_missing_from_a_folder_are_named_when_they_are_read(tmp_path: Path) -> None:
    clips = open_set("coco_esc:val", coco_trees.folder(tmp_path / "f", ()))
    with pytest.raises(MediaError, match=r"000000000042: has no picture\. Expected 000000000042\.\{jpg,.*\} in "):
        clips.read(0, 2000, 3.0)
    photo = lists.pairs("val")[0].photo
    (tmp_path / "f" / "images" / f"{photo}.jpg").write_bytes(coco_trees.photo_bytes(photo))
    with pytest.raises(MediaError, match=r"4-191687-A-0: has no sound\. Expected 4-191687-A-0\.\{wav,flac,.* in "):
        clips.read(0, 2000, 3.0)


def test_a_pack_without_its_boxes_or_with_odd_ones_is_refused(pack: Path, tmp_path: Path) -> None:
    import shutil

    copy = tmp_path / "pack"
    shutil.copytree(pack, copy)
    boxes = copy / "coco_esc" / "boxes.csv"
    text = boxes.read_text()
    boxes.write_text(text.replace(text.splitlines()[1].split(",")[2], "nan", 1))
    with pytest.raises(
        DataError, match=r"Expected x0 of 0 to 1 in .*boxes\.csv, line 2, but got nan\. Correct that line"
    ):
        open_set("coco_esc:val", copy)
    boxes.unlink()
    with pytest.raises(
        DataError, match=r"boxes\.csv, but got none: the pack is not finished\. Run earsight data prepare"
    ):
        open_set("coco_esc:val", copy)
