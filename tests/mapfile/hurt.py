"""Files that were cut off or hit by a flipped byte: whatever is wrong with them, it is told."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from earsight.errors import DataError


def cut(path: Path, read: Callable[[Path], object], every: int) -> None:
    """Reading must be refused wherever the file ends too early."""
    whole = path.read_bytes()
    for end in range(4, len(whole), every):
        path.write_bytes(whole[:end])
        with pytest.raises(DataError, match=r"Expected"):
            read(path)
    path.write_bytes(whole)


def flipped(path: Path, read: Callable[[Path], object], times: int) -> int:
    """How many of the files with one other byte are refused; no other error may come of them."""
    whole, random, refused = path.read_bytes(), np.random.default_rng(0), 0
    for _ in range(times):
        data = bytearray(whole)
        data[random.integers(4, len(data))] = random.integers(256)
        path.write_bytes(data)
        told = ""
        try:
            read(path)
        except DataError as error:
            told = str(error)
            refused += 1
        assert not told or told.startswith("Expected")
    path.write_bytes(whole)
    return refused
