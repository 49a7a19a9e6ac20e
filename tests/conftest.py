"""Shared fixtures: real media beside the checkout when it is there."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import settings

# Where others wait for the verdict, properties are tried on the same examples every time.
settings.register_profile("ci", derandomize=True)
if os.environ.get("CI"):
    settings.load_profile("ci")

# Tiny models run many times faster on one thread, and the tests already run in one process a core.
os.environ.setdefault("OMP_NUM_THREADS", "1")

SHARED = Path(__file__).resolve().parents[2] / "shared"


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of real media, weights and metadata beside the checkout."""
    if not SHARED.is_dir():
        pytest.skip("no real media: shared/ does not lie beside the checkout")
    return SHARED


@pytest.fixture(scope="session")
def shared_media(shared: Path) -> Path:
    """Real photos, sounds and clips."""
    return shared / "media"
