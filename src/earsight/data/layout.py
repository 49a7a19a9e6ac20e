"""Where the pictures and sounds of a listed set lie on the user's disk, and how a clip is read from there.

A root folder holds, as the published code of the field has it,

    frames/ID.jpg   (png, ...)       the picture
    audio/ID.wav    (flac, mp3, ...) the sound, of which the middle is heard
    videos/ID.mp4   (mkv, webm, ...) both, for clips that have no file in frames/ or audio/

The three may also lie in a folder inside the root that has the set's name (root/vggss/frames), so that one root can
hold several sets. Which of several files is taken never depends on what was read before: the root goes before the
folders inside it, frames and audio before videos, and the kinds of file in the order of `ENDINGS`.

Of a video of about ten seconds the frame at 5.0 s is seen, since the boxes of VGG-SS were drawn on the 125th frame of a
clip of ten seconds at 25 frames per second; of any other the frame in the middle. The sound of a video is heard around
that same time.

Files are looked for one by one, when a clip is read. Folders are never listed: some hold 200,000 files, and every data
worker would list them again in every epoch.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property
from pathlib import Path

from earsight.data.clips import ClipSet, Files
from earsight.errors import DataError, MediaError
from earsight.media.accept import PICTURES, SOUNDS, VIDEOS, kind_of
from earsight.types import F32, Clip, Row

_USUAL = (".jpg", ".jpeg", ".png", ".wav", ".flac", ".mp3", ".ogg", ".mp4", ".mkv", ".webm")
ENDINGS = {
    kind: (*(one for one in _USUAL if one in known), *sorted(known - set(_USUAL)))
    for kind, known in (("picture", PICTURES), ("sound", SOUNDS), ("video", VIDEOS))
}
"""The endings of each kind of file in the order in which they are looked for: the usual ones first."""
_FOLDERS = {"frames": "picture", "audio": "sound", "videos": "video"}
ANNOTATED = 5.0
"""Seconds into a clip of ten at which the boxes of VGG-SS were drawn."""


class Layout:
    """Finds files by the names of recordings.

    Args:
        root: the user's folder; None where only lists are needed, and no clip can be read.
        inside: folders inside the root that are looked into as well, such as the set's name.
    """

    def __init__(self, root: Path | None, inside: Sequence[str] = ()) -> None:
        if root is not None and not root.is_dir():
            raise DataError(f"Expected a folder with frames/ and audio/, but got {root}, which is none. Check --data.")
        self.root, self.inside = root, tuple(inside)

    def find(self, folder: str, name: str) -> Path | None:
        """The file of a recording in `folder` (frames or audio), or else its video."""
        found = (find_file(self._there[one], name, _FOLDERS[one]) for one in (folder, "videos"))
        return next((path for path in found if path is not None), None)

    def read(self, id: str, picture: str, sound: str, rate: int, seconds: float) -> Clip:
        """A clip that shows one recording and lets another be heard, with up to `seconds` of its sound."""
        from earsight.media.read import probe, read_frame  # sets are opened without what decodes media

        seen, heard = self._need("frames", picture), self._need("audio", sound)
        frame, _ = read_frame(seen, _moment(probe(seen).duration) if kind_of(seen) == "video" else 0.0)
        waveform, time = _read_sound(heard, rate, seconds)
        return Clip(id, frame, waveform, rate, time)

    def bases(self) -> list[Path]:
        """The root and the folders inside it that are there; empty without a root."""
        if self.root is None:
            return []
        return [self.root, *(self.root / name for name in self.inside if (self.root / name).is_dir())]

    @cached_property
    def _there(self) -> dict[str, list[Path]]:
        """The folders of each name that are there, looked up once."""
        return {name: [base / name for base in self.bases() if (base / name).is_dir()] for name in _FOLDERS}

    def _need(self, folder: str, name: str) -> Path:
        path, what = self.find(folder, name), _FOLDERS[folder]
        if path is not None:
            return path
        if self.root is None:
            raise MediaError(name, f"has no {what}, since no folder was given.", "Pass --data DIR.")
        places = " or ".join(f"{file_names(name, _FOLDERS[one])} in {self.root / one}" for one in (folder, "videos"))
        also = f" (or inside {', '.join(str(self.root / one) for one in self.inside)})" if self.inside else ""
        raise MediaError(name, f"has no {what}.", f"Expected {places}{also}.")


def find_file(folders: Iterable[Path], name: str, kind: str) -> Path | None:
    """The first file of that name, of a kind in ENDINGS, in these folders."""
    if name in ("", ".", "..") or any(mark in name for mark in "/\\\0"):
        raise MediaError(name, "is not the name of a recording.", "Expected a file name without its ending.")
    paths = (folder / f"{name}{ending}" for folder in folders for ending in ENDINGS[kind])
    return next((path for path in paths if path.is_file()), None)


def file_names(name: str, kind: str) -> str:
    """The names a file may have, for messages.

    >>> file_names("a", "picture")
    'a.{jpg,jpeg,png,...}'
    """
    return f"{name}.{{{','.join(ending[1:] for ending in ENDINGS[kind][:3])},...}}"


class Listed(ClipSet):
    """The rows of a list, with their files in a layout. Opening it reads no media and needs none."""

    def __init__(self, name: str, rows: Sequence[Row], layout: Layout) -> None:
        super().__init__(name, rows)
        self.layout = layout

    def read(self, index: int, rate: int, seconds: float, draw: int = 0) -> Clip:
        row = self.rows[index]
        return self.layout.read(row.id, row.picture or row.id, row.sound or row.id, rate, seconds)

    def files(self, index: int) -> Files:
        row = self.rows[index]
        return self.layout.find("frames", row.picture or row.id), self.layout.find("audio", row.sound or row.id)


def _moment(duration: float | None) -> float:
    """The time in a video that its clip is about.

    >>> _moment(10.02), _moment(4.0)
    (5.0, 2.0)
    """
    return ANNOTATED if duration is None or 9 <= duration <= 11 else duration / 2


def _read_sound(path: Path, rate: int, seconds: float) -> tuple[F32, float]:
    """Sound around the moment of a video or the middle of a sound file, and where that moment is in it."""
    from earsight.media.read import probe, read_audio

    duration, video = probe(path).duration, kind_of(path) == "video"
    if duration is None and not video:
        duration = len(read_audio(path, rate)) / rate  # some containers do not say how long they play
    moment = _moment(duration) if video or duration is None else duration / 2
    latest = max(0.0, duration - seconds) if duration is not None else float("inf")
    start = min(max(0.0, moment - seconds / 2), latest)
    waveform = read_audio(path, rate, start, seconds)
    return waveform, min(moment - start, seconds)
