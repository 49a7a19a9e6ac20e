"""One file of a pack: rows of clips with their pictures as JPEG and their sounds as 16-bit samples, in Arrow.

A shard is an Arrow IPC file of one uncompressed record batch, so that it can be mapped into memory and a clip is a view
of the file. Shards may come from strangers: whatever is read is bounded and checked first, and a file that is not as
`SCHEMA` says is refused. Every row carries a digest of all that is in it.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from earsight.data.manifest import damaged
from earsight.types import I16, U8, Row

DIGEST = 16
"""Bytes of a row's digest, the first of its sha256."""
LETTERS = 4096
"""Bytes of a name, or boxes, that a row has on average at most; more is a damaged or hostile file."""
LATEST = 1e9
"""Seconds that no frame is after the beginning of its sound."""
_MAGIC = b"ARROW1"
_TEXTS = ("id", "label", "kind", "picture", "sound", "failed")


def _schema() -> Any:
    box = pa.list_(pa.field("item", pa.float64(), False), 4)
    kinds = {
        "index": pa.int64(),
        **dict.fromkeys(("id", "label", "kind"), pa.string()),
        "boxes": pa.list_(pa.field("item", box, False)),
        "consensus": pa.int64(),
        **dict.fromkeys(("picture", "sound"), pa.string()),
        "frame": pa.large_binary(),
        **dict.fromkeys(("height", "width"), pa.int32()),
        "wave": pa.large_list(pa.field("item", pa.int16(), False)),
        "time": pa.float64(),
        "failed": pa.string(),
        "digest": pa.binary(DIGEST),
    }
    return pa.schema([pa.field(name, kind, nullable=False) for name, kind in kinds.items()])


SCHEMA = _schema()


class Stored(NamedTuple):
    """A clip as a shard holds it.

    Args:
        frame: uint8 (n,), the bytes of a JPEG file; none when the clip could not be packed.
        height: of the picture.
        width: of the picture.
        wave: int16 (S,), samples of which 32768 is 1.0.
        time: position of the frame inside `wave`, in seconds.
        failed: why the clip could not be packed; empty when it was.
    """

    frame: U8
    height: int
    width: int
    wave: I16
    time: float
    failed: str = ""


def digest(index: int, row: Row, stored: Stored) -> bytes:
    """A short hash of everything that a row of a shard holds."""
    names = (row.id, row.label, row.kind, row.picture, row.sound, stored.failed)
    numbers = (row.consensus, stored.height, stored.width, stored.time, len(stored.frame), len(stored.wave))
    found = hashlib.sha256(json.dumps([index, names, row.boxes, numbers]).encode())
    found.update(np.ascontiguousarray(stored.frame).data)
    found.update(np.ascontiguousarray(stored.wave, dtype="<i2").data)
    return found.digest()[:DIGEST]


def encode(first: int, rows: Sequence[Row], clips: Sequence[Stored]) -> Any:
    """The bytes of a shard (a pyarrow buffer) whose clips are number `first` and on of their set."""
    waves = pa.LargeListArray.from_arrays(
        pa.array(np.cumsum([0, *(len(clip.wave) for clip in clips)]), pa.int64()),
        pa.array(np.concatenate([clip.wave for clip in clips])),
        type=SCHEMA.field("wave").type,
    )
    values: dict[str, Any] = {
        "index": range(first, first + len(rows)),
        "boxes": [row.boxes for row in rows],
        "consensus": [row.consensus for row in rows],
        "frame": [clip.frame.tobytes() for clip in clips],
        "height": [clip.height for clip in clips],
        "width": [clip.width for clip in clips],
        "time": [clip.time for clip in clips],
        "digest": [digest(first + i, *pair) for i, pair in enumerate(zip(rows, clips, strict=True))],
        **{name: [getattr(row, name) for row in rows] for name in _TEXTS if name != "failed"},
        "failed": [clip.failed for clip in clips],
    }
    columns = [waves if field.name == "wave" else pa.array(values[field.name], field.type) for field in SCHEMA]
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, SCHEMA) as file:
        file.write_batch(pa.record_batch(columns, schema=SCHEMA))
    return sink.getvalue()


