"""Facts about the lists of coco_esc and the splits that are made of them."""

from __future__ import annotations

import csv
from collections import Counter
from pathlib import Path

import pytest

from earsight.data.clips import open_set
from earsight.data.coco import lists
from earsight.data.pairs import NOISE, SILENCE, synthetic
from earsight.types import POSITIVE

NAMES = {"neg_offscreen": "offscreen", "neg_image": "no_object", "neg_image_ambient": "ambience"}


def test_every_split_has_the_clips_it_says() -> None:
    counts = {split: Counter(pair.kind for pair in lists.pairs_of(split)) for split in lists.SPLITS}
    assert counts["train"] == {"single": 1080, "multi": 262}
    assert counts["train_all"] == {"single": 1080, "multi": 524}
    assert counts["val"] == {"single": 200, "multi": 88, "offscreen": 244, "no_object": 40}
    assert counts["single"] == {"single": 630}
    assert counts["multi"] == counts["interactive"] == {"multi": 461}
    assert counts["test"] == {"single": 630, "multi": 461}
    negatives = {"offscreen": 854, "no_object": 220, "ambience": 220, "silence": 220, "noise": 220}
    assert counts["extended"] == {"single": 630, "multi": 461, **negatives}


def test_no_photo_and_no_sound_is_in_two_lists() -> None:
    photos = [set(lists.photos(name)) for name in lists.FOLDS]
    sounds = [{pair.sound for pair in lists.pairs(name)} for name in lists.FOLDS]
    for parts in (photos, sounds):
        assert sum(map(len, parts)) == len(set.union(*parts))
    assert sum(map(len, photos)) == 2700
    assert len(lists.sounds()) == 704
    for name in lists.FOLDS:
        assert all(lists.sounds()[pair.sound].list == name for pair in lists.pairs(name))


def test_a_pair_names_the_class_of_its_sound_and_an_active_window() -> None:
    for name in lists.FOLDS:
        for pair in lists.pairs(name):
            sound = lists.sounds()[pair.sound]
            first, last = sound.starts
            assert pair.label == sound.label
            assert first <= pair.start <= last + 0.011
            assert (pair.label == lists.AMBIENT) == (pair.kind == "ambience")


def test_every_photo_of_the_interactive_split_is_heard_with_several_classes() -> None:
    heard: dict[str, set[str]] = {}
    for pair in lists.pairs_of("interactive"):
        heard.setdefault(pair.photo, set()).add(pair.label)
    assert Counter(map(len, heard.values())) == {2: 211, 3: 13}


def test_silence_and_noise_come_with_photos_that_show_a_source() -> None:
    seen = {pair.photo for pair in lists.pairs_of("test")}
    for kind in (SILENCE, NOISE):
        photos = [pair.photo for pair in lists.pairs_of("extended") if pair.kind == kind]
        assert len(set(photos)) == len(photos) == lists.MADE
        assert set(photos) <= seen


def test_draws_are_of_the_class_active_repeatable_and_reach_every_sound() -> None:
    pool = {sound.name for sound in lists.sounds().values() if sound.list == "train" and sound.label == "car"}
    found = [lists.drawn("000000000071", "car", draw) for draw in range(600)]
    assert {name for name, _ in found} == pool
    assert found == [lists.drawn("000000000071", "car", draw) for draw in range(600)]
    assert found[:5] != [lists.drawn("000000000081", "car", draw) for draw in range(5)]
    for name, start in found:
        first, last = lists.sounds()[name].starts
        assert first <= start <= last
        assert 0 <= start <= lists.LENGTH - lists.WINDOW


def test_the_lists_are_those_of_the_folder_of_real_media(shared_media: Path) -> None:
    folder = shared_media / "coco_esc"
    for name in lists.FOLDS:
        with (folder / f"pairs_{name}.csv").open() as file:
            there = [
                (
                    Path(r["image"]).stem,
                    Path(r["audio"]).stem,
                    float(r["start"]),
                    r["cls"],
                    NAMES.get(r["kind"], r["kind"]),
                )
                for r in csv.DictReader(file)
            ]
        assert there == [(p.photo, p.sound, p.start, p.label, p.kind) for p in lists.pairs(name)]


def test_the_folder_of_real_media_opens_and_reads(shared_media: Path) -> None:
    for split in ("train", "val", "extended"):
        clips = open_set(f"coco_esc:{split}", shared_media / "coco_esc")
        for i in (0, len(clips) // 2, len(clips) - 1):
            clip = clips.read(i, 8000, 3.0, draw=2)
            assert clip.frame.shape == (3, 256, 256)
            assert clip.waveform.shape == (24000,)
            silent = clips.rows[i].kind == SILENCE
            assert bool(clip.waveform.any()) is not silent


def test_boxes_of_the_real_folder_agree_with_the_kinds_of_its_pairs(shared_media: Path) -> None:
    from earsight.data.coco.published import check_negatives
    from earsight.data.sets.coco_esc import _boxes_in

    boxes = _boxes_in(shared_media / "coco_esc" / "boxes.csv")
    check_negatives(boxes, "the folder")  # no negative shows what it must not
    rows = lists.rows_of("extended", lists.pairs_of("extended"), boxes, "the folder")
    assert all(bool(row.boxes) == (row.kind == POSITIVE) for row in rows)


@pytest.mark.parametrize("kind", ["silence", "noise"])
def test_what_is_made_up_is_the_same_every_time(kind: str) -> None:
    one, two = (synthetic(kind, "000000000042", 1000) for _ in range(2))
    assert (one == two).all()
    assert bool(one.any()) is (kind == "noise")
    assert bool((one == synthetic(kind, "000000000064", 1000)).all()) is (kind == "silence")
