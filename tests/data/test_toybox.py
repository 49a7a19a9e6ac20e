"""The built-in set: repeatable, certain in its labels, hard for shortcuts and fair to a method that listens."""

from __future__ import annotations

import colorsys
import hashlib
import itertools
import os
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

import numpy as np
import pytest

from earsight.data.clips import open_set
from earsight.data.sets import toybox
from earsight.data.sets.toybox import Toybox
from earsight.data.toys.draw import TOYS
from earsight.data.toys.scene import NAMES, Scene, make_scene, pitch_of
from earsight.data.toys.sound import SOUNDS, toy_sound
from earsight.data.toys.video import PLACES, TURN, cast, soundtrack
from earsight.errors import UsageError

HASH = """
import hashlib
from earsight.data.sets.toybox import Toybox
digest = hashlib.sha256()
for split in ("train", "extended"):
    clips = Toybox(split)
    digest.update(clips.list_hash().encode())
    for i in range(0, len(clips), 211):
        clip = clips.read(i, 8000, 0.5)
        digest.update(clip.frame.tobytes() + clip.waveform.tobytes())
print(digest.hexdigest())
"""


@lru_cache
def split(name: str, seed: int = 0) -> Toybox:
    return Toybox(name, seed)


def scenes(name: str) -> list[Scene]:
    return split(name)._scenes