class Shard:
    """A shard that is open: its rows are lists, its pictures and sounds stay in the file until they are asked for.

    Args:
        path: the file.
        first: number of its first clip in the set.
        count: how many clips it should have.
    """

    def __init__(self, path: Path, first: int, count: int) -> None:
        self.path, self.first = path, first
        try:
            batch = _batch(path)
            batch.validate(full=True)
        except (OSError, pa.ArrowException, ValueError, UnicodeDecodeError) as error:
            raise damaged(path, " ".join(str(error).split())[:200]) from error
        if batch.num_rows != count:
            raise damaged(path, f"{batch.num_rows} clips instead of {count}")
        if any(column.null_count for column in batch.columns):
            raise damaged(path, "values that are missing")
        self._batch = batch
        self._frames, self._frame_at = _flat(batch.column("frame"), np.dtype(np.uint8))
        self._waves, self._wave_at = _flat(batch.column("wave"), np.dtype("<i2"))
        numbers = {name: batch.column(name).to_numpy() for name in ("index", "height", "width", "time")}
        # As lists, of which Python takes single values many times faster.
        self._height, self._width, self._time = (numbers[name].tolist() for name in ("height", "width", "time"))
        self._failed_at = np.frombuffer(batch.column("failed").buffers()[1], np.int32, count + 1).tolist()
        self._digests = batch.column("digest").to_pylist()
        if not np.array_equal(numbers["index"], np.arange(first, first + count)):
            raise damaged(path, f"other clips than those from number {first} on")

    def rows(self) -> list[Row]:
        """What is known of the clips."""
        for name in (*_TEXTS, "boxes"):
            column = self._batch.column(name)
            ends = np.frombuffer(column.buffers()[1], np.int32, len(column) + 1)
            if int(ends[-1]) > LETTERS * len(column):
                raise damaged(self.path, f"more than {LETTERS} {name} a clip")
        names = ("id", "label", "kind", "boxes", "consensus", "picture", "sound")
        columns = [self._batch.column(name).to_pylist() for name in names]
        rows = []
        for id, label, kind, boxes, consensus, picture, sound in zip(*columns, strict=True):
            where = tuple((float(x0), float(y0), float(x1), float(y1)) for x0, y0, x1, y1 in boxes)
            rows.append(Row(id, label, kind, where, consensus, picture, sound))
            if not sound_row(rows[-1]):
                raise damaged(self.path, f"a senseless row for '{id}'")
        return rows

    def stored(self, at: int) -> Stored:
        """The clip at a place of this shard; picture and sound are views of the file."""
        failed, time = self._failed_at[at] != self._failed_at[at + 1], self._time[at]
        return Stored(
            self._frames[self._frame_at[at] : self._frame_at[at + 1]],
            self._height[at],
            self._width[at],
            self._waves[self._wave_at[at] : self._wave_at[at + 1]],
            time if abs(time) < LATEST else 0.0,  # one that cannot be counted in samples is in no pack of earsight's
            str(self._batch.column("failed")[at].as_py()) if failed else "",
        )

    def whole(self, at: int, row: Row, stored: Stored) -> bool:
        """Whether a clip is what was packed, by its digest."""
        return bool(self._digests[at] == digest(self.first + at, row, stored))


def sound_row(row: Row) -> bool:
    """Whether the numbers of a row are such that ground truth can be made of them."""
    return row.consensus >= 1 and all(math.isfinite(value) for box in row.boxes for value in box)


def _batch(path: Path) -> Any:
    """The one record batch of a file, mapped into memory; nothing is copied."""
    with pa.memory_map(str(path)) as file:
        whole = file.read_buffer()
    if whole.size < 16 or bytes(whole[:6]) != _MAGIC or bytes(whole[-6:]) != _MAGIC:
        raise ValueError("a file of another kind, or one that is cut off")
    messages = pa.ipc.MessageReader.open_stream(pa.BufferReader(whole.slice(8)))
    try:
        schema = messages.read_next_message()
        if schema.type != "schema" or not pa.ipc.read_schema(schema).equals(SCHEMA):
            raise ValueError("columns of another kind")
        rows = messages.read_next_message()
    except StopIteration:
        raise ValueError("no rows") from None
    if rows.type != "record batch" or _is_compressed(bytes(rows.metadata)):
        raise ValueError("rows of another kind")
    return pa.ipc.read_record_batch(rows, SCHEMA)


def _is_compressed(message: bytes) -> bool:
    """Whether a record batch says that it is compressed: a few bytes could then stand for gigabytes.

    pyarrow does not tell, so this looks into the message: a flatbuffer table whose field 2 is the record batch, another
    table whose field 3 is the compression. pyarrow has verified that all offsets lie inside the message.
    """

    def number(at: int, size: int) -> int:
        return int.from_bytes(message[at : at + size], "little")

    def field(table: int, which: int) -> int:
        fields = table - int.from_bytes(message[table : table + 4], "little", signed=True)
        return number(fields + 4 + 2 * which, 2) if 4 + 2 * which < number(fields, 2) else 0

    root = number(0, 4)
    at = root + field(root, 2)
    return field(at + number(at, 4), 3) != 0


def _flat(column: Any, dtype: np.dtype[Any]) -> tuple[npt.NDArray[Any], list[int]]:
    """All values of a column of lists as one view of the file, and where each list begins and the last one ends."""
    buffers = column.buffers()
    offsets = np.frombuffer(buffers[1], np.int64, len(column) + 1)
    count = int(offsets[-1])
    values = np.frombuffer(buffers[-1], dtype, count) if count else np.zeros(0, dtype)
    return values, offsets.tolist()
