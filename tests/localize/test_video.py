"""Videos in, overlay videos, contact sheets and timelines out."""

from __future__ import annotations

import json
from pathlib import Path

import make
import numpy as np
import pytest

from earsight.errors import MediaError, UsageError
from earsight.localize import Localizer, localize_pair, localize_video
from earsight.media.planes import iter_planes
from earsight.media.read import iter_frames, probe, read_audio, read_image


def moving(path: Path, seconds: float = 2.0, fps: int = 10, sound: np.ndarray | None = None, **more: object) -> Path:
    """A bright square that moves over gray, with the chirp."""
    frames = []
    for k in range(round(seconds * fps)):
        frame = np.full((48, 64, 3), 60, np.uint8)
        frame[10:26, 2 * k : 2 * k + 16] = (250, 220, 40)
        frames.append(frame)
    times = [k / fps for k in range(len(frames))]
    return make.video(path, frames, times, make.chirp(seconds) if sound is None else sound, **more)


def read_json(folder: Path, name: str) -> dict:
    return json.loads((folder / f"{name}.earsight.json").read_text())


def test_everything_is_written(trusting: Localizer, tmp_path: Path) -> None:
    out = tmp_path / "out"
    path = moving(tmp_path / "clip.mp4")
    timeline = localize_video(trusting, path, out)
    assert sorted(file.name for file in out.iterdir()) == [f"clip.earsight.{kind}" for kind in ("json", "mp4", "png")]
    assert set(timeline.files) == set(out.iterdir())
    info = probe(out / "clip.earsight.png")
    assert info.width > 600
    assert info.height > 300


def test_the_overlay_video_keeps_size_times_and_sound(trusting: Localizer, tmp_path: Path) -> None:
    path = moving(tmp_path / "clip.mp4")
    localize_video(trusting, path, tmp_path, formats=("mp4",))
    film = tmp_path / "clip.earsight.mp4"
    old, new = probe(path), probe(film)
    assert (new.width, new.height, new.rotation) == (64, 48, 0)
    assert new.duration == pytest.approx(old.duration, abs=0.1)
    assert [t for t, _ in iter_frames(film)] == pytest.approx([t for t, _ in iter_frames(path)], abs=1e-3)
    heard, original = read_audio(film, 8000), read_audio(path, 8000)
    assert len(heard) == pytest.approx(len(original), abs=800)
    assert np.corrcoef(heard[:12000], original[:12000])[0, 1] > 0.99


def test_the_timeline_is_documented_json(trusting: Localizer, tmp_path: Path) -> None:
    path = moving(tmp_path / "clip.mp4")
    timeline = localize_video(trusting, path, tmp_path, every=0.5, formats=("json",))
    values = read_json(tmp_path, "clip")
    assert values == json.loads(json.dumps(timeline.to_json()))
    items = values.pop("items")
    assert values == {
        "version": 2, "source": str(path), "sound": str(path), "weights": trusting.name, "protocol": "exact",
        "threshold": -1.0, "every": 0.5, "window": 1.0, "smooth": 0.5, "width": 64, "height": 48, "partial": False,
        "silence_db": -60.0,
    }  # fmt: skip
    assert [item["time"] for item in items] == [0.0, 0.5, 1.0, 1.5]
    for item in items:
        assert set(item) == {"time", "verdict", "confidence", "momentary", "peak", "boxes"}
        assert item["verdict"] == "visible source"
        assert item["boxes"]
        x, y = item["peak"]
        assert any(x0 <= x < x1 and y0 <= y < y1 for x0, y0, x1, y1 in item["boxes"])
        assert all(0 <= x0 < x1 <= 64 and 0 <= y0 < y1 <= 48 for x0, y0, x1, y1 in item["boxes"])


