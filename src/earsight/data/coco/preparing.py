"""Makes the tables of a pack of coco_esc: squares of photos, whole sounds, boxes, and hashes of what was used."""

from __future__ import annotations

import csv
import hashlib
import io
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

import numpy as np

from earsight.data.clips import ClipSet, Limited
from earsight.data.coco import lists
from earsight.data.coco.lists import LENGTH
from earsight.data.coco.media import BOXES, Media
from earsight.data.coco.packed import COLUMNS, FOLDER, table
from earsight.data.coco.splits import LISTS, pairs_of, rows_of
from earsight.data.manifest import Settings
from earsight.data.plan import Part, Plan
from earsight.types import Clip, Row


class Photos(ClipSet):
    """The photos of a list, squeezed into squares of one size, without sound.

    Square, since training cuts squares out of pictures: a cut of a wide photo might not hold what sounds.
    """

    def __init__(self, name: str, media: Media, size: int) -> None:
        super().__init__(table("photos", name), [Row(photo) for photo in lists.photos(name)])
        self._media, self._size = media, size

    def read(self, index: int, rate: int, seconds: float, draw: int = 0) -> Clip:
        from earsight.data.view import resized

        name = self.rows[index].id
        frame = resized(self._media.photo(name), self._size, self._size).numpy()
        return Clip(name, frame, np.zeros(0, np.float32), rate, 0.0)


class Sounds(ClipSet):
    """The sounds of a list, each as long as it is, with a picture of one pixel."""

    def __init__(self, name: str, media: Media) -> None:
        known = [sound for sound in lists.sounds().values() if sound.list == name]
        super().__init__(table("sounds", name), [Row(sound.name, sound.label) for sound in known])
        self._media = media

    def read(self, index: int, rate: int, seconds: float, draw: int = 0) -> Clip:
        name = self.rows[index].id
        wave = self._media.sound(name, rate)
        return Clip(name, np.zeros((3, 1, 1), np.uint8), wave, rate, len(wave) / rate / 2)


def plan(names: Sequence[str], media: Media, settings: Settings, limit: int = 0) -> Plan:
    """What to pack for these lists; `limit` is how many photos of each, while sounds are always packed all.

    Boxes are looked at first, so that lists and boxes that do not belong together are told before any work.
    """
    boxes = media.boxes()
    for split, name in LISTS.items():
        if name in names:
            rows_of(split, pairs_of(split), boxes, media.where)
    settings = replace(settings, seconds=LENGTH)
    parts = []
    for name in names:
        photos: ClipSet = Photos(name, media, settings.size)
        photos = Limited(photos, limit) if limit else photos
        sounds = Sounds(name, media)
        parts += [Part(photos.name, photos, settings, limit), Part(sounds.name, sounds, settings)]

    def texts() -> dict[str, str]:
        rows = [(*key, *map(repr, box)) for key in sorted(boxes) for box in sorted(boxes[key])]
        found = {f"{FOLDER}/{BOXES}": _csv(COLUMNS, rows)}
        for name in names:
            found[f"{FOLDER}/used_{name}.csv"] = _csv(("file", "bytes", "sha256"), _used(name, media))
        return found

    return Plan(tuple(parts), texts)


def _used(name: str, media: Media) -> Iterator[tuple[str, str, str]]:
    """Every file behind a list's tables: its name with the folder it lies in, its size and its hash."""
    photos = [media.photo_file(photo) for photo in lists.photos(name)]
    sounds = [media.sound_file(sound.name) for sound in lists.sounds().values() if sound.list == name]
    for path in (*lists.files(), *media.lists(), *photos, *sounds):
        if path is not None and path.is_file():
            with path.open("rb") as file:
                sha256 = hashlib.file_digest(file, "sha256").hexdigest()
            yield f"{path.parent.name}/{path.name}", str(path.stat().st_size), sha256


def _csv(header: Sequence[str], rows: Iterable[tuple[str, ...]]) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([header, *rows])
    return text.getvalue()
