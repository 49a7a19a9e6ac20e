"""Samples are small videos with sound that any browser plays, and the same ones every time."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from earsight.app.samples import SCENES, write_samples, write_scene
from earsight.data.toys.scene import make_scene
from earsight.media.read import probe, read_audio, read_image


@pytest.mark.slow
def test_samples_are_videos_with_sound_and_a_picture(tmp_path: Path) -> None:
    made = write_samples(tmp_path)
    assert len({sample.title for sample in made}) == len(SCENES) + 1
    for sample in made:
        info = probe(sample.clip)
        assert info.has_video
        assert info.has_audio
        assert np.abs(read_audio(sample.clip, 8000)).max() > 0.2
        assert read_image(sample.picture).shape == (3, 160, 160)
    assert sum(sample.clip.stat().st_size for sample in made) < 10_000_000


def test_scene_is_the_same_every_time(tmp_path: Path) -> None:
    scene = make_scene((3, 91), sounding="bell")
    for name in ("one.mp4", "two.mp4"):
        write_scene(tmp_path / name, scene, "bell", seconds=0.5, side=64)
    assert (tmp_path / "one.mp4").read_bytes() == (tmp_path / "two.mp4").read_bytes()