def test_answers_are_those_of_the_frame_and_the_sound_around_it(localizer: Localizer, tmp_path: Path) -> None:
    path = moving(tmp_path / "clip.mp4", 3.0)
    timeline = localize_video(localizer, path, tmp_path, every=0.4, smooth=0.0, formats=("json",))
    sound = read_audio(path, 8000)
    frames = dict(iter_frames(path, 0.4))
    assert len(timeline.items) == len(frames)
    for item, (time, frame) in zip(timeline.items, frames.items(), strict=True):
        alone = localizer.localize(frame, sound, 8000, time=time)
        assert item.confidence == item.momentary == pytest.approx(alone.confidence, abs=1e-5)
        np.testing.assert_allclose(item.boxes, alone.boxes, atol=1)


def test_smoothing_leaves_the_answer_of_each_moment_readable(localizer: Localizer, tmp_path: Path) -> None:
    path = moving(tmp_path / "clip.mp4", 2.0)
    plain, steady = (
        localize_video(localizer, path, tmp_path, smooth=n, formats=("json",), force=True).items for n in (0.0, 0.5)
    )
    assert [item.momentary for item in steady] == [item.confidence for item in plain]
    rough, smooth = (np.diff([item.confidence for item in items], 2) for items in (plain, steady))
    assert np.abs(smooth).mean() < 0.6 * np.abs(rough).mean()


def test_the_batch_size_changes_no_answer(localizer: Localizer, tmp_path: Path) -> None:
    path = moving(tmp_path / "clip.mp4")
    runs = [
        localize_video(localizer, path, tmp_path, formats=("json",), batch_size=n, force=True).items for n in (1, 3, 64)
    ]
    for run in runs[1:]:
        assert [i.time for i in run] == [i.time for i in runs[0]]
        assert [i.confidence for i in run] == pytest.approx([i.confidence for i in runs[0]], abs=1e-5)


def test_without_calibration_there_is_no_verdict_but_there_are_boxes(localizer: Localizer, tmp_path: Path) -> None:
    items = localize_video(localizer, moving(tmp_path / "a.mp4"), tmp_path, every=1.0).items
    assert {item.verdict for item in items} == {"not calibrated"}
    assert all(item.boxes for item in items)
    assert read_json(tmp_path, "a")["threshold"] is None


def test_no_visible_source_has_no_boxes(doubting: Localizer, tmp_path: Path) -> None:
    items = localize_video(doubting, moving(tmp_path / "a.mp4"), tmp_path, every=1.0).items
    assert {item.verdict for item in items} == {"no visible source"}
    assert not any(item.boxes for item in items)


def test_silence_is_said_and_has_no_visible_source(trusting: Localizer, tmp_path: Path) -> None:
    sound = np.concatenate([make.chirp(1.5), np.zeros(round(2.5 * make.RATE), np.float32)])
    path = moving(tmp_path / "a.mkv", 4.0, sound=sound)
    items = localize_video(trusting, path, tmp_path, every=0.5).items
    assert [item.verdict for item in items] == ["visible source"] * 5 + ["silent"] * 3
    assert items[-1].boxes == ()


def test_a_turned_video_comes_out_upright(trusting: Localizer, tmp_path: Path) -> None:
    path = make.held(moving(tmp_path / "a.mp4"), (0, 1, -1, 0))
    assert probe(path).rotation == 90
    timeline = localize_video(trusting, path, tmp_path)
    film = probe(tmp_path / "a.earsight.mp4")
    assert (film.width, film.height, film.rotation) == (48, 64, 0)
    assert (timeline.width, timeline.height) == (48, 64)


def test_a_video_shorter_than_the_window_is_answered(trusting: Localizer, tmp_path: Path) -> None:
    items = localize_video(trusting, moving(tmp_path / "a.mp4", 0.5), tmp_path).items
    assert [item.time for item in items] == [0.0, 0.2, 0.4]


def test_a_step_longer_than_the_video_answers_once(trusting: Localizer, tmp_path: Path) -> None:
    items = localize_video(trusting, moving(tmp_path / "a.mp4", 1.0), tmp_path, every=30.0).items
    assert [item.time for item in items] == [0.0]
    assert len(list(iter_frames(tmp_path / "a.earsight.mp4"))) == 10


