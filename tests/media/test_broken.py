"""Three hundred broken files: each is read or refused by name; none raises anything else, hangs or crashes."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import broken
import pytest

SCRIPT = Path(broken.__file__)


def said_of(paths: list[Path], seconds: float) -> dict[Path, dict[str, str]]:
    """What a child process says of each file; the file it dies or hangs on gets that as its answer."""
    said: dict[Path, dict[str, str]] = {}
    while left := [path for path in paths if path not in said]:
        command = [sys.executable, str(SCRIPT), *map(str, left)]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=seconds, check=False)
            out, end = done.stdout, f"died with {done.returncode}: {done.stderr[-2000:]}"
            assert not done.stderr or done.returncode, f"FFmpeg's own log came through: {done.stderr[:500]}"
        except subprocess.TimeoutExpired as error:
            out, end = (error.stdout or b"").decode(), "hung"
        for line in out.splitlines():
            answer = json.loads(line)
            said[Path(answer["path"])] = answer.get("said", {"all": end})
        said.setdefault(left[0], {"all": end})
    return said


@pytest.mark.slow
def test_three_hundred_broken_files_are_read_or_refused_by_name(tmp_path: Path) -> None:
    paths = broken.broken_files(tmp_path, 300)
    assert len(set(paths)) == 300
    said = said_of(paths, 240)
    wrong = {
        f"{path.name}, {way}": answer
        for path, answers in said.items()
        for way, answer in answers.items()
        if answer != "read" and not answer.startswith(f"MediaError {path}: ")
    }
    assert wrong == {}
    # The files must be broken enough to be refused, and not so much that nothing is ever decoded from them.
    frames = [answers["frame"] == "read" for answers in said.values()]
    sounds = [answers["sound"] == "read" for answers in said.values()]
    assert 50 < sum(frames) < 250
    assert 50 < sum(sounds) < 250


def test_good_files_of_every_kind_are_read(tmp_path: Path) -> None:
    for path, answers in said_of(broken.whole_files(tmp_path), 120).items():
        still = path.stem == "photo"
        assert answers["probe"] == "read"
        assert (answers["image"] == "read") == still
        assert (answers["sound"] == "read") == (not still)
        assert (answers["frame"] == "read") == (path.stem in ("photo", "good"))


def test_a_crash_or_a_hang_of_the_child_would_be_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = tmp_path / "child.py"
    monkeypatch.setattr(sys.modules[__name__], "SCRIPT", script)
    script.write_text("import os, sys, json; print(json.dumps({'path': sys.argv[1]}), flush=True); os.abort()")
    assert "died" in said_of([Path("a"), Path("b")], 60)[Path("b")]["all"]
    script.write_text("import time; time.sleep(60)")
    assert said_of([Path("a")], 0.5)[Path("a")]["all"] == "hung"


def test_what_is_whole_of_a_cut_video_is_used(tmp_path: Path) -> None:
    import make

    from earsight.media.read import iter_frames, read_audio

    whole = make.steps(tmp_path / "a.mkv", 4).read_bytes()
    cut = tmp_path / "cut.mkv"
    cut.write_bytes(whole[: len(whole) * 6 // 10])
    frames = list(iter_frames(cut))
    assert 10 < len(frames) < 100
    assert 0.5 * 16000 < len(read_audio(cut, 16000)) < 4 * 16000
