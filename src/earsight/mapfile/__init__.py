"""Maps of any program in files: which clips they are of, and the maps themselves, a few at a time.

Two forms are read, told apart by what is in the file and not by its name:

- an .npz file, either with arrays `id` (N,) and `maps` (N, h, w), optionally `confidence` (N,) and `bounds` (2,); or
  with one array (h, w) a clip under the clip's id, optionally `__bounds__` (2,);
- a folder of ID.npy files (h, w), optionally with confidence.csv (columns id, confidence).

Where each clip has an array of its own, resolutions may differ. Values are whole numbers, truth values or floats of up
to 64 bits, and become float32. Nothing is guessed: what is not of these forms is refused and named.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from earsight.config import need
from earsight.errors import DataError
from earsight.files import local_path, write_atomically
from earsight.mapfile.base import MapFile, bounds_of
from earsight.types import Maps

__all__ = ["MapFile", "open_maps", "write_maps"]


def open_maps(path: Path | str, bounds: tuple[float, float] | None = None) -> MapFile:
    """Open a file or folder of maps and read its ids, but no map yet. `bounds` go before those in the file."""
    path = local_path(path)
    if bounds is not None:
        low, high = bounds
        ordered = -np.inf < low < high < np.inf
        need(ordered, "bounds as two numbers, the lower first", f"{low} {high}", "For example: --bounds -1 1")
    found = _open(path)
    if not found.ids:
        raise DataError(f"Expected maps in {path}, but got none. Save one map (h, w) for each clip under its id.")
    if bounds is not None:
        found.bounds = bounds_of(bounds, path)
    return found


def _open(path: Path) -> MapFile:
    if not path.exists():
        raise DataError(f"Expected a file or folder of maps, but there is nothing at {path}. Check the path.")
    if path.is_dir():
        from earsight.mapfile.folder import Folder

        return Folder(path)
    with path.open("rb") as file:
        start = file.read(6)
    if start[:4] in (b"PK\x03\x04", b"PK\x05\x06"):
        from earsight.mapfile.npz import open_npz

        return open_npz(path)
    got = "a single array without ids" if start == b"\x93NUMPY" else "something else" if start else "an empty file"
    raise DataError(
        f"Expected an .npz file or a folder of ID.npy files, but got {got} in {path}. "
        "Save it with np.savez(FILE, id=ids, maps=maps)."
    )


def write_maps(path: Path | str, ids: Sequence[str], maps: Maps) -> None:
    """Write the dense maps, their bounds and their confidence as an .npz file that `open_maps` reads, atomically."""
    if len(ids) != len(maps.dense) or len(set(ids)) < len(ids):
        raise ValueError(
            f"Expected {len(maps.dense)} different ids, but got {len(ids)} of which {len(set(ids))} differ."
        )
    arrays = {"id": np.array(list(ids), dtype=np.str_), "maps": maps.dense.detach().float().cpu().numpy()}
    if maps.confidence is not None:
        arrays["confidence"] = maps.confidence.detach().float().cpu().numpy()
    if maps.bounds is not None:
        arrays["bounds"] = np.array(maps.bounds, dtype=np.float64)

    def write(beside: Path) -> None:
        with beside.open("wb") as file:  # given a name, numpy would add .npz to it
            np.savez(file, allow_pickle=False, **arrays)

    write_atomically(Path(path), write)
