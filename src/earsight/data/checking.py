"""Shards of a pack that are looked at as a whole, beside whoever reads all of their clips one after another.

A digest for each clip asks Python for a turn each time. When every clip of a shard is wanted, one hash of its file says
the same, in one long call that other threads run beside.
"""

from __future__ import annotations

import hashlib
from bisect import bisect_left
from collections.abc import Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cache
from pathlib import Path

from earsight.data.manifest import Manifest, ShardInfo, shard_path

AHEAD = 4
"""Shards that are looked at before their clips are asked for, by as many threads: one takes longer to look at a shard
than a GPU takes for its clips."""
_PIECE = 16 << 20  # bytes


class Checks:
    """What is known of the shards of a split's folder."""

    def __init__(self, folder: Path, manifest: Manifest) -> None:
        self._folder, self._manifest = folder, manifest
        self._expected: list[int] = []
        self._found: dict[int, Future[bool]] = {}

    def expect(self, shards: Iterable[int]) -> None:
        """The clips of these shards, in ascending order, are about to be read."""
        self._expected = sorted({*self._expected, *shards})

    def forget(self, number: int) -> None:
        """Look at a shard anew: its file is another one."""
        self._found.pop(number, None)

    def whole(self, number: int) -> bool:
        """Whether a shard is known to be what was packed. Nobody waits for it: what is not known yet is not."""
        at = bisect_left(self._expected, number)
        if self._expected[at : at + 1] == [number]:
            for each in self._expected[at : at + AHEAD]:
                if each not in self._found:
                    path, info = shard_path(self._folder, each), self._manifest.shards[each]
                    self._found[each] = _threads().submit(_is_whole, path, info)
        found = self._found.get(number)
        return found is not None and found.done() and found.result()


@cache
def _threads() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(AHEAD, "checking")


def _is_whole(path: Path, info: ShardInfo) -> bool:
    try:
        found, piece = hashlib.sha256(), bytearray(min(_PIECE, info.bytes))
        with path.open("rb") as file:  # not mapped, since a file that is cut off meanwhile would end the process
            while count := file.readinto(piece):
                found.update(memoryview(piece)[:count])
        return found.hexdigest() == info.sha256
    except (OSError, ValueError):  # who reads its clips is told why
        return False
