"""Where the photos, sounds and boxes of coco_esc come from: a folder of files, or a pack of two tables.

A folder holds images/PHOTO.jpg (png), audio/SOUND.ogg (wav, flac, ...) and boxes.csv, with columns image, cls, xc, yc,
w, h. It may hold pair lists of its own, and these must then be the ones that earsight has.
"""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from typing import Protocol

from earsight.data.boxes_csv import number, read_boxes
from earsight.data.coco.lists import LENGTH, pairs
from earsight.data.coco.splits import Boxes
from earsight.data.files import read_columns
from earsight.errors import DataError, MediaError
from earsight.types import F32, U8, Box

BOXES = "boxes.csv"
PICTURES = ("jpg", "jpeg", "png")
SOUNDS = ("ogg", "wav", "flac", "mp3", "opus", "m4a", "aac")
_KINDS = {"neg_offscreen": "offscreen", "neg_image": "no_object", "neg_image_ambient": "ambience"}
"""How folders call the kinds of negatives."""


class Media(Protocol):
    """Photos and sounds by name, as files; reading them raises MediaError."""

    @property
    def where(self) -> str:
        """What to call the place in messages."""

    def boxes(self) -> Boxes: ...

    def photo(self, name: str) -> U8:
        """uint8 (3, H, W)."""

    def sound(self, name: str, rate: int, start: float = 0.0, seconds: float = LENGTH) -> F32:
        """float32 (S,)."""

    def photo_file(self, name: str) -> Path | None: ...

    def sound_file(self, name: str) -> Path | None: ...

    def lists(self) -> list[Path]:
        """Files beside photos and sounds that were used."""


class Folder:
    """Photos, sounds and boxes in one folder."""

    def __init__(self, root: Path) -> None:
        if not root.is_dir():
            raise DataError(
                f"Expected a folder with images/, audio/ and {BOXES}, but got {root}, which is none. Check --data."
            )
        self.root = root

    @property
    def where(self) -> str:
        return str(self.root / BOXES)

    def boxes(self) -> Boxes:
        return boxes_in(self.root / BOXES)

    def photo(self, name: str) -> U8:
        from earsight.media.read import read_image

        return read_image(self.photo_file(name) or self._refuse(name, "picture", "images", PICTURES))

    def sound(self, name: str, rate: int, start: float = 0.0, seconds: float = LENGTH) -> F32:
        from earsight.media.read import read_audio

        return read_audio(self.sound_file(name) or self._refuse(name, "sound", "audio", SOUNDS), rate, start, seconds)

    def photo_file(self, name: str) -> Path | None:
        return _first(self.root / "images", name, PICTURES)

    def sound_file(self, name: str) -> Path | None:
        return _first(self.root / "audio", name, SOUNDS)

    def lists(self) -> list[Path]:
        return [self.root / BOXES]

    def need_own_lists(self, name: str) -> None:
        """Refuse a folder whose pair list is another than the one that earsight has under that name."""
        path = self.root / f"pairs_{name}.csv"
        if not path.is_file():
            return
        there = [
            (
                Path(line["image"]).stem,
                Path(line["audio"]).stem,
                number(where, "start", line["start"], 0, LENGTH),
                line["cls"],
                _KINDS.get(line["kind"], line["kind"]),
            )
            for where, line in read_columns(path, ("image", "audio", "start", "cls", "kind"))
        ]
        known = [(pair.photo, pair.sound, pair.start, pair.label, pair.kind) for pair in pairs(name)]
        others = sorted(set(there) - set(known))
        if sorted(there) != sorted(known):
            got = f"{len(there)} pairs, {len(others)} of them others" + (f" (first {others[0]})" if others else "")
            raise DataError(
                f"Expected {path} to be the list of coco_esc, {len(pairs(name))} pairs, but got {got}. "
                "Remove it, or use --on folder for pairs of your own."
            )

    def _refuse(self, name: str, what: str, folder: str, endings: tuple[str, ...]) -> Path:
        raise MediaError(name, f"has no {what}.", f"Expected {name}.{{{','.join(endings)}}} in {self.root / folder}.")


def boxes_in(path: Path) -> Boxes:
    """The boxes of a csv file by photo and class."""
    if not path.is_file():
        raise DataError(
            f"Expected {path.name} with columns image, cls, xc, yc, w, h, but got none in {path.parent}. Give the "
            "folder with images/, audio/ and boxes.csv, or a pack made by earsight data prepare coco_esc."
        )
    found = defaultdict[tuple[str, str], list[Box]](list)
    for (image, label), boxes in read_boxes(path).items():
        found[Path(image).stem, label] += boxes
    return dict(found)


def _first(folder: Path, name: str, endings: tuple[str, ...]) -> Path | None:
    paths = (folder / f"{name}.{ending}" for ending in endings)
    return next((path for path in paths if path.is_file()), None)