def test_a_part_of_a_video_comes_out_as_that_part(trusting: Localizer, tmp_path: Path) -> None:
    path = moving(tmp_path / "a.mp4", 3.0)
    items = localize_video(trusting, path, tmp_path, start=1.0, end=2.0).items
    assert [item.time for item in items] == [1.0, 1.2, 1.4, 1.6, 1.8]
    assert probe(tmp_path / "a.earsight.mp4").duration == pytest.approx(1.0, abs=0.15)


def test_a_shorter_window_is_heard_as_its_own_sound(localizer: Localizer, tmp_path: Path) -> None:
    path = moving(tmp_path / "a.mp4", 3.0)
    items = localize_video(localizer, path, tmp_path, every=1.0, window=0.25, formats=("json",)).items
    sound, (time, frame) = read_audio(path, 8000), list(iter_frames(path, 1.0))[1]
    near = sound[round(time * 8000) - 1000 : round(time * 8000) + 1000]
    assert items[1].confidence == pytest.approx(localizer.localize(frame, near, 8000).confidence, abs=1e-5)


def test_the_map_in_the_film_moves_from_one_moment_to_the_next(localizer: Localizer, tmp_path: Path) -> None:
    path = moving(tmp_path / "a.mp4", 1.0)
    localize_video(localizer, path, tmp_path, every=0.5, formats=("mp4",))
    film = [frame.astype(int) for _, frame in iter_frames(tmp_path / "a.earsight.mp4")]
    plain = [frame.astype(int) for _, frame in iter_frames(path)]
    assert all(np.abs(a - b).max() > 40 for a, b in zip(film, plain, strict=True))


def test_frames_too_close_for_a_video_are_left_out(localizer: Localizer, tmp_path: Path) -> None:
    path = moving(tmp_path / "a.mp4", 1.0)
    frames = [(time, tuple(plane.copy() for plane in planes)) for time, planes in iter_planes(path, 48, 64)]
    twice = sorted([*frames, *((time + 1e-7, frame) for time, frame in frames)], key=lambda pair: pair[0])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("earsight.localize.film.iter_planes", lambda *_: iter(twice))
        localize_video(localizer, path, tmp_path, formats=("mp4",), start=0.05)
    assert len(list(iter_frames(tmp_path / "a.earsight.mp4"))) == 10


def test_progress_goes_up_to_all(localizer: Localizer, tmp_path: Path) -> None:
    told: list[tuple[float, float]] = []
    path = moving(tmp_path / "a.mp4")
    localize_video(localizer, path, tmp_path, batch_size=2, progress=lambda done, total: told.append((done, total)))
    assert told == sorted(told)
    assert told[-1][0] == told[-1][1] == pytest.approx(probe(path).duration)
    assert len(told) > 10


def test_nothing_is_replaced_without_force(localizer: Localizer, tmp_path: Path) -> None:
    path = moving(tmp_path / "a.mp4", 0.5)
    localize_video(localizer, path, tmp_path, formats=("json",))
    before = (tmp_path / "a.earsight.json").read_bytes()
    with pytest.raises(UsageError, match=r"Expected no results there yet, but got .*a\.earsight\.json\. .*--force"):
        localize_video(localizer, path, tmp_path)
    assert not (tmp_path / "a.earsight.mp4").exists()
    localize_video(localizer, path, tmp_path, every=0.1, force=True, formats=("json",))
    assert (tmp_path / "a.earsight.json").read_bytes() != before


