"""Packs: a set's clips in a few large files that are mapped into memory, in place of hundreds of thousands of media.

    PACK/earsight-pack.txt             says that this folder is a pack; any number of splits share one
    PACK/SET-SPLIT/shard-00000.arrow   the clips (data/shard.py)
    PACK/SET-SPLIT/pack.json           what was packed and how, and the hash of every shard; written last

`open_set` opens a packed split wherever a pack is given in place of a data folder. A split without pack.json is not
finished, and is never read. The clips are those of the set, under the same names and in the same order, so that reports
and weights tell the same list; their pictures went through JPEG once more and their sound has 16 bits.
"""

from __future__ import annotations

import io
from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from stat import S_ISREG
from typing import TYPE_CHECKING, Any

import numpy as np
from PIL import Image

from earsight.data.clips import ClipSet, sound_window
from earsight.data.manifest import MANIFEST, Failed, Manifest, damaged, data_flag, read_manifest, shard_path
from earsight.data.parallel import in_order
from earsight.errors import DataError, MediaError, UsageError, how_to_install
from earsight.files import sha256
from earsight.media.accept import Limits
from earsight.types import U8, Clip, Sound

if TYPE_CHECKING:  # sets are opened without pyarrow, as long as they are in no pack
    from earsight.data.shard import Shard, Stored

LONGEST = 65_500
"""Longest side of a JPEG picture."""
PIXELS = Limits().max_pixels


class Packed(ClipSet):
    """The clips of a split's folder. Shards are opened when a clip of theirs is read.

    Args:
        folder: of the split.
        spec: "set:split" that is expected there.
        prepared: what `earsight data prepare` was given, where that is not the same.
    """

    def __init__(self, folder: Path, spec: str | None = None, prepared: str = "") -> None:
        self.folder, self.manifest, self._prepared = folder, read_manifest(folder), prepared
        if spec is not None and self.manifest.set != spec:
            raise DataError(
                f"Expected {spec} in {folder}, but got {self.manifest.set}. Name the folder as it was, or pack it anew."
            )
        self._firsts = self.manifest.firsts
        self._paths = [shard_path(folder, number) for number in range(len(self._firsts))]
        self._open: dict[int, tuple[_State, Shard]] = {}
        self._verified: set[int] = set()
        rows = [row for number in range(len(self._firsts)) for row in self._shard(number).rows()]
        self._open.clear()
        super().__init__(self.manifest.name, rows)

    def read(self, index: int, rate: int, seconds: float, draw: int = 0) -> Clip:
        """The clip; which one `draw` is makes no difference, since one was packed."""
        self.check_audio_spec(rate, seconds)
        stored = self.stored(index)
        return Clip(self.rows[index].id, self._picture(index, stored), *self._sound(stored, seconds))

    def hear(self, index: int, rate: int, seconds: float, draw: int = 0) -> Sound:
        self.check_audio_spec(rate, seconds)
        return self._sound(self.stored(index), seconds)

    def _sound(self, stored: Stored, seconds: float) -> Sound:
        rate = self.manifest.settings.rate
        start, stop, time = sound_window(len(stored.wave), stored.time, rate, seconds)
        return Sound(stored.wave[start:stop], rate, time)

    def _picture(self, index: int, stored: Stored) -> U8:
        height, width, most = stored.height, stored.width, self.manifest.settings.size
        try:
            if not (0 < min(height, width) <= most and max(height, width) <= LONGEST and height * width <= PIXELS):
                raise ValueError(f"{width} x {height}, of a pack of {most}")
            return decode_jpeg(stored.frame, (height, width))
        except ValueError as error:
            reason = f"has a picture that is not as it was packed, or cannot be decoded ({error})."
            raise MediaError(self.rows[index].id, reason, "Prepare the pack again.") from error

    def failed_clips(self) -> dict[int, str]:
        return {failed.index: f"{failed.id}: could not be packed: {failed.reason}" for failed in self.manifest.failed}

    def check_audio_spec(self, rate: int, seconds: float) -> None:
        """Raise when the sound was packed at another rate, or less of it."""
        packed = self.manifest.settings
        if rate != packed.rate or seconds > packed.seconds + 1e-9:
            raise UsageError(
                f"Expected {seconds:g} s of sound at {rate} samples per second, but {self.manifest.set} was packed in "
                f"{self.folder.parent} with {packed.seconds:g} s at {packed.rate}. Run: earsight data prepare "
                f"{self._prepared or self.manifest.set + data_flag(self.manifest.set)} --out OTHER --rate {rate} "
                f"--seconds {max(seconds, packed.seconds):g}"
            )

    def stored(self, index: int) -> Stored:
        """The bytes of a clip, as views of the file; each process compares a clip with its digest once."""
        row = self.rows[index]
        number = bisect_right(self._firsts, index) - 1
        try:
            shard = self._shard(number)
            at = index - shard.first
            stored = shard.stored(at)
            whole = index in self._verified or shard.whole(at, row, stored)
        except DataError as error:
            raise MediaError(row.id, str(error)) from error
        if not whole:
            raise MediaError(
                row.id,
                f"is not what was packed in {self._paths[number]}.",
                f"Look with earsight data check {self.folder}, then run data prepare again: it makes anew what is "
                "damaged.",
            )
        self._verified.add(index)
        if stored.failed:
            raise MediaError(
                row.id, f"could not be packed: {stored.failed}", "Mend it, and run data prepare again for what failed."
            )
        return stored

    def _shard(self, number: int) -> Shard:
        """A shard as it is on disk now. The file is asked each time: to read what was cut off from a file that is
        mapped ends the process, and one that was replaced since is read anew."""
        first, info = self._firsts[number], self.manifest.shards[number]
        found = _state(self._paths[number], info.bytes)
        if number in self._open:
            before, opened = self._open[number]
            if before == found:
                return opened
            del self._open[number]
            self._verified.difference_update(range(first, first + info.rows))
        try:
            from earsight.data.shard import Shard
        except ImportError as error:
            raise UsageError(
                f"Expected pyarrow to read the pack {self.folder}, but it is not installed. Install the extra 'train': "
                f"{how_to_install('train')}"
            ) from error
        shard = Shard(self._paths[number], first, info.rows)
        self._open[number] = found, shard
        return shard

    def changed(self) -> str:
        try:
            for path, info in zip(self._paths, self.manifest.shards, strict=True):
                _state(path, info.bytes)
        except DataError as error:
            return str(error)
        return ""

    def __getstate__(self) -> dict[str, Any]:
        # Every process maps the files for itself, and looks at them itself.
        return {**self.__dict__, "_open": {}, "_verified": set()}


