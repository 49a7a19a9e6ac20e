"""What a data set is: rows that can be listed cheaply, and clips that can be read one by one."""

from __future__ import annotations

import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

import numpy as np

from earsight import registry
from earsight.errors import DataError, UsageError
from earsight.files import local_path
from earsight.types import F32, I16, Clip, Row, Sound

Files = tuple[Path | None, Path | None]
"""Of a clip's picture and its sound; None for one that is missing."""
W = TypeVar("W", F32, I16, F32 | I16)
_ROLES = {"train": "training", "val": "validation", "test": "testing"}


class ClipSet(ABC):
    """A named list of clips. A clip that cannot be read raises MediaError; it never becomes another clip.

    Args:
        name: "set:split", as the command line writes it.
        rows: what is known of each clip without reading it.
    """

    notes: tuple[str, ...] = ()
    """What there is to know about the list, in plain words: files of the user's that are in no clip."""
    _hashed: tuple[Sequence[Row], str] = (), ""

    def __init__(self, name: str, rows: Sequence[Row]) -> None:
        self.name, self.rows = name, tuple(rows)

    def __len__(self) -> int:
        return len(self.rows)

    @abstractmethod
    def read(self, index: int, rate: int, seconds: float, draw: int = 0) -> Clip:
        """Clip `index` with up to `seconds` of sound around its frame at `rate` samples per second.

        `draw` numbers the visits (in training every epoch of every seed has its own), for sets that pair a picture with
        another sound each time.
        """

    @property
    def origin(self) -> ClipSet:
        """The set that reads the files: another one, where clips are made of another set's."""
        return self

    def hear(self, index: int, rate: int, seconds: float, draw: int = 0) -> Sound:
        """The sound of what `read` gives, for whoever needs no picture; some sets are spared the work of one."""
        return self.read(index, rate, seconds, draw).sound

    def files(self, index: int) -> Files | None:
        """The files of a clip's picture and sound; None for sets that keep none."""
        return None

    def failed_clips(self) -> dict[int, str]:
        """Clips of which it is known, without trying, that they cannot be read, and why."""
        return {}

    def check_audio_spec(self, rate: int, seconds: float) -> None:  # noqa: B027
        """Raise a UsageError where no clip can have that much sound at that rate, to be asked before work begins."""

    def changed(self) -> str:
        """What is wrong with a file that was cut off, or went away, since the set was opened; empty when none was."""
        return ""

    def list_hash(self) -> str:
        """Short hash of the rows: two results with the same hash were measured on the same list."""
        if self._hashed[0] is not self.rows or not self._hashed[1]:
            # Recordings named like their clip are left out, so that lists keep the hash they had before these were.
            plain = [{k: v for k, v in vars(row).items() if v or k not in ("picture", "sound")} for row in self.rows]
            self._hashed = self.rows, hashlib.sha256(json.dumps(plain, sort_keys=True).encode()).hexdigest()[:12]
        return self._hashed[1]


class Derived(ClipSet):
    """Clips made of another set's: the picture of one, and the sound of the same, of another, or none."""

    def __init__(self, name: str, rows: Sequence[Row], whole: ClipSet) -> None:
        super().__init__(name, rows)
        self._whole, self.notes = whole, whole.notes

    @abstractmethod
    def parts(self, index: int) -> tuple[int, int | None]:
        """Which clips of the other set are seen and heard; None hears silence as long as the seen clip's sound."""

    def read(self, index: int, rate: int, seconds: float, draw: int = 0) -> Clip:
        seen, heard = self.parts(index)
        clip, id = self._whole.read(seen, rate, seconds, draw), self.rows[index].id
        if heard is None:
            return replace(clip, id=id, waveform=np.zeros_like(clip.waveform))
        if heard == seen:
            return clip if clip.id == id else replace(clip, id=id)
        waveform, rate, time = self._whole.hear(heard, rate, seconds, draw)
        return replace(clip, id=id, waveform=waveform, rate=rate, time=time)

    def hear(self, index: int, rate: int, seconds: float, draw: int = 0) -> Sound:
        seen, heard = self.parts(index)
        sound = self._whole.hear(seen if heard is None else heard, rate, seconds, draw)
        return sound._replace(waveform=np.zeros_like(sound.waveform)) if heard is None else sound

    @property
    def origin(self) -> ClipSet:
        return self._whole.origin

    def failed_clips(self) -> dict[int, str]:
        lost = self._whole.failed_clips()
        found = {i: [lost[part] for part in self.parts(i) if part in lost] for i in range(len(self))} if lost else {}
        return {i: reasons[0] for i, reasons in found.items() if reasons}

    def check_audio_spec(self, rate: int, seconds: float) -> None:
        self._whole.check_audio_spec(rate, seconds)

    def changed(self) -> str:
        return self._whole.changed()


class Some(Derived):
    """The clips at some positions of a set, under the set's name."""

    def __init__(self, whole: ClipSet, at: Sequence[int]) -> None:
        self.at = tuple(at)
        super().__init__(whole.name, [whole.rows[i] for i in self.at], whole)

    def parts(self, index: int) -> tuple[int, int | None]:
        return self.at[index], self.at[index]


