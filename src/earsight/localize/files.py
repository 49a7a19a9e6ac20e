"""The files that localization writes: their names, JSON, maps as .npz, and that none is replaced unasked."""

from __future__ import annotations

import json
import shutil
import tempfile
import zipfile
from collections.abc import Callable, Iterable
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self

import numpy as np
import numpy.typing as npt

from earsight.errors import UsageError
from earsight.files import MARK, write_atomically, write_text
from earsight.localize.timeline import Timeline
from earsight.media.write import telling
from earsight.types import F32


def outputs(out: Path, name: str, formats: Iterable[str]) -> dict[str, Path]:
    """Where each format goes.

    >>> print(outputs(Path("out"), "dog", ["json"])["json"].name)
    dog.earsight.json
    """
    return {one: out / f"{name}{MARK}.{one}" for one in formats}


def make_way(files: Iterable[Path], force: bool) -> None:
    """Make the folders of files to be written; without `force`, none of the files may be there."""
    files = list(files)
    there = [file for file in files if file.exists()]
    if there and not force:
        more = f" and {len(there) - 1} more" if len(there) > 1 else ""
        raise UsageError(
            f"Expected no results there yet, but got {there[0]}{more}. "
            "Name another output folder, or use --force (force=True in Python) to replace them."
        )
    for folder in {file.parent for file in files}:
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UsageError(
                f"Expected an output folder that can be made, but got {folder} ({error.strerror}). Name another one."
            ) from error


def write_file(path: Path, write: Callable[[Path], None]) -> None:
    """Let `write` fill a file that appears whole or not at all; errors name `path`."""
    with telling(path):
        write_atomically(path, write)


def write_json(path: Path, timeline: Timeline) -> None:
    """The timeline as JSON, whole or not at all."""
    text = json.dumps(timeline.to_json(), indent=2, allow_nan=False) + "\n"
    with telling(path):
        write_text(path, text)


class MapsFile:
    """Takes maps (h, w), all of one size, one after another, and writes them with their times at the end.

    They are collected on disk, so that hours take no memory.

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