_State = tuple[int, int]


def _state(path: Path, size: int) -> _State:
    """What is another when a shard of this `size` was replaced or written to; one that was cut off is refused."""
    try:
        found = path.stat()
    except OSError as error:
        raise damaged(path, "none") from error
    if not S_ISREG(found.st_mode):
        raise damaged(path, "none")
    if found.st_size != size:
        raise damaged(path, f"{found.st_size} bytes instead of {size}")
    return found.st_ino, found.st_mtime_ns


def decode_jpeg(data: U8, size: tuple[int, int]) -> U8:
    """The picture of a plain JPEG file of exactly that size (height, width), uint8 (3, H, W), else a ValueError.

    Nothing else is decoded, since packs may come from strangers: progressive pictures take far more memory than their
    pixels. The colours of a pixel lie next to each other in memory.
    """
    try:
        with Image.open(io.BytesIO(data.tobytes()), formats=["JPEG"]) as image:
            if image.size != size[::-1] or image.mode != "RGB" or "progressive" in image.info:
                raise ValueError(f"not a plain JPEG of {size[1]} x {size[0]}")
            pixels: U8 = np.array(image)
    except (OSError, SyntaxError, Image.DecompressionBombError) as error:  # all that Pillow raises on damaged files
        raise ValueError(" ".join(str(error).split())[:200] or "unknown") from error
    return pixels.transpose(2, 0, 1)


@dataclass(frozen=True)
class Damage:
    """A shard that is not what was written, and the clips that are hurt; none where the damage is between them."""

    shard: str
    detail: str
    clips: tuple[str, ...] = ()


@dataclass(frozen=True)
class Verified:
    """What was found in the folder of a split."""

    folder: Path
    manifest: Manifest | None
    damages: tuple[Damage, ...]

    @property
    def name(self) -> str:
        return self.manifest.set if self.manifest is not None else self.folder.name

    @property
    def failed(self) -> tuple[Failed, ...]:
        """Clips that could not be packed; no damage."""
        return self.manifest.failed if self.manifest is not None else ()


def verify(folder: Path, *, workers: int = 0, progress: Callable[[float, float], None] | None = None) -> Verified:
    """Whether a split is what was written, read in `workers` processes (0: in this one): the hash of every shard, the
    digest of every clip, and the list as a whole."""
    manifest: Manifest | None = None
    damages: list[Damage] = []
    try:
        if not (folder / MANIFEST).is_file():
            raise DataError("is missing: the pack is not finished. Run data prepare again, which goes on.")
        manifest = read_manifest(folder)
        numbers = range(len(manifest.shards))
        found = in_order(_check_shard, (folder, manifest), numbers, workers, name=str, chunk=1)
        for number, damage in enumerate(found, start=1):
            damages += [] if damage is None else [damage]
            if progress is not None:
                progress(number, len(numbers))
        if not damages and (list_hash := Packed(folder).list_hash()) != manifest.list_hash:
            raise DataError(f"tells the list {manifest.list_hash}, but the clips are those of {list_hash}.")
    except DataError as error:
        damages.append(Damage(MANIFEST, str(error)))
    return Verified(folder, manifest, tuple(damages))


def _check_shard(common: tuple[Path, Manifest], number: int) -> Damage | None:
    from earsight.data.shard import Shard

    folder, manifest = common
    info, path, first = manifest.shards[number], shard_path(folder, number), manifest.firsts[number]
    clips = f"clips {first} to {first + info.rows - 1}"
    if not path.is_file():
        return Damage(path.name, f"is missing, with {clips}.")
    same = sha256(path) == info.sha256
    try:
        shard = Shard(path, first, info.rows)
        rows = shard.rows()
    except DataError:
        return Damage(path.name, f"cannot be read, with {clips}.")
    hurt = tuple(row.id for at, row in enumerate(rows) if not shard.whole(at, row, shard.stored(at)))
    if hurt:
        return Damage(path.name, f"is damaged, with {len(hurt)} of its {info.rows} clips:", hurt)
    return None if same else Damage(path.name, "is damaged, but none of its clips is.")
