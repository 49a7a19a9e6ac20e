"""One file of a pack: what is written comes back as views of the file, and what a stranger made is refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from earsight.data.clips import sound_window
from earsight.data.shard import SCHEMA, Shard, Stored, encode
from earsight.errors import DataError
from earsight.types import Row

ROWS = [Row("a", "dog", boxes=((0.0, 0.25, 0.5, 1.0),), consensus=2), Row("b", kind="hard", picture="x", sound="y")]


def stored(size: int = 100, samples: int = 50, failed: str = "") -> Stored:
    return Stored(np.arange(size, dtype=np.uint8), 4, 5, np.arange(samples, dtype=np.int16), 0.5, failed)


def write(path: Path, clips: list[Stored], first: int = 0) -> Path:
    path.write_bytes(encode(first, ROWS[: len(clips)], clips))
    return path


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return write(tmp_path / "shard-00000.arrow", [stored(), stored(0, 0, "gone")], 7)


def test_rows_and_clips_come_back(path: Path) -> None:
    shard = Shard(path, 7, 2)
    assert shard.rows() == ROWS
    one, two = shard.stored(0), shard.stored(1)
    assert (one.frame.tolist(), one.wave.tolist()) == (list(range(100)), list(range(50)))
    assert (one.height, one.width, one.time, one.failed) == (4, 5, 0.5, "")
    assert (len(two.frame), len(two.wave), two.failed) == (0, 0, "gone")
    assert all(shard.whole(at, ROWS[at], shard.stored(at)) for at in (0, 1))


def test_the_same_clips_are_the_same_bytes_and_other_programs_read_them(path: Path, tmp_path: Path) -> None:
    again = write(tmp_path / "again.arrow", [stored(), stored(0, 0, "gone")], 7)
    assert again.read_bytes() == path.read_bytes()
    table = pa.ipc.open_file(path.read_bytes()).read_all()
    assert table.schema.equals(SCHEMA)
    assert table.column("wave")[0].as_py() == list(range(50))
    assert table.column("index").to_pylist() == [7, 8]


@pytest.mark.parametrize("time", [float("nan"), float("inf"), 1e308, -1e300])
def test_senseless_times_are_the_beginning(tmp_path: Path, time: float) -> None:
    odd = stored()._replace(time=time)
    shard = Shard(write(tmp_path / "odd.arrow", [odd, odd]), 0, 2)
    assert shard.stored(0).time == 0.0
    assert sound_window(50, shard.stored(1).time, 10, 2.0) == (0, 20, 0.0)


def mapped(array: np.ndarray, path: Path) -> bool:
    """Whether an array lies in the part of memory that is the file."""
    address = array.ctypes.data
    for line in Path("/proc/self/maps").read_text().splitlines():
        span, *_, last = line.split()
        start, end = (int(value, 16) for value in span.split("-"))
        if start <= address < end:
            return last == str(path)
    return False


def test_clips_are_views_of_the_file_and_nothing_is_copied(tmp_path: Path) -> None:
    path = write(tmp_path / "large.arrow", [stored(3_000_000, 2_000_000), stored(1_000_000, 500_000)])
    before = pa.total_allocated_bytes()
    shard = Shard(path, 0, 2)
    one = shard.stored(1)
    assert mapped(one.frame, path)
    assert mapped(one.wave, path)
    assert not one.frame.flags.writeable
    assert pa.total_allocated_bytes() - before < 100_000


@pytest.mark.parametrize("column", ["id", "label", "boxes", "consensus", "time", "frame", "wave", "failed", "height"])
def test_the_digest_of_a_clip_tells_any_change(column: str, tmp_path: Path) -> None:
    table = pa.ipc.open_file(encode(0, ROWS, [stored(), stored()])).read_all()
    new = {
        "id": "c", "label": "cat", "boxes": [[0.0, 0.25, 0.5, 0.9]], "consensus": 1, "time": 0.25, "frame": b"x",
        "wave": [1], "failed": "x", "height": 5,
    }  # fmt: skip
    values = [new[column], *table.column(column).to_pylist()[1:]]
    at = SCHEMA.names.index(column)
    changed = table.set_column(at, SCHEMA.field(at), pa.array(values, SCHEMA.field(at).type)).combine_chunks()
    with pa.OSFile(str(tmp_path / "s.arrow"), "wb") as sink, pa.ipc.new_file(sink, SCHEMA) as file:
        file.write_batch(changed.to_batches()[0])
    shard = Shard(tmp_path / "s.arrow", 0, 2)
    assert [shard.whole(at, row, shard.stored(at)) for at, row in enumerate(shard.rows())] == [False, True]


def test_a_shard_of_other_clips_is_refused(path: Path) -> None:
    with pytest.raises(DataError, match="but got 2 clips instead of 3"):
        Shard(path, 7, 3)
    with pytest.raises(DataError, match="but got other clips than those from number 0 on"):
        Shard(path, 0, 2)


def test_other_files_are_refused(path: Path) -> None:
    data = path.read_bytes()
    stream = pa.BufferOutputStream()
    with pa.ipc.new_file(stream, pa.schema([("a", pa.int64())])) as file:
        file.write_batch(pa.record_batch({"a": [1]}))
    empty = pa.BufferOutputStream()
    with pa.ipc.new_file(empty, SCHEMA):
        pass
    for content, told in (
        (b"", "to be a shard of a pack, but got "),
        (b"ARROW1\0\0" + bytes(100) + b"ARROW1", "to be a shard of a pack, but got "),
        (data[:-3], "a file of another kind, or one that is cut off"),
        (stream.getvalue(), "columns of another kind"),
        (empty.getvalue(), "no rows"),
    ):
        path.write_bytes(content)
        with pytest.raises(DataError, match=told):
            Shard(path, 7, 2)
    path.unlink()
    with pytest.raises(DataError, match="then run data prepare again: it makes anew what is damaged"):
        Shard(path, 7, 2)


def test_a_compressed_shard_which_could_be_of_any_size_is_refused(path: Path) -> None:
    batch = pa.ipc.open_file(path.read_bytes()).get_batch(0)
    for kind in ("zstd", "lz4"):
        sink = pa.BufferOutputStream()
        with pa.ipc.new_file(sink, SCHEMA, options=pa.ipc.IpcWriteOptions(compression=kind)) as file:
            file.write_batch(batch)
        path.write_bytes(sink.getvalue())
        with pytest.raises(DataError, match="but got rows of another kind"):
            Shard(path, 7, 2)


@pytest.mark.parametrize(
    ("row", "told"),
    [
        (Row("x" * 10_000), "more than 4096 id a clip"),
        (Row("x", consensus=0), "a senseless row for 'x'"),
        (Row("x", boxes=((0.0, 0.0, 1.0, float("inf")),)), "a senseless row for 'x'"),
    ],
)
def test_senseless_rows_are_refused(row: Row, told: str, tmp_path: Path) -> None:
    path = tmp_path / "s.arrow"
    path.write_bytes(encode(0, [row, row], [stored(), stored()]))
    with pytest.raises(DataError, match=told):
        Shard(path, 0, 2).rows()
