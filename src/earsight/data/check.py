"""A look at every clip of a set: what is missing, unreadable, silent, still, wrongly timed, duplicate, or unmarked.

Works for any set: by its files where it has some (`files(index)`), else by what `read` gives. Copies are found by the
decoded pixels and samples, so they must be exact: a copy that was encoded anew or cut otherwise is not noticed.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from earsight.config import Inputs, need, need_workers
from earsight.data.clips import ClipSet, Files, Limited
from earsight.data.layout import Listed
from earsight.data.parallel import in_order
from earsight.data.truth import truth_cells
from earsight.errors import MediaError, UsageError
from earsight.media.accept import kind_of
from earsight.media.read import MediaInfo, probe, read_audio, read_frame
from earsight.types import F32, U8, Row, floats

INPUTS = Inputs()
QUIET = 1e-4
"""Peak under which a sound counts as silence."""
KINDS = {
    "missing": "the picture or the sound is not there",
    "unreadable": "the picture or the sound cannot be decoded",
    "silent": f"no sound, or a peak below {QUIET:g}, in what is heard",
    "still": "a video whose pictures do not change",
    "wrongly timed": f"less than {INPUTS.seconds:g} s of sound, or pictures and sound of a video differ in length",
    "duplicate": "an exact copy of another clip's picture or sound",
    "no boxes": "a positive without ground truth",
    "empty boxes": "boxes that cover nothing of the picture",
}
FAILURES = ("missing", "unreadable")
"""What keeps a clip from being used at all; the rest are remarks."""
LATE = 0.5
"""Seconds by which pictures and sound of one video may differ in length."""
_TILES = 8
_LEVELS = 4.0  # of 255: encoders change a tile of a photo by up to 3 (mp4, webm, avi), small moving things by over 10
_SAMPLES = (0.1, 0.3, 0.5, 0.7, 0.9)
_TAIL = 30.0
_RATE = 8000


@dataclass(frozen=True)
class Problem:
    """Something about one clip; `kind` is one of KINDS."""

    id: str
    kind: str
    detail: str


@dataclass(frozen=True)
class Findings:
    """What was found in a set, in the order of its clips."""

    name: str
    looked: int
    problems: tuple[Problem, ...]
    good: tuple[str, ...]

    @property
    def counts(self) -> dict[str, int]:
        """Problems of each kind, in the order of KINDS."""
        number = Counter(problem.kind for problem in self.problems)
        return {kind: number[kind] for kind in KINDS if number[kind]}

    @property
    def failed(self) -> int:
        """Clips that cannot be used at all."""
        return len({problem.id for problem in self.problems if problem.kind in FAILURES})

    @property
    def remarked(self) -> int:
        """Clips that can be used, of which there is something to remark."""
        return self.looked - self.failed - len(self.good)


class Look(NamedTuple):
    """One clip: what is wrong with it, and hashes of its picture and its sound (None where there is none)."""

    problems: tuple[Problem, ...]
    picture: bytes | None = None
    sound: bytes | None = None


def check(
    clip_set: ClipSet, *, workers: int = 0, limit: int = 0, progress: Callable[[float, float], None] | None = None
) -> Findings:
    """Look at all clips, or at `limit` of them spread over the set, in `workers` processes (0: in this one)."""
    need_workers(workers)
    need(limit >= 0, "a limit of at least 1, or 0 for all clips", limit)
    if isinstance(clip_set, Listed) and clip_set.layout.root is None:
        raise UsageError(f"Expected the folder with the media of {clip_set.name}, but got none. Pass --data DIR.")
    at = Limited(clip_set, limit or len(clip_set)).at
    copies = _Copies(clip_set)
    annotated = any(row.boxes for row in clip_set.rows)
    problems: list[Problem] = []
    good: list[str] = []

    def name(index: int) -> str:
        return clip_set.rows[index].id

    looks = in_order(look_at, clip_set, at, workers, name=name)
    for done, (index, look) in enumerate(zip(at, looks, strict=True), start=1):
        row = clip_set.rows[index]
        found = [*look.problems, *_unmarked(row, annotated), *copies.of(index, look)]
        problems += found
        good += [] if found else [row.id]
        if progress is not None:
            progress(done, len(at))
    return Findings(clip_set.name, len(at), tuple(problems), tuple(good))


def look_at(clip_set: ClipSet, index: int) -> Look:
    """Read one clip as a model would, and tell what is wrong with it."""
    id = clip_set.rows[index].id
    gone: list[str] = []
    try:
        files = clip_set.files(index)
        named = zip(("picture", "sound"), files or (), strict=False)
        gone = [what for what, path in named if path is None or not path.is_file()]
        clip = clip_set.read(index, INPUTS.rate, INPUTS.seconds)
        found = [Problem(id, kind, detail) for kind, detail in _sound_problems(floats(clip.waveform), files)]
        found += [Problem(id, kind, detail) for kind, detail in _video_problems(files)]
    except MediaError as error:
        told = str(error).removeprefix(f"{id}: ")  # a problem is shown behind its clip's name
        if gone:
            what = f"no {' and no '.join(gone)}"
            # Where files are found by names, the error says once more what is missing, and then where it should be.
            told = f"{what}. {error.advice}" if error.reason.startswith("has no ") else f"{what}: {told}"
        missing = gone or error.reason.startswith("does not exist")
        return Look((Problem(id, "missing" if missing else "unreadable", told),))
    heard = None if any(problem.kind == "silent" for problem in found) else _hash(floats(clip.waveform))
    return Look(tuple(found), _hash(clip.frame), heard)


def _sound_problems(waveform: F32, files: Files | None) -> Iterator[tuple[str, str]]:
    seconds = len(waveform) / INPUTS.rate
    if len(waveform) == 0:
        length = probe(files[1]).duration if files and files[1] else None
        if length:
            yield "wrongly timed", f"begins past the end of its sound, which lasts {length:.2f} s"
        else:
            yield "silent", "has no sound"
        return
    if seconds < INPUTS.seconds - 0.01:
        yield "wrongly timed", f"has {seconds:.2f} s of sound, of the {INPUTS.seconds:g} s that are heard"
    peak = float(np.abs(waveform).max())
    if peak < QUIET:
        yield "silent", f"has a peak of {peak:.1e}"


def _video_problems(files: Files | None) -> Iterator[tuple[str, str]]:
    """Of clips whose picture comes from a video."""
    picture, sound = files or (None, None)
    if picture is None or kind_of(picture) == "picture":
        return
    info = probe(picture)
    if not info.has_video:
        return
    if still(info):
        yield "still", "shows the same picture all the time"
    if sound == picture and (detail := mistimed(info)):
        yield "wrongly timed", detail


def still(info: MediaInfo) -> bool:
    """Whether five frames spread over the video all look the same, tile by tile."""
    length = info.duration or 10.0
    first, *others = (tiles(read_frame(info.path, share * length)[0]) for share in _SAMPLES)
    return all(other.shape == first.shape and float(np.abs(other - first).max()) < _LEVELS for other in others)


def tiles(frame: U8) -> F32:
    """Mean colours of about 8 x 8 tiles of a frame (3, H, W); a smaller frame as it is.

    >>> tiles(np.full((3, 64, 96), 7, np.uint8)).shape
    (3, 8, 8)
    """
    _, height, width = frame.shape
    down, across = max(1, height // _TILES), max(1, width // _TILES)
    rows, columns = height // down, width // across
    cut = frame[:, : rows * down, : columns * across].reshape(3, rows, down, columns, across)
    mean: F32 = cut.mean(axis=(2, 4), dtype=np.float32)
    return mean


def mistimed(info: MediaInfo) -> str:
    """How pictures and sound of a video differ in length, in words; empty when they do not, or nothing is known."""
    if info.duration is None:
        return ""
    _, last = read_frame(info.path, info.duration)
    shown = last + float(1 / info.fps if info.fps else 0)
    # Only the end is decoded: a sound that is over before it ends far too early anyway.
    start = max(0.0, info.duration - _TAIL)
    tail = len(read_audio(info.path, _RATE, start)) / _RATE
    if abs(shown - start - tail) <= LATE:
        return ""
    most = "at most " if start and not tail else ""
    return f"shows {shown:.2f} s of pictures with {most}{start + tail:.2f} s of sound"


def _unmarked(row: Row, annotated: bool) -> Iterator[Problem]:
    """Positives without ground truth, in a set that has some at all."""
    if row.positive and annotated and not row.boxes:
        yield Problem(row.id, "no boxes", "is a positive, and no box says where")
    elif row.boxes and not truth_cells(row.boxes, INPUTS.image_size):
        yield Problem(row.id, "empty boxes", f"has {len(row.boxes)} boxes without a pixel in them")


class _Copies:
    """Remembers pictures and sounds by their hashes, and tells those that come again under another name."""

    def __init__(self, clip_set: ClipSet) -> None:
        self._set = clip_set
        self._first: dict[tuple[str, str, bytes], tuple[str, str]] = {}

    def of(self, index: int, look: Look) -> Iterator[Problem]:
        row = self._set.rows[index]
        if look.picture and look.sound:
            both = self._again("clip", "", look.picture + look.sound, row.id, row.id)
            if both:
                yield Problem(row.id, "duplicate", f"has the picture and the sound of {both}")
                return
        if not look.picture:
            return
        files = self._set.files(index) or (None, None)
        parts = (("picture", row.picture, look.picture), ("sound", row.sound, look.sound))
        for (what, named, hash), path in zip(parts, files, strict=True):
            # One recording may be used in many clips. Where nothing tells recordings apart, a negative may well show
            # the picture of a positive, and only clips of one kind are compared.
            name, scope = str(path or named or row.id), "" if path or named else row.kind
            if hash and (other := self._again(what, scope, hash, name, row.id)):
                yield Problem(row.id, "duplicate", f"has the {what} of {other}")

    def _again(self, what: str, scope: str, hash: bytes, name: str, id: str) -> str | None:
        first, owner = self._first.setdefault((what, scope, hash), (name, id))
        return owner if first != name else None


def _hash(values: U8 | F32) -> bytes:
    digest = hashlib.blake2b(repr(values.shape).encode(), digest_size=16)
    digest.update(np.ascontiguousarray(values).data)
    return digest.digest()
