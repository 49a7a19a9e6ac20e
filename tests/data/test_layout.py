"""Files of a listed set: found where users have them, in a fixed order, and heard around the right time."""

from __future__ import annotations

import pickle
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from earsight.data.layout import Layout, Listed
from earsight.errors import DataError, MediaError
from earsight.media.write import VideoWriter, write_png, write_wav
from earsight.types import Row

RATE = 8000


def touch(root: Path, *names: str) -> None:
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(b"x")


def picture(root: Path, name: str, value: int) -> None:
    (root / "frames").mkdir(parents=True, exist_ok=True)
    write_png(root / "frames" / name, np.full((3, 8, 8), value, np.uint8))


def steps(seconds: int) -> np.ndarray:
    """Second k of the sound has level k / 20."""
    return np.repeat(np.arange(seconds, dtype=np.float32) / 20, RATE)


def sound(root: Path, name: str, waveform: np.ndarray) -> None:
    (root / "audio").mkdir(parents=True, exist_ok=True)
    write_wav(root / "audio" / name, waveform, RATE)


def video(root: Path, name: str, seconds: int) -> None:
    """Brightness rises by 20 a second; the sound is a tone that gets louder by 0.05 a second."""
    (root / "videos").mkdir(parents=True, exist_ok=True)
    sound(root / "spare", "tone.wav", np.sin(np.arange(seconds * RATE) * 0.7, dtype=np.float32) * steps(seconds))
    tone = root / "spare" / "audio" / "tone.wav"
    with VideoWriter(root / "videos" / name, 32, 32, Fraction(5), sound_from=tone) as out:
        for k in range(5 * seconds):
            out.write(np.full((3, 32, 32), 20 + 20 * (k // 5), np.uint8), k / 5)


def test_the_order_of_places_and_kinds_is_fixed(tmp_path: Path) -> None:
    order = ["frames/a.jpg", "frames/a.jpeg", "frames/a.png", "set/frames/a.jpg", "videos/a.mp4", "set/videos/a.webm"]
    sounds = ["audio/a.wav", "audio/a.flac", "audio/a.mp3", "set/audio/a.wav", "videos/a.mp4", "set/videos/a.webm"]
    touch(tmp_path, *order, *sounds)
    for one, other in zip(order, sounds, strict=True):
        layout = Layout(tmp_path, ("set", "nowhere"))
        assert layout.find("frames", "a") == tmp_path / one
        assert layout.find("audio", "a") == tmp_path / other
        (tmp_path / one).unlink()
        (tmp_path / other).unlink(missing_ok=True)
    assert Layout(tmp_path, ("set",)).find("frames", "a") is None


def test_names_may_hold_dots_and_begin_with_a_dash(tmp_path: Path) -> None:
    touch(tmp_path, "frames/-a.b_000030.jpg")
    assert Layout(tmp_path).find("frames", "-a.b_000030") == tmp_path / "frames/-a.b_000030.jpg"


@pytest.mark.parametrize("name", ["../x", "a/b", "a\\b", "..", ".", "", "a\0"])
def test_no_name_leads_out_of_the_folder(tmp_path: Path, name: str) -> None:
    touch(tmp_path, "x.jpg", "frames/b.jpg")
    with pytest.raises(MediaError, match="is not the name of a recording"):
        Layout(tmp_path).find("frames", name)


def test_a_root_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"a folder with frames/ and audio/, but got .*nowhere, which is none\. Check"):
        Layout(tmp_path / "nowhere")


def test_nothing_is_looked_up_before_a_clip_is_read(tmp_path: Path) -> None:
    clips = Listed("mine:test", [Row("a")], Layout(tmp_path, ("set",)))
    picture(tmp_path / "set", "a.png", 7)
    sound(tmp_path / "set", "a.wav", steps(2))
    assert clips.files(0) == (tmp_path / "set/frames/a.png", tmp_path / "set/audio/a.wav")
    assert clips.read(0, RATE, 1.0).frame[0, 0, 0] == 7


def test_the_middle_of_a_sound_is_heard(tmp_path: Path) -> None:
    picture(tmp_path, "a.png", 7)
    sound(tmp_path, "a.wav", steps(10))
    clip = Listed("mine:test", [Row("a")], Layout(tmp_path)).read(0, RATE, 4.0)
    assert (clip.id, clip.rate, clip.time) == ("a", RATE, 2.0)
    np.testing.assert_allclose(clip.waveform, np.repeat([0.15, 0.2, 0.25, 0.3], RATE), atol=1e-4)


def test_a_short_sound_comes_whole(tmp_path: Path) -> None:
    picture(tmp_path, "a.png", 7)
    sound(tmp_path, "a.wav", steps(2))
    clip = Listed("mine:test", [Row("a")], Layout(tmp_path)).read(0, RATE, 3.0)
    assert (len(clip.waveform), clip.time) == (2 * RATE, 1.0)


def test_a_negative_shows_one_recording_and_lets_another_be_heard(tmp_path: Path) -> None:
    picture(tmp_path, "a.png", 7)
    picture(tmp_path, "b.png", 9)
    sound(tmp_path, "b.wav", steps(2) + 0.5)
    clips = Listed("mine:test", [Row("a+b", kind="easy", picture="a", sound="b")], Layout(tmp_path))
    clip = clips.read(0, RATE, 2.0)
    assert (clip.id, int(clip.frame[0, 0, 0])) == ("a+b", 7)
    assert clip.waveform[0] == pytest.approx(0.5, abs=1e-3)


@pytest.mark.parametrize(("seconds", "moment"), [(10, 5), (4, 2)])
def test_of_a_video_the_annotated_moment_is_seen_and_heard(tmp_path: Path, seconds: int, moment: int) -> None:
    video(tmp_path, "v.mp4", seconds)
    clips = Listed("mine:test", [Row("v")], Layout(tmp_path))
    clip = clips.read(0, RATE, 1.0)
    assert clips.files(0) == (tmp_path / "videos/v.mp4",) * 2
    assert clip.frame.mean() == pytest.approx(20 + 20 * moment, abs=4)
    assert (len(clip.waveform), clip.time) == (RATE, pytest.approx(0.5))
    before, after = np.abs(clip.waveform[:3500]).max(), np.abs(clip.waveform[4500:]).max()
    assert (before, after) == (pytest.approx((moment - 1) / 20, abs=0.02), pytest.approx(moment / 20, abs=0.02))


def test_the_sound_may_be_a_videos_where_the_picture_is_a_photo(tmp_path: Path) -> None:
    video(tmp_path, "v.mp4", 4)
    picture(tmp_path, "v.png", 77)
    clip = Listed("mine:test", [Row("v")], Layout(tmp_path)).read(0, RATE, 1.0)
    assert (clip.frame.mean(), clip.time) == (77, pytest.approx(0.5))


def test_what_is_missing_is_named_with_where_it_was_looked_for(tmp_path: Path) -> None:
    layout = Layout(tmp_path, ("set",))
    clips = Listed("mine:test", [Row("a")], layout)
    assert clips.files(0) == (None, None)
    with pytest.raises(MediaError, match=r"^a: has no picture\. Expected a\.\{jpg,.*\} in .*frames or") as caught:
        clips.read(0, RATE, 1.0)
    assert f"in {tmp_path / 'videos'} (or inside {tmp_path / 'set'})" in str(caught.value)
    picture(tmp_path, "a.png", 7)
    clips = Listed("mine:test", [Row("a")], Layout(tmp_path))
    with pytest.raises(MediaError, match=r"^a: has no sound\. Expected a\.\{wav,flac,.*\} in .*audio or"):
        clips.read(0, RATE, 1.0)
    with pytest.raises(MediaError, match=r"^a: has no picture, since no folder was given\. Pass --data DIR"):
        Listed("mine:test", [Row("a")], Layout(None)).read(0, RATE, 1.0)


def test_a_set_pickles_small_however_many_files_there_are(tmp_path: Path) -> None:
    touch(tmp_path, *(f"frames/{i}.jpg" for i in range(300)), *(f"audio/{i}.wav" for i in range(300)))
    clips = Listed("mine:test", [Row("7")], Layout(tmp_path))
    assert None not in clips.files(0)
    assert len(pickle.dumps(clips)) < 2000
