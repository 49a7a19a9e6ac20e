"""Makes a large pack of generated media as fast as the machine allows: `python -m benchmarks.big_pack --out DIR`.

The bytes are those that `earsight data prepare` would write. It writes from one process, in order and so that it can be
killed; here every process makes whole shards, and what is half done is begun again.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import NamedTuple

import torch

from benchmarks.generated import ROWS, SPLITS, Generated
from earsight.data.manifest import FORMAT, MANIFEST, Manifest, Settings, ShardInfo, folder_name, shard_path
from earsight.data.packing import pack
from earsight.data.parallel import in_order
from earsight.data.shard import encode
from earsight.data.storing import Source, store
from earsight.errors import UsageError
from earsight.files import write_text

SPEC = "benchmarks.generated"


class _Work(NamedTuple):
    source: Source
    folder: Path


def make(
    out: Path,
    rows: int = ROWS,
    jobs: int = 0,
    split: str = "train",
    settings: Settings | None = None,
    tell: Callable[[int], None] | None = None,
) -> Path:
    """Pack `rows` of the split into `out`, in `jobs` processes beside this one (0: in this one); `tell` counts rows."""
    settings = settings or Settings()
    clips = Generated(split, rows)
    spec = f"{SPEC}:{split}"
    folder = out / folder_name(spec)
    if (folder / MANIFEST).exists():
        raise UsageError(f"Expected a new place for the pack, but {folder} has one. Remove it, or name another --out.")
    # The first shard is packed as any set is, so that the pack's own files are what this version writes.
    first = pack(Generated(split, min(rows, settings.shard_rows)), out, settings, spec=spec)
    (folder / MANIFEST).unlink()
    shards = list(first.manifest.shards)
    work = _Work(Source(clips, settings), folder)
    numbers = range(1, -(-rows // settings.shard_rows))
    for info in in_order(_shard, work, numbers, jobs, chunk=1):
        shards.append(info)
        if tell is not None:
            tell(sum(shard.rows for shard in shards))
    manifest = Manifest(FORMAT, spec, clips.name, clips.list_hash(), 0, rows, settings, tuple(shards), ())
    write_text(folder / MANIFEST, json.dumps(asdict(manifest), indent=1) + "\n")
    return out


def _shard(work: _Work, number: int) -> ShardInfo:
    """Make and write one shard."""
    size = work.source.settings.shard_rows
    rows = work.source.clip_set.rows[number * size : (number + 1) * size]
    clips = [store(work.source, number * size + at) for at in range(len(rows))]
    data = encode(number * size, rows, clips)
    shard_path(work.folder, number).write_bytes(memoryview(data))  # not waiting for the disk, unlike data prepare
    return ShardInfo(len(rows), data.size, hashlib.sha256(data).hexdigest())


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
