"""Videos and sounds of every kind."""

from pathlib import Path

import make
import pytest


@pytest.fixture(scope="module")
def videos(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Four seconds of every container: frame k has gray 20 + 2k, the sound is the chirp."""
    folder = tmp_path_factory.mktemp("videos")
    return {suffix: make.steps(folder / f"steps{suffix}") for suffix in make.VIDEO_CODECS}


@pytest.fixture(scope="module")
def sounds(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("sounds")
    return {suffix: make.sound_file(folder / f"chirp{suffix}", make.chirp(4)) for suffix in make.SOUND_FILES}