class Limited(Some):
    """The first `limit` clips of a set, spread evenly over it so that every kind is still there."""

    def __init__(self, whole: ClipSet, limit: int) -> None:
        limit = min(limit, len(whole))
        super().__init__(whole, [i * len(whole) // limit for i in range(limit)])


def open_set(
    spec: str, data: Path | str | None = None, *, role: str = "test", limit: int = 0, only: Path | str | None = None
) -> ClipSet:
    """Open "name" or "name:split"; without a split, `role` ("train", "val" or "test") picks the set's own default.

    Every file in data/sets defines SPLITS (all split names), DEFAULTS (role -> split, "" for a role that the set has no
    split for) and open(split, data) -> ClipSet. "name:split+FILE" adds the negatives of a csv file (data/negatives.py).
    Where `data` is a pack (data/pack.py), the packed clips of that split are opened in place of the set's own files.
    With `only`, a file of names (data/files.py), the clips whose picture or whose own name is in it; then `limit` of
    them.
    """
    spec, _, negatives = spec.partition("+")
    spec = with_split(spec, role)
    name, _, split = spec.partition(":")
    data = None if data is None else local_path(data)
    folder = None
    if data is not None:
        from earsight.data.manifest import find

        folder = find(data, spec)
    clip_set: ClipSet
    if folder is None:
        clip_set = registry.load("set", name).open(split, data)
    else:
        from earsight.data.pack import Packed  # which is a kind of set itself

        clip_set = Packed(folder, spec)
    if negatives:
        from earsight.data.negatives import extend  # which is a kind of set itself

        clip_set = extend(clip_set, Path(negatives))
    if only is not None:
        clip_set = _named_in(Path(only), clip_set)
    if limit < 0:
        raise UsageError(f"Expected a limit of at least 1, or 0 for all clips, but got {limit}.")
    return Limited(clip_set, limit) if limit else clip_set


def _named_in(path: Path, clip_set: ClipSet) -> ClipSet:
    """The clips that a file names; a name that the set does not have is an error, since somebody wanted that clip."""
    from earsight.data.files import read_names

    wanted, rows = set(read_names(path)), clip_set.rows
    missing = sorted(wanted - {row.id for row in rows} - {row.picture for row in rows})
    if missing:
        raise DataError(
            f"Expected names of clips of {clip_set.name}, such as '{rows[0].picture or rows[0].id}', in {path}, but "
            f"got {len(missing)} of {len(wanted)} that it does not have, such as '{missing[0]}'. Check that it is the "
            "list of this set."
        )
    return Some(clip_set, [i for i, row in enumerate(rows) if row.id in wanted or row.picture in wanted])


def with_split(spec: str, role: str = "test") -> str:
    """ "name:split" of "name" or "name:split", once the set is known to have that split.

    >>> with_split("toybox", "train")
    'toybox:train'
    """
    name, _, split = spec.partition(":")
    module = registry.load("set", name)
    split = split or module.DEFAULTS.get(role, "")
    if not split:
        raise UsageError(
            f"Expected a split of {name} for {_ROLES[role]}, but it has none. "
            f"Name one ({', '.join(f'{name}:{known}' for known in module.SPLITS)}), or another set."
        )
    if split not in module.SPLITS:
        raise UsageError(f"Expected a split of {name} ({', '.join(module.SPLITS)}), but got '{split}'.")
    return f"{name}:{split}"


def missing_list(spec: str, data: Path | None) -> str:
    """Why there is no list of "name:split" in `data`, or "" where there is one or the set does not say.

    A set whose lists are the user's own may define missing(split, data), which says it of a folder.
    """
    name, _, split = spec.partition(":")
    module = registry.load("set", name)
    if data is None or not hasattr(module, "missing"):
        return ""
    from earsight.data.manifest import is_pack, splits_in

    if is_pack(data):
        there = [folder.name for folder in splits_in(data)]
        return "" if spec.replace(":", "-") in there else f"the pack {data} holds no {spec}."
    reason: str = module.missing(split, data)
    return reason


def fit_waveform(waveform: W, rate: int, time: float, samples: int) -> W:
    """Exactly `samples` of sound: cut around `time` when long, tiled when short, zeros when there is none.

    >>> fit_waveform(np.arange(3, dtype=np.float32), 1, 1.0, 7).tolist()
    [0.0, 1.0, 2.0, 0.0, 1.0, 2.0, 0.0]
    >>> fit_waveform(np.arange(10, dtype=np.float32), 1, 9.0, 4).tolist()
    [6.0, 7.0, 8.0, 9.0]
    """
    if len(waveform) == 0:
        return np.zeros(samples, dtype=waveform.dtype)
    if len(waveform) < samples:
        repeated: W = waveform[np.arange(samples) % len(waveform)]
        return repeated
    first, last, _ = sound_window(len(waveform), time, rate, samples / rate)
    return waveform[first:last]


def sound_window(samples: int, time: float, rate: int, seconds: float) -> tuple[int, int, float]:
    """The part of a sound that is `seconds` long around `time`, or all when it is shorter; and where `time` is in it.

    >>> sound_window(100, 5.0, 10, 2.0), sound_window(15, 1.5, 10, 2.0), sound_window(100, 0.5, 10, 2.0)
    ((40, 60, 1.0), (0, 15, 1.5), (0, 20, 0.5))
    """
    wanted = max(1, round(rate * seconds))
    if samples <= wanted:
        return 0, samples, min(max(time, 0.0), seconds)
    start = min(max(round(time * rate - wanted / 2), 0), samples - wanted)
    return start, start + wanted, min(max(time - start / rate, 0.0), seconds)