def test_a_video_without_sound_or_pictures_is_refused(localizer: Localizer, tmp_path: Path) -> None:
    with pytest.raises(MediaError, match=r"has no audio track\. There is nothing to localize without sound"):
        localize_video(localizer, make.steps(tmp_path / "mute.mp4", 1.0, sound=False), tmp_path / "out")
    with pytest.raises(MediaError, match=r"has no video track\. Give a video, or a picture and a sound"):
        localize_video(localizer, make.sound_file(tmp_path / "a.m4a", make.chirp(0.5)), tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"every": 0.0}, "every of at least 0.01 seconds, but got 0.0"),
        ({"window": 5.0}, "a window from 0.05 up to the 1 s the model hears, but got 5.0"),
        ({"start": -1.0}, "a start of at least 0"),
        ({"start": 1.0, "end": 1.0}, r"an end after the start \(1 s\), but got 1.0"),
        ({"batch_size": 0}, "a batch_size of at least 1"),
        ({"smooth": -1.0}, r"smooth from 0 to 60 seconds, but got -1\.0"),
        ({"overlay": 1.5}, r"an overlay between 0 and 1, but got 1\.5"),
        ({"boxes": -1}, "boxes of at least 0, but got -1"),
        ({"formats": ("gif",)}, "formats out of mp4, png, json, npz, but got 'gif'"),
        ({"formats": ()}, "formats out of mp4, png, json, npz, but got none"),
    ],
)
def test_settings_without_sense_are_refused(localizer: Localizer, tmp_path: Path, settings: dict, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        localize_video(localizer, tmp_path / "not_even_there.mp4", tmp_path, **settings)


def test_a_start_after_the_end_of_the_video_is_refused(localizer: Localizer, tmp_path: Path) -> None:
    with pytest.raises(MediaError, match=r"plays for .* s, but the start is at 9 s\. Start earlier"):
        localize_video(localizer, moving(tmp_path / "a.mp4", 1.0), tmp_path, start=9.0)


def test_an_output_folder_that_cannot_be_made_is_refused(localizer: Localizer, tmp_path: Path) -> None:
    path = moving(tmp_path / "a.mp4", 0.5)
    with pytest.raises(UsageError, match="Expected an output folder that can be made, but got"):
        localize_video(localizer, path, path / "out")


def test_a_pair_becomes_a_picture_and_json(trusting: Localizer, tmp_path: Path) -> None:
    image = make.picture(tmp_path / "dog.png", make.corners(300, 200))
    sound = make.sound_file(tmp_path / "bark.wav", make.chirp(3.0))
    timeline = localize_pair(trusting, image, sound, tmp_path / "out", time=1.25)
    assert sorted(f.name for f in (tmp_path / "out").iterdir()) == ["dog.earsight.json", "dog.earsight.png"]
    assert read_image(tmp_path / "out" / "dog.earsight.png").shape == (3, 200, 300)
    values = read_json(tmp_path / "out", "dog")
    assert (values["source"], values["sound"], values["every"]) == (str(image), str(sound), None)
    assert (values["width"], values["height"]) == (300, 200)
    (item,) = values["items"]
    assert item["time"] == 1.25
    alone = trusting.localize(image, sound, time=1.25)
    assert item["confidence"] == pytest.approx(alone.confidence, abs=1e-6)
    np.testing.assert_allclose(timeline.items[0].boxes, alone.boxes, atol=1)
    with pytest.raises(UsageError, match="Expected no results there yet"):
        localize_pair(trusting, image, sound, tmp_path / "out")


def test_a_silent_pair_says_so(trusting: Localizer, tmp_path: Path) -> None:
    image = make.picture(tmp_path / "a.png", make.corners())
    sound = make.wav(tmp_path / "a.wav", np.zeros(8000, np.int16), 8000)
    assert localize_pair(trusting, image, sound, tmp_path, formats=("json",)).items[0].verdict == "silent"


@pytest.mark.slow
def test_real_clips_come_through(trusting: Localizer, shared_media: Path, tmp_path: Path) -> None:
    for path in sorted((shared_media / "clips").glob("*.mp4")):
        localize_video(trusting, path, tmp_path, end=2.0)
        film, old = probe(tmp_path / f"{path.stem}.earsight.mp4"), probe(path)
        assert (film.width, film.height) == (old.width, old.height)
        assert film.duration == pytest.approx(2.0, abs=0.15)
        assert film.has_audio
