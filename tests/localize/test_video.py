"""Videos in, overlay videos, contact sheets and timelines out."""

from __future__ import annotations

import io
import itertools
import json
from contextlib import ExitStack
from fractions import Fraction
from pathlib import Path

import make
import numpy as np
import pytest
from PIL import Image

from earsight import protocols
from earsight.errors import MediaError, UsageError
from earsight.localize import Localizer, Settings
from earsight.localize.film import Film
from earsight.localize.smoothing import Answer
from earsight.localize.view import View
from earsight.media.planes import iter_planes
from earsight.media.read import iter_frames, probe, read_audio, read_image
from tiny.localized import run_pair, run_video


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
    timeline = run_video(trusting, path, out)
    assert sorted(file.name for file in out.iterdir()) == [f"clip.earsight.{kind}" for kind in ("json", "mp4", "png")]
    assert set(timeline.files) == set(out.iterdir())
    info = probe(out / "clip.earsight.png")
    assert info.width > 600
    assert info.height > 300


def test_the_overlay_video_keeps_size_times_and_sound(trusting: Localizer, tmp_path: Path) -> None:
    path = moving(tmp_path / "clip.mp4")
    run_video(trusting, path, tmp_path, formats=("mp4",))
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
    timeline = run_video(trusting, path, tmp_path, every=0.5, formats=("json",))
    values = read_json(tmp_path, "clip")
    assert values == json.loads(json.dumps(timeline.to_json()))
    items = values.pop("items")
    assert values == {
        "version": 2, "source": str(path), "sound": str(path), "weights": trusting.name, "protocol": "exact",
        "threshold": -1.0, "every": 0.5, "window": 1.0, "smooth": 0.5, "width": 64, "height": 48, "partial": False,
        "notes": [], "silence_db": -60.0,
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
    timeline = run_video(localizer, path, tmp_path, every=0.4, smooth=0.0, formats=("json",))
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
        run_video(localizer, path, tmp_path, smooth=n, formats=("json",), force=True).items for n in (0.0, 0.5)
    )
    assert [item.momentary for item in steady] == [item.confidence for item in plain]
    rough, smooth = (np.diff([item.confidence for item in items], 2) for items in (plain, steady))
    assert np.abs(smooth).mean() < 0.6 * np.abs(rough).mean()


def test_the_batch_size_changes_no_answer(localizer: Localizer, tmp_path: Path) -> None:
    path = moving(tmp_path / "clip.mp4")
    runs = [run_video(localizer, path, tmp_path, formats=("json",), batch_size=n, force=True).items for n in (1, 3, 64)]
    for run in runs[1:]:
        assert [i.time for i in run] == [i.time for i in runs[0]]
        assert [i.confidence for i in run] == pytest.approx([i.confidence for i in runs[0]], abs=1e-5)


def test_without_calibration_there_is_no_verdict_but_there_are_boxes(localizer: Localizer, tmp_path: Path) -> None:
    items = run_video(localizer, moving(tmp_path / "a.mp4"), tmp_path, every=1.0).items
    assert {item.verdict for item in items} == {"not calibrated"}
    assert all(item.boxes for item in items)
    assert read_json(tmp_path, "a")["threshold"] is None


def test_no_visible_source_has_no_boxes(doubting: Localizer, tmp_path: Path) -> None:
    items = run_video(doubting, moving(tmp_path / "a.mp4"), tmp_path, every=1.0).items
    assert {item.verdict for item in items} == {"no visible source"}
    assert not any(item.boxes for item in items)


def test_silence_is_said_and_has_no_visible_source(trusting: Localizer, tmp_path: Path) -> None:
    sound = np.concatenate([make.chirp(1.5), np.zeros(round(2.5 * make.RATE), np.float32)])
    path = moving(tmp_path / "a.mkv", 4.0, sound=sound)
    items = run_video(trusting, path, tmp_path, every=0.5).items
    assert [item.verdict for item in items] == ["visible source"] * 5 + ["silent"] * 3
    assert items[-1].boxes == ()


def test_a_turned_video_comes_out_upright(trusting: Localizer, tmp_path: Path) -> None:
    path = make.held(moving(tmp_path / "a.mp4"), (0, 1, -1, 0))
    assert probe(path).rotation == 90
    timeline = run_video(trusting, path, tmp_path)
    film = probe(tmp_path / "a.earsight.mp4")
    assert (film.width, film.height, film.rotation) == (48, 64, 0)
    assert (timeline.width, timeline.height) == (48, 64)


