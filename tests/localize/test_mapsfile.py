"""The maps of a video as a file of arrays."""

from __future__ import annotations

from pathlib import Path

import make
import numpy as np
import pytest

from earsight.errors import MediaError
from earsight.localize import Localizer
from earsight.localize.files import MapsFile
from tiny.localized import run_pair, run_video


def test_maps_lie_beside_their_times_and_verdicts(trusting: Localizer, tmp_path: Path) -> None:
    path = make.steps(tmp_path / "a.mp4", 1.0, 10)
    timeline = run_video(trusting, path, tmp_path, smooth=0.0, formats=("npz",))
    assert [file.name for file in timeline.files] == ["a.earsight.npz"]
    with np.load(tmp_path / "a.earsight.npz") as found:
        assert set(found) == {"maps", "time", "confidence", "momentary", "verdict", "size"}
        assert found["maps"].dtype == np.float32
        assert found["maps"].shape[0] == 5
        assert found["time"].tolist() == [item.time for item in timeline.items]
        assert found["verdict"].tolist() == ["visible source"] * 5
        assert found["size"].tolist() == [48, 64]
        # The tiny model's confidence is the mean of the highest quarter; the peak is never lower.
        assert (found["maps"].max(axis=(1, 2)) >= found["confidence"] - 1e-6).all()


def test_a_pair_has_one_map(trusting: Localizer, tmp_path: Path) -> None:
    image = make.picture(tmp_path / "a.png", make.corners())
    sound = make.sound_file(tmp_path / "a.wav", make.chirp(1.0))
    run_pair(trusting, image, sound, tmp_path, formats=("mp4", "npz"))
    with np.load(tmp_path / "a.earsight.npz") as found:
        assert found["maps"].shape[0] == 1


def test_maps_that_cannot_be_written_are_told(tmp_path: Path) -> None:
    with (
        pytest.raises(MediaError, match=r"cannot be written \(.*\)\. Check that its folder"),
        MapsFile(tmp_path / "gone" / "a.npz"),
    ):
        pass
