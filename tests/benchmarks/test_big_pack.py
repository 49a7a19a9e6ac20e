"""A large pack of generated media is a real one, and every row of it is another clip."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from benchmarks.generated import SIZES, Generated

from benchmarks import big_pack
from earsight.data.clips import open_set
from earsight.data.manifest import Settings
from earsight.errors import UsageError

ROOT = Path(__file__).parents[2]
SETTINGS = Settings(rate=8000, seconds=0.5, shard_rows=4)


def test_it_opens_as_any_pack_and_no_two_rows_are_alike(tmp_path: Path) -> None:
    told: list[int] = []
    big_pack.make(tmp_path, 16, split="test", settings=SETTINGS, tell=told.append)
    assert told[-1] == 16
    clips = open_set("benchmarks.generated:test", tmp_path)
    read = [clips.read(i, 8000, 0.5) for i in range(len(clips))]
    assert len({clip.frame.tobytes() for clip in read}) == len({clip.waveform.tobytes() for clip in read}) == 16
    assert {clip.frame.shape[1:] for clip in read} == set(SIZES)
    assert sum(row.positive for row in clips.rows) == 8


def test_rows_are_a_function_of_their_number() -> None:
    one, other = Generated("train", 3).read(2, 8000, 0.5), Generated("train", 9).read(2, 8000, 0.5)
    assert one.id == other.id
    assert np.array_equal(one.frame, other.frame)
    assert np.array_equal(one.waveform, other.waveform)


def test_a_finished_pack_is_not_replaced(tmp_path: Path) -> None:
    big_pack.make(tmp_path, 4, settings=SETTINGS)
    with pytest.raises(UsageError, match=r"Expected a new place for the pack, but .* has one. Remove it, or"):
        big_pack.make(tmp_path, 4, settings=SETTINGS)


@pytest.mark.slow
def test_it_needs_neither_pyav_nor_tyro(tmp_path: Path) -> None:
    code = (
        "import sys; sys.modules.update(av=None, tyro=None, soundfile=None); sys.argv[0] = 'big_pack'\n"
        "from benchmarks.big_pack import main; main()"
    )
    command = [sys.executable, "-c", code, "--out", str(tmp_path / "pack"), "--rows", "3", "--jobs", "1"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert "open it as benchmarks.generated:train" in done.stdout
