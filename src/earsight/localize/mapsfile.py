"""The maps of a video as one .npz file: collected on disk while they come, so that hours take no memory."""

from __future__ import annotations

import shutil
import tempfile
import zipfile
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self

import numpy as np
import numpy.typing as npt

from earsight.localize.files import write_file
from earsight.localize.timeline import Timeline
from earsight.media.write import telling
from earsight.types import F32


class MapsFile:
    """Takes maps (h, w), all of one size, one after another, and writes them with their times at the end.

    Args:
        path: the file to write; a nameless one beside it holds the maps until then.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._shape: tuple[int, ...] = (0, 0)

    def __enter__(self) -> Self:
        with telling(self.path):
            self._held: IO[bytes] = tempfile.TemporaryFile(dir=self.path.parent)
        return self

    def add(self, score: F32) -> None:
        self._shape = score.shape
        with telling(self.path):
            self._held.write(np.ascontiguousarray(score, np.float32).tobytes())

    def write(self, timeline: Timeline) -> None:
        """Write the file: `maps` (T, h, w), and of each `time`, `confidence`, `momentary` and `verdict` (T,)."""
        columns: dict[str, npt.NDArray[Any]] = {
            name: np.array([getattr(item, name) for item in timeline.items])
            for name in ("time", "confidence", "momentary", "verdict")
        }
        columns["size"] = np.array([timeline.height, timeline.width])

        def fill(beside: Path) -> None:
            with zipfile.ZipFile(beside, "w") as file:
                for name, column in columns.items():
                    with file.open(f"{name}.npy", "w") as part:
                        np.lib.format.write_array(part, column, allow_pickle=False)
                with file.open("maps.npy", "w", force_zip64=True) as part:
                    shape = (len(timeline.items), *self._shape)
                    header = {"descr": "<f4", "fortran_order": False, "shape": shape}
                    np.lib.format.write_array_header_1_0(part, header)
                    self._held.seek(0)
                    shutil.copyfileobj(self._held, part, 1 << 20)

        write_file(self.path, fill)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._held.close()
