"""What is accepted: the kinds of media, how much of the machine a file may take, and what is refused unopened."""

from __future__ import annotations

import stat
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import BinaryIO

from earsight.config import need
from earsight.errors import MediaError

AnyPath = str | PathLike[str]

_KINDS = (
    "mp4, mov, m4a, 3gp, mkv, webm, avi, mpg, ts, flv, wmv",
    "wav, mp3, flac, ogg, opus, aac, aiff",
    "jpg, png, webp, bmp, gif",
)
ACCEPTED = "; ".join(_KINDS)
"""The kinds of file a person may give, as messages list them."""
CLIPS = frozenset(
    {f".{kind}" for kinds in _KINDS[:2] for kind in kinds.split(", ")} | {".m4v", ".mpeg", ".mts", ".wma", ".aif"}
)
"""Endings of videos and sounds, with those that are other names of the same kinds."""
SOUNDS = frozenset(f".{kind}" for kind in _KINDS[1].split(", ")) | {".m4a", ".wma", ".aif"}
"""Endings of sounds."""
VIDEOS = CLIPS - SOUNDS
"""Endings of videos."""
PICTURES = frozenset({f".{kind}" for kind in _KINDS[2].split(", ")} | {".jpeg"})
"""Endings of pictures."""
DEMUXERS = (
    "mov,mp4,m4a,3gp,3g2,mj2,matroska,webm,avi,mpeg,mpegts,flv,asf,wav,w64,mp3,flac,ogg,aac,aiff,"
    "jpeg_pipe,png_pipe,apng,webp_pipe,bmp_pipe,gif"
)
_MAGIC = {  # (offset, bytes): what tells a damaged file of an accepted kind from a file of another kind
    (4, b"ftyp"), (4, b"moov"), (4, b"mdat"), (0, b"\x1aE\xdf\xa3"), (0, b"RIFF"), (0, b"OggS"), (0, b"ID3"),
    (0, b"fLaC"), (0, b"\xff\xfb"), (0, b"\xff\xd8\xff"), (0, b"\x89PNG"), (0, b"GIF8"), (0, b"BM"), (0, b"FLV"),
    (0, b"0&\xb2u"), (0, b"\0\0\1\xba"), (0, b"FORM"),
}  # fmt: skip
_STILL_BRANDS = {b"heic", b"heix", b"heim", b"heis", b"mif1", b"avif"}


@dataclass(frozen=True)
class Limits:
    """How much of the machine one media file may take. A file over a limit is refused with a message."""

    max_seconds: float = 4 * 3600.0
    """Longest media, in seconds of playing time."""
    max_pixels: int = 64_000_000
    """Largest picture or frame, width times height."""
    max_decode_seconds: float = 60.0
    """Longest wall-clock time of one call; for `iter_frames`, between two frames."""
    max_bytes: int = 8 << 30
    """Largest file."""
    max_channels: int = 64
    """Most sound channels."""
    max_rate: int = 768_000
    """Most sound samples per second."""

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            need(value > 0, f"{name} above 0", value)


def open_file(path: Path, limits: Limits) -> BinaryIO:
    """The bytes of a regular file that may be media; anything else is refused with a reason."""
    try:
        info = path.stat()
        if stat.S_ISDIR(info.st_mode):
            raise MediaError(path, "is a folder.", "Give a file.")
        if not stat.S_ISREG(info.st_mode):
            raise MediaError(path, "is not a regular file.", "Save it to a file first.")
        if info.st_size == 0:
            raise MediaError(path, "is empty.", "Get it again.")
        if info.st_size > limits.max_bytes:
            most = limits.max_bytes
            raise MediaError(path, f"has {info.st_size:,} bytes, over the limit of {most:,}.", "Cut it first.")
        file = path.open("rb")
    except (FileNotFoundError, NotADirectoryError) as error:
        raise MediaError(path, "does not exist.", "Check the name.") from error
    except PermissionError as error:
        raise MediaError(path, "may not be read.", "Change its permissions.") from error
    head = file.read(12)
    if head[4:8] == b"ftyp" and head[8:] in _STILL_BRANDS:
        file.close()
        raise MediaError(path, "is a HEIC or AVIF picture.", "Convert it to jpg or png first.")
    file.seek(0)
    return file


def kind_of(path: Path) -> str:
    """What a file is by its ending: "video", "sound", "picture", or "" for none of them.

    >>> kind_of(Path("a.MP4")), kind_of(Path("a.mp3")), kind_of(Path("a.jpeg")), kind_of(Path("a.safetensors"))
    ('video', 'sound', 'picture', '')
    """
    ending = path.suffix.lower()
    if ending in PICTURES:
        return "picture"
    if ending in SOUNDS:
        return "sound"
    return "video" if ending in CLIPS else ""


def not_opened(path: Path, head: bytes) -> MediaError:
    """Why FFmpeg did not open a file: of no known kind, or of a known kind and damaged."""
    if any(head[at : at + len(magic)] == magic for at, magic in _MAGIC):
        return MediaError(path, "is damaged or cut off.", "Get it again, or repair it with a converter.")
    return MediaError(path, "is not a media file of a known kind.", f"Expected one of: {ACCEPTED}.")
