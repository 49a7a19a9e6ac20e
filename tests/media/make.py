"""Makes small media files of every kind with known content, so that what is read back can be checked."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path

import av
import numpy as np

RATE = 44100
VIDEO_CODECS = {".mp4": "libx264", ".mkv": "libx264", ".mov": "libx264", ".avi": "mpeg4", ".webm": "libvpx"}
OTHER_VIDEO_CODECS = {".ts": "libx264"}
SOUND_CODECS = {
    ".mp4": "aac", ".mkv": "aac", ".mov": "aac", ".avi": "libmp3lame", ".webm": "libopus", ".wav": "pcm_s16le",
    ".ts": "aac", ".mp3": "libmp3lame", ".flac": "flac", ".ogg": "libopus", ".m4a": "aac",
}  # fmt: skip
SOUND_FILES = (".wav", ".mp3", ".flac", ".ogg", ".m4a")


def gray_frame(value: int, width: int = 64, height: int = 48) -> np.ndarray:
    """uint8 (height, width, 3) of one gray, so that a frame can be told by its brightness."""
    return np.full((height, width, 3), value, np.uint8)


def corners(width: int = 64, height: int = 48) -> np.ndarray:
    """A picture whose corners are red, green, blue and white, so that every way of holding it looks different."""
    picture = np.empty((height, width, 3), np.uint8)
    picture[: height // 2, : width // 2], picture[: height // 2, width // 2 :] = (255, 0, 0), (0, 255, 0)
    picture[height // 2 :, : width // 2], picture[height // 2 :, width // 2 :] = (0, 0, 255), (255, 255, 255)
    return picture


def chirp(seconds: float, rate: int = RATE) -> np.ndarray:
    """float32 (S,): a tone that rises from 200 Hz, so that every moment sounds different."""
    t = np.arange(round(seconds * rate)) / rate
    return (0.5 * np.sin(2 * np.pi * (200 * t + 100 * t**2))).astype(np.float32)


def lag(wanted: np.ndarray, got: np.ndarray, most: int) -> int:
    """Samples by which `got` comes later than `wanted`, of at most `most` either way: where they correlate best."""
    size = min(len(wanted), len(got))
    spectrum = np.fft.rfft(got[:size], 2 * size) * np.conj(np.fft.rfft(wanted[:size], 2 * size))
    likeness = np.fft.irfft(spectrum)
    return int(np.argmax(np.concatenate([likeness[-most:], likeness[: most + 1]]))) - most


def video(
    path: Path,
    frames: Sequence[np.ndarray],
    times: Sequence[float],
    sound: np.ndarray | None = None,
    *,
    sound_start: float = 0.0,
    rate: int = RATE,
    gop: int = 12,
    lasts: float | None = None,
    aspect: Fraction | None = None,
    tracks: int = 1,
    encoder: dict[str, str] | None = None,
    options: dict[str, str] | None = None,
) -> Path:
    """A video of `frames` (H, W, 3) shown from `times` on, with mono sound (S,) from `sound_start` on.

    The last packet says that it lasts for `lasts` seconds, pixels are shown `aspect` times as wide as high, and the
    sound comes as often as there are `tracks`.
    """
    with av.open(str(path), "w", options=options or {}) as out:
        stream = out.add_stream({**VIDEO_CODECS, **OTHER_VIDEO_CODECS}[path.suffix], rate=25, options=encoder or {})
        stream.height, stream.width = frames[0].shape[:2]
        stream.pix_fmt = "yuv420p"
        tick = Fraction(1, 25) if path.suffix == ".avi" else Fraction(1, 1000)
        stream.codec_context.time_base = tick
        stream.codec_context.gop_size = gop
        if path.suffix == ".webm":
            stream.codec_context.bit_rate = 1_000_000
        if aspect is not None:
            stream.codec_context.sample_aspect_ratio = aspect
        heard = [_sound_stream(out, path, rate, "mono") for _ in range(tracks)] if sound is not None else []
        packets = []
        for picture, when in zip(frames, times, strict=True):
            frame = av.VideoFrame.from_ndarray(picture, format="rgb24")
            frame.pts, frame.time_base = round(when / tick), tick
            packets += stream.encode(frame)
        packets += stream.encode(None)
        if lasts is not None:
            packets[-1].duration = round(lasts / tick)
        out.mux(packets)
        for track in heard:
            _encode_sound(out, track, sound[None], rate, sound_start)
    return path


def still(path: Path, seconds: float, sound: np.ndarray | None = None, **more) -> Path:
    """A video that moves for half a second and then stands still, with the chirp or another sound."""
    times = [0.0, 0.1, 0.2, 0.3, 0.4]
    pictures = [*(gray_frame(20 + 40 * k) for k in range(len(times) - 1)), corners()]
    heard = chirp(seconds) if sound is None else sound
    return video(path, pictures, times, heard, lasts=seconds - times[-1], **more)


def cut(path: Path, share: float) -> Path:
    """Leave only a share of a file's bytes."""
    path.write_bytes(path.read_bytes()[: round(share * path.stat().st_size)])
    return path


