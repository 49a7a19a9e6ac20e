"""coco_esc from a pack: photos and sounds lie in two tables, so that any photo can be heard with any sound.

    PACK/coco_esc-photos_train/   photos of the training list: JPEG, square
    PACK/coco_esc-sounds_train/   its sounds: all five seconds, 16-bit
    PACK/coco_esc/boxes.csv       columns photo, cls, x0, y0, x1, y1: fractions of the photo
    PACK/coco_esc/used_train.csv  every file that was used, with its size and its hash

and the same for val and test. The tables are packs like any other (data/pack.py), whose rows are photos without sound
and sounds with a picture of one pixel.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

from earsight.data.coco.lists import LENGTH, WINDOW, Pair
from earsight.data.coco.media import BOXES
from earsight.data.coco.pairs import Pairs, made
from earsight.data.coco.splits import NOISE, SILENCE, Boxes
from earsight.data.files import read_columns
from earsight.data.manifest import MANIFEST, folder_name
from earsight.data.pack import Packed, span
from earsight.errors import DataError, MediaError, UsageError
from earsight.types import F32, I16, U8, Box, Clip, Row, Sound, floats

FOLDER = "coco_esc"
COLUMNS = ("photo", "cls", "x0", "y0", "x1", "y1")


def table(what: str, name: str) -> str:
    """The name of a table of "photos" or "sounds".

    >>> table("photos", "train")
    'coco_esc:photos_train'
    """
    return f"coco_esc:{what}_{name}"


def folders(pack: Path, name: str) -> list[Path]:
    """Where the tables of a list lie in a pack."""
    return [pack / folder_name(table(what, name)) for what in ("photos", "sounds")]


class Tables:
    """Photos and sounds of one list in a pack."""

    def __init__(self, pack: Path, name: str) -> None:
        self.root, self.name = pack, name
        self.photos, self.sounds = self._open("photos"), self._open("sounds")
        self._photo_at = {row.id: i for i, row in enumerate(self.photos.rows)}
        self._sound_at = {row.id: i for i, row in enumerate(self.sounds.rows)}

    @property
    def where(self) -> str:
        return str(self.root / FOLDER / BOXES)

    @property
    def rate(self) -> int:
        return self.sounds.manifest.settings.rate

    def has(self, pair: Pair) -> bool:
        """Whether the photo of a pair is in the pack; of a pack that was limited, not all are."""
        return pair.photo in self._photo_at

    @property
    def limited(self) -> bool:
        return self.photos.manifest.limit > 0

    def boxes(self) -> Boxes:
        return boxes_in(self.root / FOLDER / BOXES)

    def photo(self, name: str) -> U8:
        if name not in self._photo_at:
            raise MediaError(name, f"has no picture in {self.root}.", "Prepare the pack again.")
        return self.photos.picture(self._photo_at[name])

    def sound(self, name: str, rate: int, start: float = 0.0, seconds: float = LENGTH) -> F32:
        return floats(self.samples(name)[round(start * rate) :][: round(seconds * rate)])

    def samples(self, name: str) -> I16:
        """All of a sound, int16 (S,)."""
        if name not in self._sound_at:
            raise MediaError(name, f"has no sound in {self.root}.", "Prepare the pack again.")
        return self.sounds.stored(self._sound_at[name]).wave

    def failed(self) -> tuple[dict[str, str], dict[str, str]]:
        """Photos, and sounds, that could not be packed, and why."""
        photos, sounds = (
            {each.rows[i].id: reason for i, reason in each.lost().items()} for each in (self.photos, self.sounds)
        )
        return photos, sounds

    def photo_file(self, name: str) -> Path | None:
        return None

    def sound_file(self, name: str) -> Path | None:
        return None

    def lists(self) -> list[Path]:
        return [self.root / FOLDER / BOXES]

    def _open(self, what: str) -> Packed:
        spec = table(what, self.name)
        folder = self.root / folder_name(spec)
        if not (folder / MANIFEST).is_file():
            raise UsageError(
                f"Expected {what} of the {self.name} list of coco_esc in the pack {self.root}, but got none that are "
                f"finished. Run: earsight data prepare coco_esc:{self.name} --coco DIR --esc50 DIR --out {self.root}"
            )
        return Packed(folder, spec)


class PackedPairs(Pairs):
    """The pairs of one split from a pack."""

    def __init__(self, split: str, rows: Sequence[Row], chosen: Sequence[Pair], tables: Tables) -> None:
        super().__init__(split, rows, chosen, tables)
        self.tables = tables

    def read(self, index: int, rate: int, seconds: float, draw: int = 0) -> Clip:
        frame = self.tables.photo(self._pairs[index].photo)
        return Clip(self.rows[index].id, frame, *self.hear(index, rate, seconds, draw))

    def hear(self, index: int, rate: int, seconds: float, draw: int = 0) -> Sound:
        self.can_give(rate, seconds)
        sound, start = self.heard(index, draw)
        photo = self._pairs[index].photo
        samples = made(sound, photo, rate) if sound in (SILENCE, NOISE) else self.tables.samples(sound)
        first, last, time = span(len(samples), start + WINDOW / 2, rate, seconds)
        return Sound(samples[first:last], rate, time)

    def lost(self) -> dict[int, str]:
        photos, sounds = self.tables.failed()
        if self._training:
            sounds = {}  # a clip whose sound failed hears others on other visits
        reasons = ((i, photos.get(pair.photo) or sounds.get(pair.sound)) for i, pair in enumerate(self._pairs))
        return {i: reason for i, reason in reasons if reason}

    def changed(self) -> str:
        return self.tables.photos.changed() or self.tables.sounds.changed()

    def can_give(self, rate: int, seconds: float) -> None:
        """Raise when the sounds were packed at another rate, or are shorter."""
        if rate != self.tables.rate or seconds > LENGTH:
            raise UsageError(
                f"Expected at most {LENGTH:g} s of sound at {self.tables.rate} samples per second, as {self.name} was "
                f"packed in {self.tables.root}, but got {seconds:g} s at {rate}. Run: earsight data prepare "
                f"{self.name} --coco DIR --esc50 DIR --out OTHER --rate {rate}"
            )


def boxes_in(path: Path) -> Boxes:
    """The boxes of a pack by photo and class."""
    if not path.is_file():
        raise DataError(f"Expected {path}, but got none: the pack is not finished. Run earsight data prepare again.")
    found = defaultdict[tuple[str, str], list[Box]](list)
    for where, line in read_columns(path, COLUMNS):
        try:
            x0, y0, x1, y1 = (float(line[name]) for name in COLUMNS[2:])
        except ValueError:
            x0 = y0 = x1 = y1 = math.nan
        if not (0 <= x0 < x1 <= 1 and 0 <= y0 < y1 <= 1):
            raise DataError(
                f"Expected a box as fractions in {where}, but got {', '.join(line[name] for name in COLUMNS[2:])}. "
                "Run earsight data prepare again."
            )
        found[line["photo"], line["cls"]].append((x0, y0, x1, y1))
    return dict(found)
