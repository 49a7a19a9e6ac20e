"""COCO and ESC-50 as they are published, held against the lists: what is not as listed is told, not used.

    COCO/annotations/instances_train2017.json   and, if there, instances_val2017.json
    COCO/train2017/000000000042.jpg             or COCO/val2017/...
    ESC50/meta/esc50.csv                        columns filename, fold, category
    ESC50/audio/1-100032-A-0.wav

Boxes are those of every annotation, regions of a crowd included: what is there counts as there.
"""

from __future__ import annotations

import math
from collections import defaultdict
from functools import cached_property
from pathlib import Path
from typing import Any

from earsight.data.coco.instances import items
from earsight.data.coco.lists import CLASSES, FOLDS, LENGTH, SEEN, pairs, photos, sounds
from earsight.data.coco.splits import Boxes
from earsight.data.files import read_columns
from earsight.data.lists import some
from earsight.errors import DataError, MediaError
from earsight.types import F32, U8, Box

YEARS = ("train2017", "val2017")


class Official:
    """Photos and boxes from COCO's folder, sounds from ESC-50's."""

    def __init__(self, coco: Path, esc50: Path) -> None:
        self.coco, self.esc50 = coco, esc50
        need_folder(coco, "COCO", "--coco", "annotations")
        need_folder(esc50, "ESC-50", "--esc50", "meta")
        self._check_sounds()

    @property
    def where(self) -> str:
        return ", ".join(str(path) for path in self._annotations)

    def boxes(self) -> Boxes:
        return self._boxes

    def photo(self, name: str) -> U8:
        from earsight.media.read import read_image

        found = self.photo_file(name)
        if found is None:
            places = " or ".join(str(self.coco / year / f"{name}.jpg") for year in YEARS)
            raise MediaError(name, "has no picture.", f"Expected {places}.")
        return read_image(found)

    def sound(self, name: str, rate: int, start: float = 0.0, seconds: float = LENGTH) -> F32:
        from earsight.media.read import read_audio

        return read_audio(self.esc50 / "audio" / f"{name}.wav", rate, start, seconds)

    def photo_file(self, name: str) -> Path | None:
        paths = (self.coco / year / f"{name}.jpg" for year in YEARS)
        return next((path for path in paths if path.is_file()), None)

    def sound_file(self, name: str) -> Path | None:
        path = self.esc50 / "audio" / f"{name}.wav"
        return path if path.is_file() else None

    def lists(self) -> list[Path]:
        return [*self._annotations, self.esc50 / "meta" / "esc50.csv"]

    @cached_property
    def _annotations(self) -> list[Path]:
        paths = [self.coco / "annotations" / f"instances_{year}.json" for year in YEARS]
        there = [path for path in paths if path.is_file()]
        if not there:
            raise DataError(
                f"Expected {paths[0].name} in {paths[0].parent}, but got none. Unpack COCO's "
                "annotations_trainval2017.zip there."
            )
        return there

    @cached_property
    def _boxes(self) -> Boxes:
        wanted = {int(name): name for group in FOLDS for name in photos(group)}
        sizes: dict[str, tuple[float, float]] = {}
        marked: list[tuple[str, int, Any, Path]] = []
        labels: dict[int, str] = {}
        for path in self._annotations:
            for part, item in items(path, ("images", "annotations", "categories")):
                try:
                    if part == "images" and item["id"] in wanted:
                        sizes[wanted[item["id"]]] = float(item["width"]), float(item["height"])
                    elif part == "categories":
                        labels[int(item["id"])] = str(item["name"])
                    elif part == "annotations" and item["image_id"] in wanted:
                        marked.append((wanted[item["image_id"]], int(item["category_id"]), item["bbox"], path))
                except (KeyError, TypeError, ValueError, OverflowError) as error:
                    raise _odd(path, part, item) from error
        missing = [name for name in wanted.values() if name not in sizes]
        if missing:
            raise DataError(
                f"Expected every photo of the lists in {self.where}, but got none for {len(missing)} of {len(wanted)}: "
                f"{some(missing)}. Use COCO's own instances_train2017.json."
            )
        found = defaultdict[tuple[str, str], list[Box]](list)
        for photo, category, box, path in marked:
            label = labels.get(category, "")
            where = _fractions(box, sizes[photo], path) if label in CLASSES else None
            if where is not None:
                found[photo, label].append(where)
        _check_negatives(found, self.where)
        return dict(found)

    def _check_sounds(self) -> None:
        path = self.esc50 / "meta" / "esc50.csv"
        there = {line["filename"]: line for _, line in read_columns(path, ("filename", "fold", "category"))}
        wrong = []
        for sound in sounds().values():
            line = there.get(f"{sound.name}.wav", {"fold": "", "category": ""})
            if line["category"] != sound.category or line["fold"] not in FOLDS[sound.list]:
                wrong.append(sound.name)
        if wrong:
            raise DataError(
                f"Expected every sound of the lists in {path} with its category and fold, but got others for "
                f"{len(wrong)} of {len(sounds())}: {some(wrong)}. Use ESC-50's own esc50.csv."
            )


def need_folder(path: Path, what: str, flag: str, inside: str) -> None:
    """Refuse a folder that is not laid out as the one that is published."""
    if not (path / inside).is_dir():
        raise DataError(f"Expected the folder of {what}, with {inside}/ in it, but got {path}. Check {flag}.")


def _fractions(box: Any, size: tuple[float, float], path: Path) -> Box | None:
    """x, y, width, height in pixels -> x0, y0, x1, y1 as fractions, by way of a centre and sides of five decimals.

    Folders of this set write boxes like that, and so the same list comes out of either. None for a box that covers
    nothing.

    >>> _fractions([160, 120, 320, 240], (640, 480), Path("instances.json"))
    (0.25, 0.25, 0.75, 0.75)
    """
    try:
        x, y, w, h = (float(value) for value in box)
        width, height = size
        xc, yc, w, h = (round(v, 5) for v in ((x + w / 2) / width, (y + h / 2) / height, w / width, h / height))
    except (TypeError, ValueError, OverflowError, ZeroDivisionError) as error:
        raise _odd(path, "annotations", {"bbox": box}) from error
    if not all(math.isfinite(value) for value in (xc, yc, w, h)):
        raise _odd(path, "annotations", {"bbox": box})
    x0, y0, x1, y1 = (min(max(v, 0.0), 1.0) for v in (xc - w / 2, yc - h / 2, xc + w / 2, yc + h / 2))
    return (x0, y0, x1, y1) if x0 < x1 and y0 < y1 else None


def _check_negatives(boxes: Boxes, where: str) -> None:
    """Every negative must be one: what its sound is of, or all of the eleven classes, has no box in the photo."""
    wrong = []
    for pair in (pair for group in FOLDS for pair in pairs(group)):
        absent = (pair.label,) if pair.kind == "offscreen" else () if pair.kind in SEEN else tuple(CLASSES)
        wrong += [f"{pair.photo} ({label})" for label in absent if (pair.photo, label) in boxes]
    if wrong:
        raise DataError(
            f"Expected no box of what a negative must not show in {where}, but got some in {len(wrong)} places: "
            f"{some(wrong)}. Use COCO's own instances_train2017.json."
        )


def _odd(path: Path, part: str, item: object) -> DataError:
    return DataError(
        f"Expected {part} as COCO writes them in {path}, but got {str(item)[:80]}. Get the file again from COCO."
    )
