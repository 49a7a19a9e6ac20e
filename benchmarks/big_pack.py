"""Makes a large pack of generated media: `python -m benchmarks.big_pack --out DIR`."""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable
from pathlib import Path

import torch

from benchmarks.generated import ROWS, SPLITS, Generated
from earsight.data.manifest import MANIFEST, Part, Settings, folder_name
from earsight.data.packing import pack
from earsight.errors import UsageError

SPEC = "benchmarks.generated"


def make(
    out: Path,
    rows: int = ROWS,
    jobs: int = 0,
    split: str = "train",
    settings: Settings | None = None,
    tell: Callable[[int], None] | None = None,
) -> Path:
    """Pack `rows` of the split into `out`, in `jobs` processes beside this one (0: in this one); `tell` counts rows."""
    spec = f"{SPEC}:{split}"
    folder = out / folder_name(spec)
    if (folder / MANIFEST).exists():
        raise UsageError(f"Expected a new place for the pack, but {folder} has one. Remove it, or name another --out.")
    part = Part(spec, Generated(split, rows), settings or Settings())
    pack(part, out, workers=jobs, report=None if tell is None else lambda done, total, rate: tell(done))
    return out


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--rows", type=int, default=ROWS)
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--split", choices=SPLITS, default="train")
    given = parser.parse_args()
    torch.set_num_threads(1)
    began = time.perf_counter()

    def tell(done: int) -> None:
        print(f"\r{done:,} of {given.rows:,} rows, {done / (time.perf_counter() - began):,.0f} a second", end="")

    make(given.out, given.rows, given.jobs, given.split, tell=tell)
    seconds = time.perf_counter() - began
    size = sum(path.stat().st_size for path in given.out.rglob("*.arrow"))
    print(f"\r{given.rows:,} rows in {seconds:.1f} s, {given.rows / seconds:,.0f} a second; {size / 2**30:.2f} GiB")
    print(f"open it as {SPEC}:{given.split} with the data {given.out}")


if __name__ == "__main__":
    main()
