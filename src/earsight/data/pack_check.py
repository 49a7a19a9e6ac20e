"""Whether a pack is what was written: the hash of every shard, the digest of every clip, and the list as a whole."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from earsight.data.manifest import MANIFEST, Failed, Manifest, read_manifest, shard_path
from earsight.data.pack import Packed
from earsight.data.parallel import in_order
from earsight.data.shard import Shard
from earsight.errors import DataError


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
    """Read all shards of a split's folder, in `workers` processes (0: in this one)."""
    if not (folder / MANIFEST).is_file():
        unfinished = Damage(MANIFEST, "is missing: the pack is not finished. Run data prepare again, which goes on.")
        return Verified(folder, None, (unfinished,))
    try:
        manifest = read_manifest(folder)
    except DataError as error:
        return Verified(folder, None, (Damage(MANIFEST, str(error)),))
    numbers = list(range(len(manifest.shards)))
    damages = []
    looked = in_order(_look, (folder, manifest), numbers, workers, name=lambda n: shard_path(folder, n).name, chunk=1)
    for number, damage in enumerate(looked, start=1):
        damages += [damage] if damage is not None else []
        if progress is not None:
            progress(number, len(numbers))
    if not damages:
        try:
            found = Packed(folder).list_hash()
        except DataError as error:
            return Verified(folder, manifest, (Damage(MANIFEST, str(error)),))
        if found != manifest.list_hash:
            detail = f"tells the list {manifest.list_hash}, but the clips are those of {found}."
            damages.append(Damage(MANIFEST, detail))
    return Verified(folder, manifest, tuple(damages))


def _look(common: tuple[Path, Manifest], number: int) -> Damage | None:
    folder, manifest = common
    info, path = manifest.shards[number], shard_path(folder, number)
    first = number * manifest.settings.shard_rows
    clips = f"clips {first} to {first + info.rows - 1}"
    if not path.is_file():
        return Damage(path.name, f"is missing, with {clips}.")
    with path.open("rb") as file:
        same = hashlib.file_digest(file, "sha256").hexdigest() == info.sha256
    try:
        shard = Shard(path, manifest.firsts[number], info.rows)
        rows = shard.rows()
    except DataError:
        return Damage(path.name, f"cannot be read, with {clips}.")
    hurt = tuple(row.id for at, row in enumerate(rows) if not shard.whole(at, row, shard.stored(at)))
    if hurt:
        return Damage(path.name, f"is damaged, with {len(hurt)} of its {info.rows} clips:", hurt)
    return None if same else Damage(path.name, "is damaged, but none of its clips is.")
