"""What every form of a map file gives: ids in the file's order, and maps in batches of one resolution."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from earsight.errors import DataError
from earsight.types import F32, Maps

SIDE = 8192
"""Longest side of a map; more is a damaged or hostile file."""
MOST = 1_000_000
"""Maps in one file."""
BYTES = 64 << 20
"""Size at which a batch goes out, however many maps it was to hold."""
_WAITING = 2 * BYTES

AnyArray = npt.NDArray[Any]


class MapFile(ABC):
    """Maps with ids. Nothing but the ids, bounds and confidences is held in memory.

    Args:
        path: the file or folder.
        ids: the clips in the file's order; an id that is there twice stays twice, so that it can be named.
        bounds: lowest and highest value that a map can have in theory, or None.
        confidence: float32 (N,), what the file itself says about "the source is visible", or None.
    """

    def __init__(
        self,
        path: Path,
        ids: Sequence[str],
        bounds: tuple[float, float] | None = None,
        confidence: F32 | None = None,
    ) -> None:
        self.path, self.ids, self.bounds, self.confidence = path, tuple(ids), bounds, confidence

    def __len__(self) -> int:
        return len(self.ids)

    @abstractmethod
    def maps(self, wanted: Collection[int]) -> Iterator[tuple[int, AnyArray]]:
        """The maps (h, w) at these positions with their positions, in the file's order, as they are stored."""

    def batches(self, wanted: Collection[int] | None = None, size: int = 512) -> Iterator[tuple[list[int], Maps]]:
        """Up to `size` maps of one resolution at a time with their positions; by default all maps of the file.

        The file is read once, from front to end, and only what waits for its batch is held.
        """
        waiting: dict[tuple[int, ...], list[tuple[int, F32]]] = {}
        held = 0
        for position, stored in self.maps(set(range(len(self)) if wanted is None else wanted)):
            one = self._float32(stored, position)
            group = waiting.setdefault(one.shape, [])
            group.append((position, one))
            held += one.nbytes
            if len(group) >= size or len(group) * one.nbytes >= BYTES:
                full = one.shape
            elif held >= _WAITING:
                full = max(waiting, key=lambda shape: len(waiting[shape]) * math.prod(shape))
            else:
                continue
            held -= sum(map_.nbytes for _, map_ in waiting[full])
            yield self._batch(waiting.pop(full))
        for group in waiting.values():
            yield self._batch(group)

    def _batch(self, group: list[tuple[int, F32]]) -> tuple[list[int], Maps]:
        import torch

        at = [position for position, _ in group]
        dense = torch.from_numpy(np.stack([one for _, one in group]))
        confidence = None if self.confidence is None else torch.from_numpy(self.confidence[at])
        return at, Maps(dense, dense, self.bounds, confidence)

    def _float32(self, stored: AnyArray, position: int) -> F32:
        with np.errstate(over="ignore"):
            one: F32 = stored.astype(np.float32)
        if not np.isfinite(one).all():
            told = "NaN or infinity"
            if np.isfinite(stored).all():
                told = f"{stored.flat[np.abs(stored).argmax()]:g}, which is too large for float32,"
            raise DataError(
                f"Expected finite maps, but got {told} in the map of '{self.ids[position]}' in {self.path}. "
                "Correct it, or leave it out and use --allow-missing."
            )
        return one


def need_few(count: int, path: Path) -> None:
    """Refuse more maps than any set has clips."""
    if count > MOST:
        raise DataError(f"Expected at most {MOST} maps in {path}, but got {count}. Use several files.")


def need_shape(shape: Sequence[int], of: str, path: Path) -> tuple[int, int]:
    """The height and width of a map; any other shape is refused, never squeezed."""
    if len(shape) == 2 and all(1 <= side <= SIDE for side in shape):
        return shape[0], shape[1]
    raise DataError(
        f"Expected a map (h, w) with sides from 1 to {SIDE} for {of} in {path}, but got shape {tuple(shape)}. "
        + ("Save it as (h, w)." if len(shape) != 2 else "Save it again, at another size.")
    )


def bounds_of(values: Iterable[Any], path: Path) -> tuple[float, float]:
    """Two finite numbers in order, as bounds that a file holds."""
    try:
        low, high = map(float, values)
    except (TypeError, ValueError):
        low, high = math.nan, math.nan
    if not (-math.inf < low < high < math.inf):
        raise DataError(
            f"Expected bounds as two numbers in {path}, the lower first, but got {_brief(values)}. "
            "Save the lowest and the highest value that a map can have, for example -1 and 1."
        )
    return low, high


def confidence_of(values: AnyArray, ids: Sequence[str], path: Path) -> F32:
    """One finite number a clip as float32 (N,)."""
    if values.shape != (len(ids),) or values.dtype.kind not in "biuf":
        raise DataError(
            f"Expected one confidence for each of {len(ids)} maps in {path}, but got shape {values.shape} of "
            f"{values.dtype}. Save as many numbers as there are ids."
        )
    with np.errstate(over="ignore"):
        numbers: F32 = values.astype(np.float32)
    bad = np.flatnonzero(~np.isfinite(numbers))
    if len(bad):
        raise DataError(
            f"Expected finite confidences in {path}, but got {values[bad[0]]} for '{ids[bad[0]]}'. Correct it."
        )
    return numbers


def damaged(path: Path, told: object) -> DataError:
    """What to raise for a file that cannot be read to its end."""
    words = " ".join(str(told).split()) or type(told).__name__
    return DataError(f"Expected a whole file of maps, but got a damaged one: {path} ({words[:200]}). Make it again.")


def _brief(values: object) -> str:
    return str(values)[:80]