def test_a_video_shorter_than_the_window_is_answered(trusting: Localizer, tmp_path: Path) -> None:
    items = run_video(trusting, moving(tmp_path / "a.mp4", 0.5), tmp_path).items
    assert [item.time for item in items] == [0.0, 0.2, 0.4]


def test_a_step_longer_than_the_video_answers_once(trusting: Localizer, tmp_path: Path) -> None:
    items = run_video(trusting, moving(tmp_path / "a.mp4", 1.0), tmp_path, every=30.0).items
    assert [item.time for item in items] == [0.0]
    assert len(list(iter_frames(tmp_path / "a.earsight.mp4"))) == 10


def test_a_part_of_a_video_comes_out_as_that_part(trusting: Localizer, tmp_path: Path) -> None:
    path = moving(tmp_path / "a.mp4", 3.0)
    items = run_video(trusting, path, tmp_path, start=1.0, end=2.0).items
    assert [item.time for item in items] == [1.0, 1.2, 1.4, 1.6, 1.8]
    assert probe(tmp_path / "a.earsight.mp4").duration == pytest.approx(1.0, abs=0.15)


def test_a_shorter_window_is_heard_as_its_own_sound(localizer: Localizer, tmp_path: Path) -> None:
    path = moving(tmp_path / "a.mp4", 3.0)
    items = run_video(localizer, path, tmp_path, every=1.0, window=0.25, formats=("json",)).items
    sound, (time, frame) = read_audio(path, 8000), list(iter_frames(path, 1.0))[1]
    near = sound[round(time * 8000) - 1000 : round(time * 8000) + 1000]
    assert items[1].confidence == pytest.approx(localizer.localize(frame, near, 8000).confidence, abs=1e-5)


def test_the_map_in_the_film_moves_from_one_moment_to_the_next(tmp_path: Path) -> None:
    path = make.video(tmp_path / "a.mp4", [make.gray_frame(90)] * 20, [k / 10 for k in range(20)], make.chirp(2.0))
    left = np.zeros((6, 8), np.float32)
    left[1, 1] = 1.0
    answers = [Answer(float(k), one, 0.5, 0.5, False, "visible source") for k, one in enumerate((left, left[:, ::-1]))]
    views = [View.of_answer(answer, protocols.get("exact"), 48, 64) for answer in answers]
    with ExitStack() as held:
        film = Film(tmp_path / "film.mp4", probe(path), path, Settings(every=1.0))
        film.write(iter(views), held, lambda: False, lambda time: None)
    frames = [frame.astype(int) for _, frame in iter_frames(tmp_path / "film.mp4")]
    jump = np.abs(frames[10] - frames[0])[:, :28].mean()  # above the caption
    steps = [np.abs(after - before)[:, :28].mean() for before, after in itertools.pairwise(frames[:11])]
    assert max(steps) < 0.6 * jump
    assert sum(steps) > 0.5 * jump


