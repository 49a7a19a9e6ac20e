"""Packs: a set's clips in a few large files that are mapped into memory, in place of hundreds of thousands of media.

    PACK/earsight-pack.txt             says that this folder is a pack; any number of splits share one
    PACK/SET-SPLIT/shard-00000.arrow   the clips (data/shard.py)
    PACK/SET-SPLIT/pack.json           what was packed and how, and the hash of every shard; written last

`open_set` opens a packed split wherever a pack is given in place of a data folder. A split without pack.json is not
finished, and is never read. The clips are those of the set, under the same names and in the same order, so that reports
and weights tell the same list; their pictures went through JPEG once more and their sound has 16 bits.
"""

from __future__ import annotations

from bisect import bisect_right
from inspect import signature
from pathlib import Path
from stat import S_ISREG
from typing import Any, NamedTuple

from earsight import registry
from earsight.data.clips import ClipSet, sound_window
from earsight.data.jpeg import decode_jpeg, jpeg_size
from earsight.data.manifest import BEGUN, MANIFEST, is_pack, is_split, read_manifest, shard_path, splits_in
from earsight.data.shard import Shard, Stored, damaged
from earsight.errors import DataError, MediaError, UsageError
from earsight.media.accept import Limits
from earsight.types import U8, Clip, Sound

LONGEST = 65_500
"""Longest side of a JPEG picture."""
PIXELS = Limits().max_pixels
_END = b"\xff\xd9"  # of every JPEG


def find(data: Path, spec: str) -> Path | None:
    """The folder of "set:split" when `data` is a pack; None when it is a folder of another kind.

    None also for sets whose pictures and sounds are packed apart (data/plan.py): they open packs themselves.
    """
    if not is_pack(data) and is_split(data) and is_pack(data.parent):
        data = data.parent
    folder = data / spec.replace(":", "-")  # which is no reason to refuse a set of files with an odd split
    if (folder / MANIFEST).is_file():
        return folder
    if not is_pack(data) or hasattr(registry.load("set", spec.partition(":")[0]), "plan"):
        return None
    there = [read_manifest(one).set for one in splits_in(data) if (one / MANIFEST).is_file()]
    got = "an unfinished one" if (folder / BEGUN).is_file() else ", ".join(there) or "nothing"
    raise UsageError(
        f"Expected {spec} in the pack {data}, but got {got}. "
        f"Run: earsight data prepare {spec}{_folder(spec)} --out {data}"
    )


def _folder(spec: str) -> str:
    """The flag for a set's folder of media; nothing for a set that opens without one."""
    name = spec.partition(":")[0]
    if not registry.may_import(name):  # it may be the pack that names it
        return " --data DIR"
    takes = signature(registry.load("set", name).open).parameters.get("data")
    return "" if takes is not None and takes.default is None else " --data DIR"


class _Version(NamedTuple):
    """What changes when a file is replaced, cut off or written to; zeros when there is none."""

    inode: int
    bytes: int
    changed: int


def _version(path: Path) -> _Version:
    try:
        found = path.stat()
    except OSError:
        return _Version(0, 0, 0)
    return _Version(found.st_ino, found.st_size, found.st_mtime_ns) if S_ISREG(found.st_mode) else _Version(0, 0, 0)


