"""Breaks media files in every way we could think of, and reads them in a child process that may die of it.

Run as a program with file names, it prints one JSON line before and one after each file.
"""

from __future__ import annotations

import json
import struct
import sys
import traceback
from collections.abc import Iterator
from pathlib import Path

import make
import numpy as np

ABSURD = [0x7FFFFFFF, 0xFFFFFFFF, 0x80000000, 0, 1, 0x10000, 0x7FFF7FFF]


def whole_files(folder: Path) -> list[Path]:
    """One small good file of each kind."""
    folder.mkdir(parents=True, exist_ok=True)
    videos = [make.steps(folder / f"good{suffix}", 1.2) for suffix in make.VIDEO_CODECS]
    sounds = [make.sound_file(folder / f"sound{s}", make.chirp(0.6)) for s in make.SOUND_FILES]
    sounds.append(make.sound_file(folder / "sound71.m4a", np.repeat(make.chirp(0.6)[None], 8, 0), layout="7.1"))
    pictures = [make.picture(folder / f"photo{s}", make.corners()) for s in (".jpg", ".png", ".webp", ".bmp", ".gif")]
    return [*videos, *sounds, *pictures]


def broken_files(folder: Path, count: int, seed: int = 0) -> list[Path]:
    """`count` broken files, the same ones for the same seed."""
    random = np.random.default_rng(seed)
    good = whole_files(folder / "good")
    folder = folder / "broken"
    folder.mkdir(exist_ok=True)
    made = list(_special(folder, good))
    breakers = [_cut, _flip_bits, _absurd_numbers, _drop_middle, _shuffle_blocks, _noise_tail, _repeat]
    while len(made) < count:
        source = good[len(made) % len(good)]
        breaker = breakers[int(random.integers(len(breakers)))]
        path = folder / f"{len(made):04d}_{breaker.__name__.strip('_')}_{source.name}"
        path.write_bytes(breaker(source.read_bytes(), random))
        made.append(path)
    return made[:count]


def _special(folder: Path, good: list[Path]) -> Iterator[Path]:
    by_name = {path.name: path.read_bytes() for path in good}

    def put(name: str, data: bytes) -> Path:
        path = folder / name
        path.write_bytes(data)
        return path

    yield put("empty.mp4", b"")
    yield put("one_byte.wav", b"R")
    yield put("zeros.mp4", bytes(100_000))
    yield put("text.mp4", b"this is not a video\n" * 50)
    yield put("video_named.jpg", by_name["good.mp4"])
    yield put("picture_named.mp4", by_name["photo.jpg"])
    yield put("sound_named.png", by_name["sound.wav"])
    yield put("playlist.m3u8", b"#EXTM3U\n#EXT-X-TARGETDURATION:10\n#EXTINF:10,\nfile:///etc/passwd\n")
    yield put("concat.txt", b"ffconcat version 1.0\nfile /etc/passwd\n")
    yield put("only_ftyp.mp4", by_name["good.mp4"][:32])
    yield make.steps(folder / "no_audio.mp4", 1.0, sound=False)
    yield make.sound_file(folder / "no_video.m4a", make.chirp(0.5))
    yield make.wav(folder / "no_samples.wav", np.zeros(0, np.int16))
    yield make.wav(folder / "huge_rate.wav", np.zeros(1000, np.int16), rate=0x7FFFFFFF)
    yield make.wav(folder / "zero_rate.wav", np.zeros(1000, np.int16), rate=0)
    yield make.wav(folder / "many_channels.wav", np.zeros(70000, np.int16), channels=65535)
    yield make.wav(folder / "zero_channels.wav", np.zeros(1000, np.int16), channels=0)
    yield make.wav(folder / "not_numbers.wav", np.full(5000, np.nan, np.float32), tag=3)
    yield make.wav(folder / "infinite.wav", np.full(5000, np.inf, np.float32), tag=3)
    for width, height in [(65500, 65500), (0x7FFFFFFF, 2), (0, 0), (30000, 30000)]:
        png = bytearray(by_name["photo.png"])
        png[16:24] = struct.pack(">II", width, height)
        yield put(f"size_{width}x{height}.png", bytes(png))
        bmp = bytearray(by_name["photo.bmp"])
        bmp[18:26] = struct.pack("<II", width, height)
        yield put(f"size_{width}x{height}.bmp", bytes(bmp))
    jpg = bytearray(by_name["photo.jpg"])
    at = jpg.index(b"\xff\xc0") + 5
    jpg[at : at + 4] = b"\xff\xff\xff\xff"
    yield put("size_65535.jpg", bytes(jpg))
    for box in (b"mvhd", b"mdhd", b"tkhd", b"stts", b"stsz", b"stco", b"stsc", b"elst", b"avcC", b"stsd"):
        for value in ABSURD[:3]:
            yield put(f"absurd_{box.decode()}_{value:x}.mp4", _after(by_name["good.mp4"], box, value))
    for tag in (b"avih", b"strh", b"strf"):
        for value in ABSURD[:3]:
            yield put(f"absurd_{tag.decode()}_{value:x}.avi", _after(by_name["good.avi"], tag, value))


