"""Packing that is killed: it goes on, and the pack has the bytes of one that nobody killed."""

from __future__ import annotations

import random
import signal
import time
from pathlib import Path

import pytest

from earsight.data.manifest import MANIFEST
from tiny import packing, processes
from tiny.packing import SETTINGS, contents, pack
from tiny.tones import Tones

KILLS = 20


@pytest.fixture(scope="module")
def straight(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """The pack that comes out when nobody kills it."""
    out = tmp_path_factory.mktemp("straight") / "pack"
    pack(Tones("torn"), out, SETTINGS)
    return contents(out)


@pytest.mark.slow
def test_killed_at_twenty_random_moments_a_pack_has_the_same_bytes(straight: dict[str, bytes], tmp_path: Path) -> None:
    chance = random.Random(0)
    killed, packs = 0, 0
    while killed < KILLS:
        packs += 1
        out = tmp_path / f"pack{packs}"
        begun = tmp_path / f"{out.name}-begun"
        while True:
            begun.unlink(missing_ok=True)
            process = processes.start(packing.go, out)
            while killed < KILLS and not begun.exists() and process.is_alive():
                time.sleep(0.002)
            if killed < KILLS:
                process.join(chance.uniform(0.0, 0.25))
                if process.is_alive():
                    process.kill()
                    killed += 1
            process.join()
            assert process.exitcode in (0, -signal.SIGKILL)
            if process.exitcode == 0:
                break
            assert not (out / "tiny.tones-torn" / MANIFEST).exists(), "unfinished packs have no manifest"
        assert contents(out) == straight


@pytest.mark.slow
def test_killed_while_a_file_is_written_a_pack_has_the_same_bytes(straight: dict[str, bytes], tmp_path: Path) -> None:
    out = tmp_path / "pack"
    # The mark, the note of what was begun, shards, and at last the manifest.
    moments = ((1, True), (1, False), (1, True), (1, False), (3, True), (5, False), (10, True), (1, False))
    for nth, torn in moments:
        process = processes.start(packing.go_until_move, out, nth, torn)
        assert processes.finish([process]) == [-signal.SIGKILL]
    assert processes.finish([processes.start(packing.go, out)]) == [0]
    assert contents(out) == straight


@pytest.mark.slow
def test_killed_with_workers_a_pack_has_the_same_bytes(straight: dict[str, bytes], tmp_path: Path) -> None:
    out = tmp_path / "pack"
    shard = out / "tiny.tones-torn" / "shard-00001.arrow"
    process = processes.start(packing.go, out, 2)
    while not shard.exists() and process.is_alive():
        time.sleep(0.002)
    process.kill()
    process.join()
    assert pack(Tones("torn"), out, SETTINGS, workers=2).kept >= 4
    assert contents(out) == straight
