"""Uploads that mean harm: mutated containers, decompression bombs, path-like names, wrong types."""

from __future__ import annotations

import io
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path

import broken
import make
import numpy as np

NAMES = [
    "../../../../etc/passwd", "/etc/passwd", "..\\..\\windows\\win.ini", "%2e%2e%2f%2e%2e%2fetc%2fpasswd",
    "a\x00b.mp4", "x" * 5000 + ".mp4", ".", "..", "", "con.mp4", "$(touch pwned).mp4", "; touch pwned ;.mp4",
    "<script>alert(1)</script>.mp4", "\u202e4pm.clip", "file:///etc/passwd", "http://127.0.0.1/x.mp4",
    "concat:/etc/passwd|x.mp4", "-i /etc/passwd", "a\r\nb: c.mp4",
]  # fmt: skip


def uploads(folder: Path, count: int) -> Iterator[tuple[str, bytes]]:
    """`count` uploads as (name, bytes); the same ones every time."""
    made = [*_bombs(folder), *_wrong_types(), *_names(folder)]
    yield from made
    for path in broken.broken_files(folder / "mutated", count - len(made)):
        yield path.name, path.read_bytes()


def _bombs(folder: Path) -> Iterator[tuple[str, bytes]]:
    """Small files that would become large, long, or both."""
    folder.mkdir(parents=True, exist_ok=True)
    black = [np.zeros((2000, 3000, 3), np.uint8)] * 3
    yield "frames.mp4", make.video(folder / "frames.mp4", black, [0.0, 0.1, 0.2], make.chirp(0.3)).read_bytes()
    hours = make.video(folder / "hours.mp4", [make.gray_frame(9)] * 3, [0.0, 4000.0, 8000.0], make.chirp(0.2))
    yield "hours.mp4", hours.read_bytes()
    grays = [make.gray_frame(k % 200) for k in range(400)]
    many = make.video(folder / "many.mp4", grays, [k / 100 for k in range(400)], make.chirp(4.0))
    yield "many.mp4", many.read_bytes()
    for box in (b"mvhd", b"mdhd", b"tkhd"):  # says that it is short, and is not
        data = bytearray(hours.read_bytes())
        at = data.index(box)
        data[at + 16 : at + 32] = bytes(16)
        yield f"short_{box.decode()}.mp4", bytes(data)
    zeros = zlib.compress(bytes(50_000_000), 9)
    png = b"\x89PNG\r\n\x1a\n" + _chunk(b"IHDR", b"\0\0\xff\xff\0\0\xff\xff\x08\x02\0\0\0") + _chunk(b"IDAT", zeros)
    yield "bomb.png", png + _chunk(b"IEND", b"")
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("zeros", bytes(50_000_000))
    yield "bomb.zip", packed.getvalue()
    yield "bomb.mkv", packed.getvalue()


def _wrong_types() -> Iterator[tuple[str, bytes]]:
    yield "page.html", b"<html><script>fetch('/etc/passwd')</script></html>"
    yield "picture.svg", b'<svg xmlns="http://www.w3.org/2000/svg"><script>alert(1)</script></svg>'
    yield "program.mp4", b"\x7fELF" + bytes(5000)
    yield "list.m3u8", b"#EXTM3U\n#EXTINF:10,\nfile:///etc/passwd\n"
    yield "list.mp4", b"#EXTM3U\n#EXT-X-MEDIA-SEQUENCE:0\n#EXTINF:10,\nhttp://127.0.0.1:1/x\n"
    yield "concat.mp4", b"ffconcat version 1.0\nfile /etc/passwd\n"
    yield "script.py", b"import os\n"
    yield "data.json", b'{"a": ' * 2000
    yield "model.pkl", b"\x80\x04\x95cos\nsystem\n(S'true'\ntR."
    yield "text.mp4", "Ünïcödé\n".encode() * 100
    yield "empty.mp4", b""


def _names(folder: Path) -> Iterator[tuple[str, bytes]]:
    good = make.steps(folder / "named.mp4", 0.5, 4).read_bytes()
    for name in NAMES:
        yield name, good


def _chunk(kind: bytes, data: bytes) -> bytes:
    return len(data).to_bytes(4) + kind + data + zlib.crc32(kind + data).to_bytes(4)