def _after(data: bytes, name: bytes, value: int) -> bytes:
    """Every second number of a header replaced, from its fourth byte on."""
    out, at = bytearray(data), 0
    while (at := out.find(name, at)) >= 0:
        for step in range(8, 40, 8):
            out[at + step : at + step + 4] = struct.pack(">I", value)
        at += 40
    return bytes(out[: len(data)])


def _cut(data: bytes, random: np.random.Generator) -> bytes:
    return data[: int(random.integers(1, len(data)))]


def _flip_bits(data: bytes, random: np.random.Generator) -> bytes:
    out = bytearray(data)
    # Half of the time only the headers, where it hurts most.
    reach = len(out) if random.random() < 0.5 else min(len(out), 600)
    for at in random.integers(0, reach, int(random.integers(1, 40))):
        out[at] ^= 1 << int(random.integers(8))
    return bytes(out)


def _absurd_numbers(data: bytes, random: np.random.Generator) -> bytes:
    out = bytearray(data)
    order = "<I" if random.random() < 0.5 else ">I"
    for at in random.integers(4, max(5, min(len(out) - 4, 2000)), 3):
        out[at : at + 4] = struct.pack(order, ABSURD[int(random.integers(len(ABSURD)))])
    return bytes(out)


def _drop_middle(data: bytes, random: np.random.Generator) -> bytes:
    a, b = sorted(int(x) for x in random.integers(0, len(data), 2))
    return data[:a] + data[b:] or b"\0"


def _shuffle_blocks(data: bytes, random: np.random.Generator) -> bytes:
    blocks = [data[at : at + 512] for at in range(0, len(data), 512)]
    order = random.permutation(len(blocks) - 1) + 1 if len(blocks) > 1 else []
    return b"".join([blocks[0], *(blocks[at] for at in order)])


def _noise_tail(data: bytes, random: np.random.Generator) -> bytes:
    at = int(random.integers(len(data) // 4, len(data)))
    return data[:at] + random.bytes(len(data) - at)


def _repeat(data: bytes, random: np.random.Generator) -> bytes:
    return data[: int(random.integers(len(data) // 2, len(data)))] * 3


def outcomes(path: Path) -> dict[str, str]:
    """What each way of reading says: "read", the message of a MediaError, or anything else's traceback."""
    from earsight.errors import MediaError
    from earsight.media.read import Limits, iter_frames, probe, read_audio, read_clip, read_frame, read_image

    limits = Limits(max_decode_seconds=20)
    ways = {
        "probe": lambda: probe(path, limits),
        "frame": lambda: read_frame(path, 0.7, limits),
        "late frame": lambda: read_frame(path, 30.0, limits),
        "frames": lambda: [None for _ in iter_frames(path, 0.25, limits=limits)],
        "image": lambda: read_image(path, limits),
        "sound": lambda: read_audio(path, 22050, limits=limits),
        "span": lambda: read_audio(path, 16000, 2.0, 1.0, limits=limits),
        "clip": lambda: read_clip(path, 0.5, 16000, 1.0, limits=limits),
        "soundtrack": lambda: _rewrite(path),
    }
    said = {}
    for name, way in ways.items():
        try:
            way()
            said[name] = "read"
        except MediaError as error:
            said[name] = f"MediaError {error}"
        except BaseException:
            said[name] = traceback.format_exc()
    return said


def _rewrite(path: Path) -> None:
    from fractions import Fraction

    from earsight.media.write import VideoWriter

    out = path.with_name("rewritten.mp4")
    with VideoWriter(out, 16, 16, Fraction(10), path) as writer:
        for k in range(8):
            writer.write(np.zeros((3, 16, 16), np.uint8), k / 10)
    out.unlink()


if __name__ == "__main__":
    for argument in sys.argv[1:]:
        sys.stdout.write(json.dumps({"path": argument}) + "\n")
        sys.stdout.flush()
        sys.stdout.write(json.dumps({"path": argument, "said": outcomes(Path(argument))}) + "\n")
        sys.stdout.flush()
