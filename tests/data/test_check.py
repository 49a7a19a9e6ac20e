"""Looking at every clip: each thing that can be wrong is found, named, and nothing else is."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from pathlib import Path

import make
import numpy as np
import pytest

from earsight.data.check import Findings, check
from earsight.data.clips import ClipSet, open_set
from earsight.data.layout import Layout, Listed
from earsight.errors import DataError, MediaError, UsageError
from earsight.media.write import write_png, write_wav
from earsight.types import F32, Clip, Row

RATE = 8000
BOX = (0.2, 0.2, 0.8, 0.8)


class Made(ClipSet):
    """Clips without files: clip i has the picture and the sound of the values given for it."""

    def __init__(self, rows: Sequence[Row], pictures: Sequence[int], sounds: Sequence[F32]) -> None:
        super().__init__("made:test", rows)
        self.pictures, self.sounds = pictures, sounds

    def read(self, index: int, rate: int, seconds: float, draw: int = 0) -> Clip:
        if self.pictures[index] < 0:
            raise MediaError(f"{self.rows[index].id}.png", "does not exist.", "Check the name.")
        frame = np.full((3, 8, 8), self.pictures[index], np.uint8)
        return Clip(self.rows[index].id, frame, self.sounds[index], rate, 1.5)


class Dies(Made):
    """Takes the reading process with it, as a decoder that crashes does."""

    def read(self, index: int, rate: int, seconds: float, draw: int = 0) -> Clip:
        os._exit(3)


def tone(level: float = 0.5, seconds: float = 3.0, rate: int = 22050) -> F32:
    wave: F32 = (level * np.sin(np.arange(round(seconds * rate)) / 9)).astype(np.float32)
    return wave


def found(findings: Findings) -> list[tuple[str, str]]:
    return [(problem.id, problem.kind) for problem in findings.problems]


def media(root: Path, names: Sequence[str]) -> None:
    """frames/NAME.png and audio/NAME.wav, four seconds, all different."""
    for folder in ("frames", "audio", "videos"):
        (root / folder).mkdir(exist_ok=True)
    for name in names:
        random = np.random.default_rng(list(name.encode()))
        write_png(root / f"frames/{name}.png", random.integers(0, 256, (3, 20, 30), dtype=np.uint8))
        write_wav(root / f"audio/{name}.wav", random.uniform(-0.5, 0.5, 4 * RATE).astype(np.float32), RATE)


def listed(root: Path, names: Sequence[str]) -> Listed:
    return Listed("made:test", [Row(name) for name in names], Layout(root))


def test_the_toybox_is_good() -> None:
    findings = check(open_set("toybox:extended"), limit=24)
    assert findings.problems == ()
    assert (findings.looked, len(findings.good), findings.failed) == (24, 24, False)


def test_files_that_are_missing_or_damaged_are_named(tmp_path: Path) -> None:
    media(tmp_path, "abcd")
    (tmp_path / "frames/a.png").unlink()
    (tmp_path / "audio/b.wav").unlink()
    (tmp_path / "frames/b.png").unlink()
    (tmp_path / "frames/c.png").write_bytes(b"no picture")
    findings = check(listed(tmp_path, "abcd"))
    assert found(findings) == [("a", "missing"), ("b", "missing"), ("c", "unreadable")]
    assert findings.problems[0].detail.startswith("no picture. Expected a.{jpg,jpeg,png,...} in")
    assert findings.problems[1].detail.startswith("no picture and no sound. Expected b.{jpg,jpeg,png,...} in")
    assert "c.png: is not a media file of a known kind" in findings.problems[2].detail
    assert findings.good == ("d",)
    assert findings.failed
    assert findings.counts == {"missing": 2, "unreadable": 1}


def test_a_name_that_cannot_be_a_file_is_told_like_any_other_problem(tmp_path: Path) -> None:
    media(tmp_path, "a")
    findings = check(listed(tmp_path, ["a", "../a"]))
    assert found(findings) == [("../a", "unreadable")]
    assert findings.problems[0].detail == "is not the name of a recording. Expected a file name without its ending."


def test_a_set_without_files_is_checked_by_what_it_reads() -> None:
    rows = [Row("gone"), Row("mute"), Row("quiet"), Row("short"), Row("good")]
    sounds = [tone(), tone()[:0], tone(5e-5), tone(0.4, 2.0), tone(0.3)]
    findings = check(Made(rows, [-1, 1, 2, 3, 4], sounds))
    assert found(findings) == [("gone", "missing"), ("mute", "silent"), ("quiet", "silent"), ("short", "wrongly timed")]
    assert [problem.detail for problem in findings.problems[1:]] == [
        "has no sound",
        "has a peak of 5.0e-05",
        "has 2.00 s of sound, of the 3 s that are heard",
    ]
    assert findings.failed
    assert not check(Made(rows[1:], [1, 2, 3, 4], sounds[1:])).failed


def test_a_row_that_starts_past_the_end_of_its_sound_is_wrongly_timed(tmp_path: Path) -> None:
    write_png(tmp_path / "a.png", np.full((3, 20, 30), 9, np.uint8))
    write_wav(tmp_path / "a.wav", tone(rate=RATE), RATE)
    (tmp_path / "pairs_train.csv").write_text(
        "image,audio,start,cls,kind\na.png,a.wav,0,x,single\na.png,a.wav,7,x,single\n"
    )
    findings = check(open_set("folder:train", tmp_path))
    assert found(findings) == [("a+a@7", "wrongly timed")]
    assert findings.problems[0].detail == "begins past the end of its sound, which lasts 3.00 s"


def test_copies_under_another_name_are_told_and_the_first_one_is_good(tmp_path: Path) -> None:
    media(tmp_path, "abcd")
    shutil.copy(tmp_path / "frames/a.png", tmp_path / "frames/b.png")
    shutil.copy(tmp_path / "audio/a.wav", tmp_path / "audio/c.wav")
    for folder, ending in (("frames", "png"), ("audio", "wav")):
        shutil.copy(tmp_path / f"{folder}/d.{ending}", tmp_path / f"{folder}/e.{ending}")
    findings = check(listed(tmp_path, "abcde"))
    assert [(problem.id, problem.detail) for problem in findings.problems] == [
        ("b", "has the picture of a"),
        ("c", "has the sound of a"),
        ("e", "has the picture and the sound of d"),
    ]
    assert findings.counts == {"duplicate": 3}
    assert findings.good == ("a", "d")


def test_a_recording_that_several_clips_use_is_no_copy(tmp_path: Path) -> None:
    media(tmp_path, "ab")
    rows = [Row("a"), Row("b"), Row("a+b", "", "easy", picture="a", sound="b")]
    assert check(Listed("made:test", rows, Layout(tmp_path))).problems == ()
    # Without files or names of recordings, a negative may show a positive's picture; two positives may not.
    sounds = [tone(0.1), tone(0.2), tone(0.3)]
    kinds = [Row("p"), Row("n", "", "easy"), Row("q")]
    assert found(check(Made(kinds, [5, 5, 6], sounds))) == []
    assert found(check(Made(kinds, [5, 6, 5], sounds))) == [("q", "duplicate")]


def test_silent_clips_are_no_copies_of_each_other() -> None:
    sounds = [np.zeros(3 * 22050, np.float32)] * 2
    assert found(check(Made([Row("a"), Row("b")], [1, 2], sounds))) == [("a", "silent"), ("b", "silent")]


def test_positives_without_a_place_are_told_only_where_others_have_one() -> None:
    rows = [Row("a", boxes=(BOX,)), Row("b"), Row("c", boxes=((0.5, 0.5, 0.501, 0.501),)), Row("n", kind="easy")]
    sounds = [tone(0.1 * (i + 1)) for i in range(4)]
    findings = check(Made(rows, range(4), sounds))
    assert found(findings) == [("b", "no boxes"), ("c", "empty boxes")]
    assert not findings.failed
    assert check(Made([Row("a"), Row("b")], range(2), sounds)).problems == ()


def test_still_and_mistimed_videos_are_told(tmp_path: Path) -> None:
    media(tmp_path, "d")
    times = [k / 10 for k in range(40)]
    moving = [make.gray_frame(20 + 5 * k) for k in range(40)]
    wave = make.chirp(4)
    make.video(tmp_path / "videos/a.mp4", moving, times, wave)
    make.video(tmp_path / "videos/b.mp4", [make.gray_frame(90)] * 40, times, wave[::-1].copy())
    make.video(tmp_path / "videos/c.mp4", [frame + 1 for frame in moving], times, 0.5 * make.chirp(5.5))
    findings = check(listed(tmp_path, "abcd"))
    assert found(findings) == [("b", "still"), ("c", "wrongly timed")]
    assert findings.problems[1].detail.startswith("shows 4.")
    # The picture of a video beside a sound of its own need not be as long.
    write_wav(tmp_path / "audio/c.wav", tone(rate=RATE), RATE)
    assert check(listed(tmp_path, "c")).problems == ()


@pytest.mark.slow
def test_workers_find_the_same(tmp_path: Path) -> None:
    names = [f"clip{i:02d}" for i in range(40)]
    media(tmp_path, names)
    for name in names[::7]:
        (tmp_path / f"frames/{name}.png").unlink()
    clips = listed(tmp_path, names)
    seen: list[tuple[float, float]] = []
    two = check(clips, workers=2, progress=lambda done, total: seen.append((done, total)))
    assert two == check(clips)
    assert len(two.counts) == 1
    assert seen == [(i, 40) for i in range(1, 41)]


@pytest.mark.slow
def test_a_reader_that_dies_is_told_with_the_clips_it_was_at() -> None:
    clips = Dies([Row(f"c{i}") for i in range(20)], [0] * 20, [tone()] * 20)
    with pytest.raises(DataError, match=r"a reader that died between c0 and c19\. Try again with --workers 0"):
        check(clips, workers=1)


def test_a_limit_looks_at_clips_all_over_the_set() -> None:
    clips = Made([Row(f"c{i}") for i in range(10)], range(10), [tone(0.05 * (i + 1)) for i in range(10)])
    assert check(clips, limit=5).good == ("c0", "c2", "c4", "c6", "c8")
    assert check(clips, limit=99).looked == 10


def test_what_cannot_be_checked_is_told(tmp_path: Path) -> None:
    clips = Made([Row("a")], [1], [tone()])
    with pytest.raises(UsageError, match="workers of at least 0, but got -1"):
        check(clips, workers=-1)
    with pytest.raises(UsageError, match="at most 512 workers, but got 10000000000"):
        check(clips, workers=10**10)
    with pytest.raises(UsageError, match="a limit of at least 1, or 0 for all clips, but got -2"):
        check(clips, limit=-2)
    with pytest.raises(
        UsageError, match=r"Expected the folder with the media of made:test, but got none\. Pass --data"
    ):
        check(Listed("made:test", [Row("a")], Layout(None)))