def in_new_process(hash_seed: str, without: str = "") -> str:
    """A hash of rows, pictures and sounds; `without` names what numpy is not to use of this processor."""
    done = subprocess.run(
        [sys.executable, "-c", HASH],
        env={**os.environ, "PYTHONHASHSEED": hash_seed, "OMP_NUM_THREADS": "1", "NPY_DISABLE_CPU_FEATURES": without},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.strip()


@pytest.mark.slow
def test_every_process_makes_the_same_toybox_on_every_processor() -> None:
    from numpy._core import _multiarray_umath as numpy

    usual = [name for name in numpy.__cpu_dispatch__ if numpy.__cpu_features__.get(name)]
    assert in_new_process("1") == in_new_process("2", without=" ".join(usual))


def test_the_scenes_are_the_ones_that_published_toybox_numbers_were_measured_on() -> None:
    """A change of any draw changes these hashes; results before and after it must not be compared."""

    def drawn(*names: str) -> str:
        text = [
            (row.id, row.label, row.kind, [[round(v, 4) for v in box] for box in row.boxes])
            for name in names
            for row in split(name).rows
        ]
        return hashlib.sha256(repr(text).encode()).hexdigest()[:12]

    assert drawn("train", "val", "test", "extended") == "56c8173c4237"
    assert drawn("train_heard", "heard", "unheard") == "2cec00b21854"


def test_another_seed_is_another_toybox() -> None:
    assert split("val").list_hash() != split("val", 1).list_hash()
    a, b = split("val").read(0, 8000, 0.5), split("val", 1).read(0, 8000, 0.5)
    assert not np.array_equal(a.frame, b.frame)
    assert not np.array_equal(a.waveform, b.waveform)


def test_splits_share_no_scene_but_extended_holds_the_test_scenes() -> None:
    boxes = {name: {scene.toys for scene in scenes(name)} for name in toybox.SPLITS}
    for one, two in itertools.combinations(boxes, 2):
        if {one, two} != {"test", "extended"}:
            assert not boxes[one] & boxes[two]
    assert boxes["test"] <= boxes["extended"]
    ids = [row.id for name in toybox.SPLITS for row in split(name).rows]
    assert len(set(ids)) == len(ids)


def test_counts_and_shares_of_kinds() -> None:
    assert {name: len(split(name)) for name in toybox.SPLITS} == {
        "train": 3072,
        "val": 256,
        "test": 384,
        "extended": 768,
        "train_heard": 3072,
        "heard": 384,
        "unheard": 384,
    }
    for name in ("train", "test", "train_heard"):
        assert all(row.positive for row in split(name).rows)
    for name in toybox.EXTENDED:
        kinds = Counter(row.kind for row in split(name).rows)
        half = len(split(name)) // 2
        assert kinds["positive"] == half
        for kind, share in (("real", 0.3), ("easy", 0.45), ("hard", 0.25)):
            assert kinds[kind] / half == pytest.approx(share, abs=0.005)


def test_every_class_and_every_size_is_there() -> None:
    rows = split("extended").rows[:384]
    labels = Counter(row.label for row in rows)
    assert set(labels) == set(NAMES) == set(SOUNDS)
    assert min(labels.values()) > 384 / len(NAMES) / 2
    areas = np.array([(x1 - x0) * (y1 - y0) for row in rows for x0, y0, x1, y1 in row.boxes])
    small, medium, large, huge = np.histogram(areas * 224**2, [0, 32**2, 96**2, 144**2, 224**2])[0]
    assert min(small, medium, large, huge) >= 20


def test_the_box_is_where_the_sounding_toy_is_painted() -> None:
    for scene in scenes("test")[:60]:
        assert scene.source is not None
        without = replace(scene, toys=tuple(toy for toy in scene.toys if toy is not scene.source))
        changed = np.any(scene.paint(128) != without.paint(128), axis=0)
        x0, y0, x1, y1 = (v * 128 for v in scene.source.box)
        box = np.zeros_like(changed)
        box[int(np.floor(y0)) : int(np.ceil(y1)), int(np.floor(x0)) : int(np.ceil(x1))] = True
        assert not (changed & ~box).any()
        assert changed[box].mean() > 0.3
        rows, columns = np.nonzero(changed)
        reach = (np.ptp(rows) + 1) * (np.ptp(columns) + 1) / box.sum()
        assert reach > 0.5, scene.source


def test_at_most_a_third_of_any_toy_is_hidden_by_another() -> None:
    for scene in scenes("train")[:300]:
        for toy in scene.toys:
            x0, y0, x1, y1 = toy.box
            for other in scene.toys:
                w = min(x1, other.box[2]) - max(x0, other.box[0])
                h = min(y1, other.box[3]) - max(y0, other.box[1])
                assert other is toy or max(w, 0) * max(h, 0) < 0.34 * (x1 - x0) * (y1 - y0)


def test_every_negative_is_certain() -> None:
    for name in toybox.EXTENDED:
        clips = split(name)
        seen: Counter[str] = Counter()
        for row, scene, sound in zip(clips.rows, clips._scenes, clips._sounds, strict=True):
            visible = {toy.name for toy in scene.toys}
            if row.kind == "real":
                assert sound.name is None or sound.name not in visible
                seen["silent" if sound.name is None else "off-screen"] += 1
            elif row.kind == "easy":
                assert sound.name not in visible
            elif row.kind == "hard":
                same = [toy for toy in scene.toys if toy.name == sound.name]
                assert len(same) == 1
                assert abs(np.log2(sound.pitch / same[0].pitch)) >= 1
            else:
                assert scene.source is not None
                assert (sound.name, sound.pitch) == (scene.source.name, scene.source.pitch)
                assert [toy.name for toy in scene.toys].count(row.label) == 1
            assert row.label == (sound.name or "")
        assert min(seen["silent"], seen["off-screen"]) > 0.3 * sum(seen.values())


def test_the_halves_of_the_open_set_share_no_class_in_sight_or_sound() -> None:
    """A class that is not heard in training is not seen there either, not even silent."""
    halves = {}
    for name in ("train_heard", "heard", "unheard"):
        seen = {toy.name for scene in scenes(name) for toy in scene.toys}
        heard = {sound.name for sound in split(name)._sounds} - {None}
        labels = Counter(row.label for row in split(name).rows if row.positive)
        assert seen == heard == set(labels) == set(toybox.HALVES[name])
        assert min(labels.values()) > 0.2 * labels.total()
        halves[name] = seen
    assert halves["train_heard"] == halves["heard"]
    assert halves["heard"] | halves["unheard"] == set(NAMES)
    assert not halves["heard"] & halves["unheard"]


def test_toys_of_the_open_set_are_painted_and_placed_like_all_others() -> None:
    """Colours keep to their class, sizes and places are as spread as elsewhere."""
    for name in ("heard", "unheard"):
        for scene in scenes(name)[:100]:
            assert scene.source in scene.toys
            for toy in scene.toys:
                red, green, blue = toy.color
                assert abs((colorsys.rgb_to_hsv(red, green, blue)[0] - TOYS[toy.name][1] + 0.5) % 1 - 0.5) < 0.2
    areas = {
        name: np.array([(x1 - x0) * (y1 - y0) for row in split(name).rows for x0, y0, x1, y1 in row.boxes])
        for name in ("train", "train_heard")
    }
    for quantile in (0.1, 0.5, 0.9):
        assert np.quantile(areas["train_heard"], quantile) == pytest.approx(
            np.quantile(areas["train"], quantile), rel=0.1
        )


def test_negatives_of_other_sounds_show_positives_pictures() -> None:
    """So no model can tell them by the picture alone."""
    clips = split("extended")
    positives = {id(scene) for scene in clips._scenes[:384]}
    for row, scene in zip(clips.rows, clips._scenes, strict=True):
        if row.kind in ("easy", "hard"):
            assert id(scene) in positives


@pytest.mark.parametrize("name", toybox.SPLITS)
def test_most_scenes_hold_silent_toys(name: str) -> None:
    crowded = [len(scene.toys) > 1 for scene in scenes(name)[: toybox.COUNTS[name]]]
    assert np.mean(crowded) > 0.7
    firsts = [scene.toys[-1] is scene.source for scene in scenes(name)[: toybox.COUNTS[name]] if len(scene.toys) == 2]
    assert 0.3 < np.mean(firsts) < 0.7  # standing in front gives the source away no more often than chance


def test_a_bigger_toy_sounds_lower() -> None:
    random = np.random.default_rng(0)
    pitches = [pitch_of(area, random) for area in (0.01, 0.06, 0.3, 0.6)]
    assert pitches == sorted(pitches, reverse=True)
    assert 3 < pitches[0] / pitches[-1] < 5


def test_sounds_are_finite_and_stay_in_range() -> None:
    for rate, seconds in ((4000, 0.25), (11025, 2.0), (22050, 3.0)):
        for name in NAMES:
            for i, pitch in enumerate((0.45, 1.0, 2.15)):
                wave = toy_sound(name, pitch, (9, i), rate, seconds)
                assert wave.dtype == np.float32
                assert wave.shape == (round(rate * seconds),)
                assert np.isfinite(wave).all()
                assert 0.05 < np.abs(wave).max() <= 1


def test_room_noise_is_quiet_but_not_digital_silence() -> None:
    clips = split("extended")
    silent = next(i for i, sound in enumerate(clips._sounds) if sound.name is None)
    wave = clips.read(silent, 8000, 1.0).waveform
    assert 0 < np.abs(wave).max() < 0.05


def test_a_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="Expected no --data for toybox, which is made up on the fly, but got"):
        open_set("toybox", tmp_path)


def test_a_scene_can_be_asked_for_a_class_or_for_its_absence() -> None:
    for i in range(40):
        name = NAMES[i % len(NAMES)]
        wanted = make_scene((1, i), sounding=name)
        assert wanted.source is not None
        assert wanted.source.name == name
        absent = make_scene((2, i), without=name)
        assert absent.source is None
        assert absent.toys
        assert name not in {toy.name for toy in absent.toys}


def test_the_film_has_three_toys_in_the_picture_and_one_that_is_only_heard() -> None:
    for seed in range(8):
        toys, unseen = cast(seed)
        assert len({toy.name for toy in toys} | {unseen}) == len(PLACES) + 1
        wave = soundtrack(seed)
        assert wave.shape == (round(22050 * TURN) * 4,)
        assert np.isfinite(wave).all()
        assert np.abs(wave).max() <= 1
