"""What is refused, and that the message says why and what to do."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import make
import numpy as np
import pytest

from earsight.errors import MediaError, UsageError
from earsight.media.accept import ACCEPTED, CLIPS, PICTURES
from earsight.media.read import Limits, iter_frames, probe, read_audio, read_clip, read_frame, read_image, read_pair


def test_what_is_not_a_media_file_is_refused_with_a_reason(tmp_path: Path) -> None:
    (tmp_path / "empty.mp4").touch()
    (tmp_path / "notes.txt").write_text("words " * 100)
    (tmp_path / "cut.mp4").write_bytes(make.steps(tmp_path / "a.mp4", 1).read_bytes()[:900])
    (tmp_path / "photo.heic").write_bytes(b"\0\0\0\x18ftypheic" + bytes(100))
    os.mkfifo(tmp_path / "pipe")
    for name, match in [
        ("nowhere.mp4", r"nowhere\.mp4: does not exist\. Check the name"),
        ("empty.mp4/x", "does not exist"),
        ("", "is a folder. Give a file"),
        ("empty.mp4", "is empty. Get it again"),
        ("notes.txt", r"not a media file of a known kind\. Expected one of: mp4, .*wav.*jpg"),
        ("cut.mp4", "is damaged or cut off"),
        ("photo.heic", "HEIC or AVIF picture. Convert it to jpg"),
        ("pipe", "not a regular file"),
        ("a\0b.mp4", "cannot be read"),
        ("x" * 300, "cannot be read"),
    ]:
        for read in (probe, read_image, lambda p: read_frame(p, 0), lambda p: read_audio(p, 16000)):
            with pytest.raises(MediaError, match=match):
                read(tmp_path / name)


@pytest.mark.skipif(os.geteuid() == 0, reason="the superuser may read everything")
def test_a_file_that_may_not_be_read_is_named(tmp_path: Path) -> None:
    path = make.picture(tmp_path / "a.png", make.corners())
    path.chmod(0)
    with pytest.raises(MediaError, match=r"may not be read\. Change its permissions"):
        probe(path)


def test_permission_refused_by_the_system_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = make.picture(tmp_path / "a.png", make.corners())

    def refuse(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(MediaError, match=r"may not be read\. Change its permissions"):
        probe(path)


def test_missing_tracks_are_told(tmp_path: Path, sounds: dict[str, Path], videos: dict[str, Path]) -> None:
    silent = make.steps(tmp_path / "silent.mp4", 1, sound=False)
    with pytest.raises(MediaError, match=r"has no audio track\. Give a file with sound"):
        read_audio(silent, 16000)
    with pytest.raises(MediaError, match="has no audio track"):
        read_clip(silent, 0.5, 16000, 1)
    with pytest.raises(MediaError, match=r"has no video track\. Give a file with pictures"):
        next(iter_frames(sounds[".mp3"]))
    with pytest.raises(MediaError, match=r"is not a picture\. Expected jpg"):
        read_image(videos[".mp4"])


def test_sound_that_is_not_numbers_or_not_there_is_refused(tmp_path: Path) -> None:
    for value in (np.nan, np.inf):
        path = make.wav(tmp_path / "nan.wav", np.full(3000, value, np.float32), tag=3)
        with pytest.raises(MediaError, match=r"sound samples that are not numbers\. Write the sound again"):
            read_audio(path, 16000)
    with pytest.raises(MediaError, match=r"nothing\.wav: "):
        read_audio(make.wav(tmp_path / "nothing.wav", np.zeros(0, np.int16)), 16000)


def test_playlists_and_references_to_other_files_are_refused(tmp_path: Path) -> None:
    clip = make.sound_file(tmp_path / "a.wav", make.chirp(0.5))
    (tmp_path / "list.m3u8").write_text(f"#EXTM3U\n#EXT-X-TARGETDURATION:1\n#EXTINF:1,\n{clip}\n#EXT-X-ENDLIST\n")
    (tmp_path / "list.ffconcat").write_text(f"ffconcat version 1.0\nfile {clip.name}\n")
    for name in ("list.m3u8", "list.ffconcat"):
        with pytest.raises(MediaError, match="not a media file of a known kind"):
            read_audio(tmp_path / name, 16000)


def test_limits_bound_size_length_and_time(videos: dict[str, Path], sounds: dict[str, Path]) -> None:
    path = videos[".mp4"]
    with pytest.raises(MediaError, match="frames of 3,072 pixels, over the limit of 1,000"):
        read_frame(path, 0, Limits(max_pixels=1000))
    with pytest.raises(MediaError, match="plays for 4 s, over the limit of 2 s"):
        probe(path, Limits(max_seconds=2))
    with pytest.raises(MediaError, match="over the limit of 100"):
        probe(path, Limits(max_bytes=100))
    with pytest.raises(MediaError, match="takes longer than 1e-09 s to decode"):
        read_frame(path, 0, Limits(max_decode_seconds=1e-9))
    with pytest.raises(MediaError, match=r"has 44100 sound samples per second\. The most is 22050"):
        read_audio(sounds[".wav"], 16000, limits=Limits(max_rate=22050))


def test_too_many_channels_are_refused(tmp_path: Path) -> None:
    path = make.sound_file(tmp_path / "a.wav", np.zeros((6, 999), np.float32), layout="5.1")
    with pytest.raises(MediaError, match="has 6 sound channels, over the limit of 4"):
        read_audio(path, 16000, limits=Limits(max_channels=4))


def test_a_file_that_declares_no_length_is_still_bounded(tmp_path: Path, sounds: dict[str, Path]) -> None:
    path = make.without_length(make.steps(tmp_path / "a.mkv", 4), tmp_path / "endless.mkv")
    assert probe(path).duration is None
    with pytest.raises(MediaError, match="over the limit of 2 s"):
        list(iter_frames(path, limits=Limits(max_seconds=2)))
    with pytest.raises(MediaError, match="over the limit of 2 s"):
        read_audio(path, 16000, limits=Limits(max_seconds=2))
    assert len(list(iter_frames(path))) == 100


def test_wrong_settings_are_the_callers_fault(videos: dict[str, Path]) -> None:
    path = videos[".mp4"]
    for call, match in [
        (lambda: Limits(max_pixels=0), "Expected max_pixels above 0"),
        (lambda: read_frame(path, -1.0), "Expected a time of at least 0"),
        (lambda: read_frame(path, float("nan")), "Expected a time of at least 0"),
        (lambda: read_audio(path, 0), "Expected a rate between 1 and"),
        (lambda: read_audio(path, 16000, -1.0), "Expected a start of at least 0"),
        (lambda: read_audio(path, 16000, 0.0, -1.0), "Expected seconds of at least 0"),
        (lambda: next(iter_frames(path, every=0.0)), "Expected every above 0"),
        (lambda: next(iter_frames(path, start=2.0, end=1.0)), "Expected an end after the start"),
        (lambda: read_clip(path, 0.0, 16000, 0.0), "Expected seconds above 0"),
        (lambda: read_pair(path, path, 0.0, 16000, 0.0), "Expected seconds above 0"),
    ]:
        with pytest.raises(UsageError, match=match):
            call()


def test_importing_the_reader_imports_neither_torch_nor_av() -> None:
    code = "import earsight.media.read, earsight.media.write, sys; print({'torch', 'av'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


def test_every_kind_that_messages_list_has_its_ending() -> None:
    named = {f".{kind}" for kinds in ACCEPTED.split("; ") for kind in kinds.split(", ")}
    assert named < CLIPS | PICTURES
    assert not CLIPS & PICTURES
    assert {".mp4", ".m4v", ".mts", ".wav", ".aif"} < CLIPS
    assert {".jpg", ".jpeg", ".png"} < PICTURES