def test_what_weights_know_stands_in_every_frame(
    trusting: Localizer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = make.video(tmp_path / "a.mp4", [np.full((240, 400, 3), 90, np.uint8)] * 5, np.arange(5) / 10, make.chirp(1))
    films = []
    for notes in ((), ("these weights know drawn toys only",)):
        monkeypatch.setattr(trusting, "notes", notes)
        run_video(trusting, path, tmp_path, formats="mp4", overlay=0.0, boxes=0, force=True)
        films.append([frame.astype(int) for _, frame in iter_frames(tmp_path / "a.earsight.mp4")])
    for plain, noted in zip(*films, strict=True):
        rows = np.nonzero((np.abs(plain - noted) > 30).any(axis=(0, 2)))[0]
        assert 180 < rows.min() < rows.max() < 228  # over the verdict


def test_frames_too_close_for_a_video_are_left_out(localizer: Localizer, tmp_path: Path) -> None:
    path = moving(tmp_path / "a.mp4", 1.0)
    frames = [(time, tuple(plane.copy() for plane in planes)) for time, planes in iter_planes(path, 48, 64)]
    twice = sorted([*frames, *((time + 1e-7, frame) for time, frame in frames)], key=lambda pair: pair[0])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("earsight.localize.film.iter_planes", lambda *_: iter(twice))
        run_video(localizer, path, tmp_path, formats=("mp4",), start=0.05)
    assert len(list(iter_frames(tmp_path / "a.earsight.mp4"))) == 10


def test_progress_goes_up_to_all(localizer: Localizer, tmp_path: Path) -> None:
    told: list[tuple[float, float]] = []
    path = moving(tmp_path / "a.mp4")
    run_video(localizer, path, tmp_path, batch_size=2, progress=lambda done, total: told.append((done, total)))
    assert told == sorted(told)
    assert told[-1][0] == told[-1][1] == pytest.approx(probe(path).duration)
    assert len(told) > 10


def test_nothing_is_replaced_without_force(localizer: Localizer, tmp_path: Path) -> None:
    path = moving(tmp_path / "a.mp4", 0.5)
    run_video(localizer, path, tmp_path, formats=("json",))
    before = (tmp_path / "a.earsight.json").read_bytes()
    with pytest.raises(
        UsageError,
        match=r"Expected no results there yet, but got .*a\.earsight\.json\. .*--force \(force=True in Python\)",
    ):
        run_video(localizer, path, tmp_path)
    assert not (tmp_path / "a.earsight.mp4").exists()
    run_video(localizer, path, tmp_path, every=0.1, force=True, formats=("json",))
    assert (tmp_path / "a.earsight.json").read_bytes() != before


def test_a_video_without_sound_or_pictures_is_refused(localizer: Localizer, tmp_path: Path) -> None:
    with pytest.raises(MediaError, match=r"has no audio track\. There is nothing to localize without sound"):
        run_video(localizer, make.steps(tmp_path / "mute.mp4", 1.0, sound=False), tmp_path / "out")
    with pytest.raises(MediaError, match=r"has no video track\. Give a video, or a picture and a sound"):
        run_video(localizer, make.sound_file(tmp_path / "a.m4a", make.chirp(0.5)), tmp_path / "out")
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
        run_video(localizer, tmp_path / "not_even_there.mp4", tmp_path, **settings)


def test_a_start_after_the_end_of_the_video_is_refused(localizer: Localizer, tmp_path: Path) -> None:
    with pytest.raises(MediaError, match=r"plays for .* s, but the start is at 9 s\. Start earlier"):
        run_video(localizer, moving(tmp_path / "a.mp4", 1.0), tmp_path, start=9.0)


def test_pictures_too_large_for_a_film_are_refused_before_the_work(
    localizer: Localizer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("earsight.localize.video.LONGEST", 63)
    path = moving(tmp_path / "clip.mp4")
    with pytest.raises(MediaError, match=r"pictures of 64 x 48, and an mp4 film at most 63 on a side\. Use --format"):
        run_video(localizer, path, tmp_path / "out")
    run_video(localizer, path, tmp_path / "out", formats="png,json")


def test_an_output_folder_that_cannot_be_made_is_refused(localizer: Localizer, tmp_path: Path) -> None:
    path = moving(tmp_path / "a.mp4", 0.5)
    with pytest.raises(UsageError, match="Expected an output folder that can be made, but got"):
        run_video(localizer, path, path / "out")


def test_a_video_that_ends_on_a_still_is_answered_and_filmed_to_its_end(trusting: Localizer, tmp_path: Path) -> None:
    sound = np.concatenate([make.chirp(2.5), np.zeros(round(3.5 * make.RATE), np.float32)])
    path = make.still(tmp_path / "a.mp4", 6.0, sound, encoder={"bf": "0"})
    timeline = run_video(trusting, path, tmp_path, every=0.5)
    assert [item.time for item in timeline.items] == [0.5 * k for k in range(12)]
    assert timeline.notes == ()
    film = tmp_path / "a.earsight.mp4"
    frames = list(iter_frames(film))
    assert frames[-1][0] == pytest.approx(6.0, abs=0.25)
    assert probe(film).pictures_end == pytest.approx(6.0, abs=0.05)
    assert probe(film).duration == pytest.approx(probe(path).duration, abs=0.05)
    heard, original = read_audio(film, 8000), read_audio(path, 8000)
    assert abs(make.lag(original, heard, 800)) <= 8
    loud, silent = (next(frame.astype(int) for time, frame in frames if time > after) for after in (1.0, 5.0))
    assert np.abs(loud - silent).max() > 40  # what is drawn over the still goes on with the answers


def test_a_film_of_one_picture_lasts_as_long_as_it_is_shown(trusting: Localizer, tmp_path: Path) -> None:
    path = make.video(tmp_path / "a.mp4", [make.corners()], [0.0], make.chirp(5.0), lasts=5.0)
    assert len(run_video(trusting, path, tmp_path, every=0.5, start=1.0, end=4.0, formats="mp4").items) == 6
    assert probe(tmp_path / "a.earsight.mp4").pictures_end == pytest.approx(3.0, abs=0.05)


def test_a_film_that_moves_and_then_stands_lasts_as_long_as_it_is_shown(trusting: Localizer, tmp_path: Path) -> None:
    times = [k / 10 for k in range(40)]
    pictures = [make.gray_frame(20 + 3 * k) for k in range(40)]
    path = make.video(tmp_path / "a.mp4", pictures, times, make.chirp(10.0), lasts=6.1, encoder={"bf": "0"})
    assert len(run_video(trusting, path, tmp_path, every=0.5, formats="mp4").items) == 20
    film = probe(tmp_path / "a.earsight.mp4")
    assert film.pictures_end == pytest.approx(10.0, abs=0.05)
    assert film.duration == pytest.approx(10.0, abs=0.05)


def test_a_cut_off_video_is_told_with_both_times(trusting: Localizer, tmp_path: Path) -> None:
    path = make.cut(make.steps(tmp_path / "a.mp4", 4.0, options={"movflags": "faststart"}), 0.6)
    told = "the pictures end at 2.2 s, but should go on until 4.0 s: the file may be cut off"
    timeline = run_video(trusting, path, tmp_path, every=0.5, formats="json")
    assert timeline.notes == (told,)
    assert read_json(tmp_path, "a")["notes"] == [told]
    assert told in timeline._repr_html_()
    some = run_video(trusting, path, tmp_path, every=0.5, end=2.0, formats="json", force=True)
    assert some.notes == ()
    avi = make.cut(make.steps(tmp_path / "b.avi", 4.0), 0.6)
    assert "should go on until 4.0 s" in run_video(trusting, avi, tmp_path, formats="json").notes[0]


@pytest.mark.parametrize("suffix", [".mp4", ".mkv", ".avi", ".webm"])
@pytest.mark.parametrize("seconds", [1.0, 2.0, 4.0])
def test_sound_of_another_length_than_the_pictures_is_no_cut(
    trusting: Localizer, tmp_path: Path, suffix: str, seconds: float
) -> None:
    path = moving(tmp_path / f"a{suffix}", 2.0, sound=make.chirp(seconds))
    assert run_video(trusting, path, tmp_path, every=0.9, formats="json").notes == ()


def test_anamorphic_video_keeps_its_shape(trusting: Localizer, tmp_path: Path) -> None:
    path = moving(tmp_path / "a.mp4", 0.5, aspect=Fraction(16, 9))
    timeline = run_video(trusting, path, tmp_path)
    film = probe(tmp_path / "a.earsight.mp4")
    assert (film.width, film.height, film.aspect) == (64, 48, pytest.approx(16 / 9))
    assert (timeline.width, timeline.height) == (64, 48)
    turned = make.held(path, (0, 1, -1, 0))
    run_video(trusting, turned, tmp_path, formats="mp4", force=True)
    assert probe(tmp_path / "a.earsight.mp4").aspect == pytest.approx(9 / 16)


def test_pictures_of_an_anamorphic_video_have_the_shape_that_is_shown(trusting: Localizer, tmp_path: Path) -> None:
    path = moving(tmp_path / "a.mp4", 0.5, aspect=Fraction(2))
    (still, *_) = run_video(trusting, path, tmp_path, formats="json").stills
    assert Image.open(io.BytesIO(still.jpeg)).size == (128, 48)


def test_formats_may_be_one_text(localizer: Localizer, tmp_path: Path) -> None:
    path = moving(tmp_path / "a.mp4", 0.5)
    assert [file.suffix for file in run_video(localizer, path, tmp_path, formats="mp4, json").files] == [
        ".mp4",
        ".json",
    ]
    with pytest.raises(UsageError, match="formats out of mp4, png, json, npz, but got 'gif'"):
        run_video(localizer, path, tmp_path, formats="json,gif")


def test_a_video_is_heard_with_the_sound_of_another_recording(localizer: Localizer, tmp_path: Path) -> None:
    path = moving(tmp_path / "a.mp4", 2.0, sound=np.zeros(2 * make.RATE, np.float32))
    sound = make.sound_file(tmp_path / "b.wav", make.chirp(5.0))
    assert {item.verdict for item in run_video(localizer, path, tmp_path / "own").items} == {"silent"}
    timeline = run_video(localizer, path, tmp_path, sound=sound)
    assert (timeline.source, timeline.sound) == (str(path), str(sound))
    assert {item.verdict for item in timeline.items} == {"not calibrated"}
    film = tmp_path / "a.earsight.mp4"
    assert probe(film).duration == pytest.approx(2.0, abs=0.1)
    heard, original = read_audio(film, 8000), read_audio(sound, 8000)
    assert abs(make.lag(original[:15000], heard[:15000], 800)) <= 8
    mute = moving(tmp_path / "mute.mp4", 1.0)
    assert run_video(localizer, mute, tmp_path, sound=sound, start=0.5, formats="mp4").items[0].time == 0.5
    with pytest.raises(MediaError, match=r"a\.png: has no audio track"):
        run_video(localizer, path, tmp_path, sound=make.picture(tmp_path / "a.png", make.corners()), force=True)


def test_which_of_several_sound_tracks_was_heard_is_told(localizer: Localizer, tmp_path: Path) -> None:
    path = moving(tmp_path / "a.mkv", 0.5, tracks=2)
    told = "there are 2 sound tracks, of which the first was heard"
    assert run_video(localizer, path, tmp_path, formats="json").notes == (told,)
    image = make.picture(tmp_path / "b.png", make.corners())
    assert run_pair(localizer, image, path, tmp_path, formats="json").notes == (told,)


def test_a_pair_is_never_a_film_alone(localizer: Localizer, tmp_path: Path) -> None:
    pair = make.picture(tmp_path / "a.png", make.corners()), make.sound_file(tmp_path / "a.wav", make.chirp(1.0))
    with pytest.raises(UsageError, match=r"png, json or npz for a picture .*, but got mp4 alone\. Add one of them"):
        run_pair(localizer, *pair, tmp_path / "out", formats=("mp4",))
    assert not (tmp_path / "out").exists()


def test_a_pair_at_a_time_past_the_end_of_its_sound_is_refused(localizer: Localizer, tmp_path: Path) -> None:
    pair = make.picture(tmp_path / "a.png", make.corners()), make.sound_file(tmp_path / "a.wav", make.chirp(1.0))
    with pytest.raises(MediaError, match=r"a\.wav: plays for 1 s, but the start is at 99 s\. Start earlier\."):
        run_pair(localizer, *pair, tmp_path / "out", start=99)
    assert not (tmp_path / "out").exists()


def test_a_pair_becomes_a_picture_and_json(trusting: Localizer, tmp_path: Path) -> None:
    image = make.picture(tmp_path / "dog.png", make.corners(300, 200))
    sound = make.sound_file(tmp_path / "bark.wav", make.chirp(3.0))
    timeline = run_pair(trusting, image, sound, tmp_path / "out", start=1.25)
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
        run_pair(trusting, image, sound, tmp_path / "out")


def test_a_silent_pair_says_so(trusting: Localizer, tmp_path: Path) -> None:
    image = make.picture(tmp_path / "a.png", make.corners())
    sound = make.wav(tmp_path / "a.wav", np.zeros(8000, np.int16), 8000)
    assert run_pair(trusting, image, sound, tmp_path, formats=("json",)).items[0].verdict == "silent"


@pytest.mark.slow
def test_real_clips_come_through(trusting: Localizer, shared_media: Path, tmp_path: Path) -> None:
    for path in sorted((shared_media / "clips").glob("*.mp4")):
        run_video(trusting, path, tmp_path, end=2.0)
        film, old = probe(tmp_path / f"{path.stem}.earsight.mp4"), probe(path)
        assert (film.width, film.height) == (old.width, old.height)
        assert film.duration == pytest.approx(2.0, abs=0.15)
        assert film.has_audio