class Packed(ClipSet):
    """The clips of a split's folder. Shards are opened when a clip of theirs is read.

    Args:
        folder: of the split.
        spec: "set:split" that is expected there.
        prepared: what `earsight data prepare` was told, where that is not the same.
    """

    def __init__(self, folder: Path, spec: str | None = None, prepared: str = "") -> None:
        self.folder, self.manifest, self._prepared = folder, read_manifest(folder), prepared
        if spec is not None and self.manifest.set != spec:
            raise DataError(
                f"Expected {spec} in {folder}, but got {self.manifest.set}. Name the folder as it was, or pack it anew."
            )
        self._firsts = self.manifest.firsts
        self._paths = [shard_path(folder, number) for number in range(len(self._firsts))]
        self._open: dict[int, tuple[_Version, Shard]] = {}
        self._found_right: set[int] = set()
        rows = [row for number in range(len(self._firsts)) for row in self._shard(number).rows()]
        self._open.clear()
        super().__init__(self.manifest.name, rows)

    def read(self, index: int, rate: int, seconds: float, draw: int = 0) -> Clip:
        """The clip; which one `draw` is makes no difference, since one was packed."""
        self.can_give(rate, seconds)
        stored = self.stored(index)
        return Clip(self.rows[index].id, self._picture(index, stored), *self._sound(stored, seconds))

    def hear(self, index: int, rate: int, seconds: float, draw: int = 0) -> Sound:
        self.can_give(rate, seconds)
        return self._sound(self.stored(index), seconds)

    def picture(self, index: int) -> U8:
        """The picture of a clip, uint8 (3, H, W)."""
        return self._picture(index, self.stored(index))

    def _sound(self, stored: Stored, seconds: float) -> Sound:
        rate = self.manifest.settings.rate
        start, stop, time = sound_window(len(stored.wave), stored.time, rate, seconds)
        return Sound(stored.wave[start:stop], rate, time)

    def _picture(self, index: int, stored: Stored) -> U8:
        """Decoded once its header was found to be of a JPEG that earsight packs."""
        id, height, width = self.rows[index].id, stored.height, stored.width
        if not self._is_jpeg(stored.frame, height, width):
            raise MediaError(id, f"is not a packed JPEG picture of {width} x {height}.", "Prepare the pack again.")
        try:
            picture = decode_jpeg(stored.frame)
        except ValueError as error:
            reason = f"has a JPEG picture that cannot be decoded ({error})."
            raise MediaError(id, reason, "Prepare the pack again.") from error
        if picture.shape != (3, height, width):
            raise MediaError(id, f"has a picture of {picture.shape}.", "Prepare the pack again.")
        return picture

    def lost(self) -> dict[int, str]:
        return {failed.index: f"{failed.id}: could not be packed: {failed.reason}" for failed in self.manifest.failed}

    def can_give(self, rate: int, seconds: float) -> None:
        """Raise when the sound was packed at another rate, or less of it."""
        packed = self.manifest.settings
        if rate != packed.rate or seconds > packed.seconds + 1e-9:
            raise UsageError(
                f"Expected {seconds:g} s of sound at {rate} samples per second, but {self.manifest.set} was packed in "
                f"{self.folder.parent} with {packed.seconds:g} s at {packed.rate}. Run: earsight data prepare "
                f"{self._prepared or self.manifest.set + _folder(self.manifest.set)} --out OTHER --rate {rate} "
                f"--seconds {max(seconds, packed.seconds):g}"
            )

    def stored(self, index: int) -> Stored:
        """The bytes of a clip, as views of the file; each process looks at a clip's digest once, or at its shard's."""
        row = self.rows[index]
        number = bisect_right(self._firsts, index) - 1
        try:
            shard = self._shard(number)
            at = index - shard.first
            stored = shard.stored(at)
            whole = index in self._found_right or shard.whole(at, row, stored)
        except DataError as error:
            raise MediaError(row.id, str(error)) from error
        if not whole:
            raise self._hurt(row.id, number, "is not what was packed")
        self._found_right.add(index)
        if stored.failed:
            raise MediaError(
                row.id, f"could not be packed: {stored.failed}", "Mend it, and run data prepare again for what failed."
            )
        return stored

    def _is_jpeg(self, data: U8, height: int, width: int) -> bool:
        """Whether `data` is a JPEG that earsight packs, of this size: as far as its first and its last bytes tell."""
        shorter, longer = (height, width) if height < width else (width, height)
        fits = 0 < shorter <= self.manifest.settings.size and longer <= LONGEST and height * width <= PIXELS
        return fits and jpeg_size(data) == (height, width) and data[-2:].tobytes() == _END

    def _shard(self, number: int) -> Shard:
        """A shard as it is on disk now. The file is asked each time: to read what was cut off from a file that is
        mapped ends the process, and one that was replaced since is read anew."""
        version = _version(self._paths[number])
        opened = self._open.get(number)
        if opened is None or opened[0] != version:
            first, info = self._firsts[number], self.manifest.shards[number]
            if opened is not None:
                del self._open[number]
                self._found_right.difference_update(range(first, first + info.rows))
            if reason := self._wrong_size(number, version):
                raise damaged(self._paths[number], reason)
            opened = version, Shard(self._paths[number], first, info.rows)
            self._open[number] = opened
        return opened[1]

    def _wrong_size(self, number: int, version: _Version) -> str:
        wanted = self.manifest.shards[number].bytes
        got = f"{version.bytes} bytes instead of {wanted}" if version.inode else "none"
        return "" if version.bytes == wanted else got

    def changed(self) -> str:
        found = ((number, self._wrong_size(number, _version(path))) for number, path in enumerate(self._paths))
        return next((str(damaged(self._paths[number], reason)) for number, reason in found if reason), "")

    def _hurt(self, id: str, number: int, how: str) -> MediaError:
        return MediaError(
            id,
            f"{how} in {self._paths[number]}.",
            f"Look with earsight data check {self.folder}, then run data prepare again: it makes anew what is damaged.",
        )

    def __getstate__(self) -> dict[str, Any]:
        # Every process maps the files for itself, and looks at them itself.
        return {**self.__dict__, "_open": {}, "_found_right": set()}
