"""Facts about the audio controls."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from earsight.data.clips import ClipSet
from earsight.data.controls import Shuffled, other_sounds, with_audio
from earsight.errors import UsageError
from earsight.types import Clip, Row


class Numbers(ClipSet):
    """Clip i is a picture and a sound of the value i."""

    def __init__(self, labels: list[str]) -> None:
        super().__init__("numbers", [Row(f"c{i}", label) for i, label in enumerate(labels)])

    def read(self, index: int, rate: int, seconds: float, draw: int = 0) -> Clip:
        frame = np.full((3, 4, 4), index, dtype=np.uint8)
        return Clip(self.rows[index].id, frame, np.full(8, index, dtype=np.float32), rate, 0.5)


@settings(max_examples=60, deadline=None)
@given(labels=st.lists(st.sampled_from(["dog", "cat", "bell", ""]), min_size=2, max_size=40), seed=st.integers(0, 9))
def test_every_clip_hears_one_other_clip_and_another_label_where_possible(labels: list[str], seed: int) -> None:
    heard = other_sounds(labels, seed)
    assert sorted(heard) == list(range(len(labels)))
    assert all(i != j for i, j in enumerate(heard))
    assert heard == other_sounds(labels, seed)
    if max(labels.count(label) for label in labels) <= len(labels) / 2:
        assert all(labels[i] != labels[j] for i, j in enumerate(heard))


def test_shuffled_keeps_the_picture_and_takes_the_other_sound() -> None:
    whole = Numbers(["a", "b", "c"])
    mixed = Shuffled(whole)
    for i in range(3):
        clip = mixed.read(i, 8, 1.0)
        assert clip.id == f"c{i}"
        assert clip.frame[0, 0, 0] == i
        assert clip.waveform[0] == mixed.sound_of[i] != i
    assert mixed.list_hash() == whole.list_hash()


def test_silent_keeps_the_picture_and_loses_the_sound() -> None:
    clip = with_audio(Numbers(["a", "b"]), "silent").read(1, 8, 1.0)
    assert clip.frame[0, 0, 0] == 1
    assert clip.waveform.tolist() == [0.0] * 8


def test_real_is_the_set_itself() -> None:
    whole = Numbers(["a", "b"])
    assert with_audio(whole, "real") is whole


def test_controls_cross_process_borders() -> None:
    whole = Numbers(["a", "b", "c"])
    for name in ("shuffled", "silent"):
        control = with_audio(whole, name)  # type: ignore[arg-type]
        np.testing.assert_array_equal(
            pickle.loads(pickle.dumps(control)).read(0, 8, 1).frame, control.read(0, 8, 1).frame
        )


def test_one_clip_cannot_be_shuffled() -> None:
    with pytest.raises(UsageError, match=r"at least 2 clips to shuffle their sounds, but got 1\. Measure more"):
        with_audio(Numbers(["a"]), "shuffled")


def test_an_unknown_control_is_refused() -> None:
    with pytest.raises(UsageError, match="real, shuffled or silent, but got 'noise'"):
        with_audio(Numbers(["a", "b"]), "noise")  # type: ignore[arg-type]


def test_no_clip_hears_its_own_recording_through_another_clip() -> None:
    sounds = ["a", "b", "c", "d", "a", "b", "c", "d"]  # each recording is heard in two clips
    for seed in range(20):
        heard = other_sounds([""] * 8, seed, sounds)
        assert sorted(heard) == list(range(8))
        assert all(sounds[heard[i]] != sounds[i] for i in range(8))
    assert sorted(other_sounds(["", "", ""], 0, ["a", "a", "a"])) == [0, 1, 2]  # not possible: still a permutation