def steps(path: Path, seconds: float = 4.0, fps: int = 25, *, sound: bool = True, **more) -> Path:
    """A video whose frame k has gray 20 + 2k, with the chirp as sound."""
    times = [k / fps for k in range(round(seconds * fps))]
    return video(
        path, [gray_frame(20 + 2 * k) for k in range(len(times))], times, chirp(seconds) if sound else None, **more
    )


def sound_file(path: Path, data: np.ndarray, rate: int = RATE, layout: str = "mono", codec: str | None = None) -> Path:
    """A sound file of float32 (S,) or (C, S)."""
    with av.open(str(path), "w") as out:
        track = _sound_stream(out, path, rate, layout, codec)
        _encode_sound(out, track, np.atleast_2d(data), rate, 0.0, layout)
    return path


def _sound_stream(out, path, rate, layout, codec=None):
    codec = codec or SOUND_CODECS[path.suffix]
    track = out.add_stream(codec, rate=48000 if codec == "libopus" else rate)
    track.codec_context.layout = layout
    return track


def _encode_sound(out, track, data, rate, start, layout="mono"):
    for at in range(0, data.shape[1], 1024):
        frame = av.AudioFrame.from_ndarray(data[:, at : at + 1024].T.reshape(1, -1), "flt", layout)
        frame.sample_rate, frame.pts, frame.time_base = rate, at + round(start * rate), Fraction(1, rate)
        out.mux(track.encode(frame))
    out.mux(track.encode(None))


def picture(path: Path, pixels: np.ndarray, **options) -> Path:
    """A picture file through Pillow, which is independent of what is tested."""
    from PIL import Image

    Image.fromarray(pixels).save(path, **options)
    return path


def held(path: Path, matrix: tuple[int, int, int, int]) -> Path:
    """Change an mp4 so that its display matrix is (a, b, c, d), as a phone does that is held sideways."""
    data = bytearray(path.read_bytes())
    at = data.index(b"tkhd") + 44
    a, b, c, d = (value << 16 for value in matrix)
    data[at : at + 36] = struct.pack(">9i", a, b, 0, c, d, 0, 0, 0, 1 << 30)
    path.write_bytes(data)
    return path


def wav(path: Path, samples: np.ndarray, rate: int = RATE, channels: int = 1, tag: int = 1) -> Path:
    """A WAV file byte by byte (`tag` 1: integers, 3: floats), also with headers no encoder would write."""
    width = samples.dtype.itemsize
    head = struct.pack(
        "<HHIIHH", tag, channels, rate, rate * channels * width & 0xFFFFFFFF, channels * width & 0xFFFF, 8 * width
    )
    body = (
        b"WAVEfmt "
        + struct.pack("<I", len(head))
        + head
        + b"data"
        + struct.pack("<I", samples.nbytes)
        + samples.tobytes()
    )
    path.write_bytes(b"RIFF" + struct.pack("<I", len(body)) + body)
    return path


def without_length(path: Path, to: Path) -> Path:
    """A copy of a Matroska file that does not say how long it plays, as recorders leave it that cannot go back."""
    data = bytearray(path.read_bytes())
    at = data.index(b"\x44\x89\x88")  # the length of the segment, made unreadable as one
    data[at : at + 2] = b"\x44\x8a"
    to.write_bytes(data.replace(b"DURATION", b"NODURATI"))
    return to
