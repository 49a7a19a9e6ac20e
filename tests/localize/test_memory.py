"""Memory stays where it is, however long a video is."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from earsight.media.write import VideoWriter, write_wav

RUN = """
import re, sys
from pathlib import Path
from earsight.localize import Localizer, Settings, localize_video
localizer = Localizer.load(sys.argv[1], "cpu")
settings = Settings(every=0.5, formats="mp4,png,json,npz")
timeline = localize_video(localizer, Path(sys.argv[2]), Path(sys.argv[3]), settings)
# Not getrusage, whose peak counts that of the process which started this one.
print(len(timeline.items), re.search(r"VmHWM:\\s*(\\d+) kB", Path("/proc/self/status").read_text())[1])
"""


def long_video(path: Path, minutes: int) -> Path:
    """Two frames a second with sound."""
    sound = np.resize(0.5 * np.sin(np.arange(8000) / 8), 8000 * 60 * minutes).astype(np.float32)
    write_wav(path.with_suffix(".wav"), sound, 8000)
    with VideoWriter(path, 160, 120, Fraction(2), path.with_suffix(".wav")) as film:
        for i in range(120 * minutes):
            film.write(np.full((3, 120, 160), i % 200, np.uint8), i / 2)
    return path


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs Linux's account of memory")
def test_half_an_hour_takes_no_more_memory_than_two_minutes(make_weights: Callable[..., Path], tmp_path: Path) -> None:
    weights, peaks = make_weights(0.5), {}
    for minutes in (2, 30):
        path = long_video(tmp_path / f"{minutes}.mp4", minutes)
        args = [sys.executable, "-c", RUN, str(weights), str(path), str(tmp_path)]
        done = subprocess.run(args, capture_output=True, text=True, check=True)
        count, peaks[minutes] = map(int, done.stdout.split())
        assert count == 120 * minutes
    assert peaks[30] < peaks[2] + 40_000  # KiB
