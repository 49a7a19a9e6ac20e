"""For all tests: one core, known random numbers, and real media beside the checkout when they are there."""

from __future__ import annotations

import os
import sys
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


def pytest_collection_finish(session: pytest.Session) -> None:
    """Before any test: later the server of processes might be one that has not imported torch, and be slow."""
    processes = sys.modules.get("tiny.processes")
    if processes and any(vars(getattr(item, "module", object)).get("processes") is processes for item in session.items):
        processes.ready()


@pytest.fixture(autouse=True)
def seeded() -> None:
    """What a test draws from torch's global generator does not hang on the tests that ran before it.

    No test may use this seed: a new model must not happen to be the one that a file was made from, for then nobody
    would see that the file was not loaded.
    """
    if torch := sys.modules.get("torch"):  # tests that do without it do not import it
        torch.manual_seed(20_261)


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
