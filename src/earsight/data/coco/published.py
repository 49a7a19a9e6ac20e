"""COCO and ESC-50 as they are published, held against the lists: what is not as listed is an error.

    COCO/annotations/instances_train2017.json   and, if there, instances_val2017.json
    COCO/train2017/000000000042.jpg             or COCO/val2017/...
    ESC50/meta/esc50.csv                        columns filename, fold, category
    ESC50/audio/1-100032-A-0.wav

Boxes are those of every annotation, regions of a crowd included: what is there counts as there.
"""

from __future__ import annotations

import json
import math
from collections import defaultdict
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

from earsight.data.boxes import usable
from earsight.data.coco.lists import CLASSES, FOLDS, SEEN, Boxes, pairs, photos, sounds
from earsight.data.files import read_columns
from earsight.data.lists import some
from earsight.errors import DataError
from earsight.types import Box


def read_published(coco: Path, esc50: Path) -> tuple[Boxes, list[Path]]:
    """The boxes of the listed photos, and the files that say what is in both folders, which agree with the lists."""
    for path, what, flag, inside in ((coco, "COCO", "--coco", "annotations"), (esc50, "ESC-50", "--esc50", "meta")):
        if not (path / inside).is_dir():
            raise DataError(f"Expected the folder of {what}, with {inside}/ in it, but got {path}. Check {flag}.")
    check_sounds(esc50 / "meta" / "esc50.csv")
    paths = [coco / "annotations" / f"instances_{year}.json" for year in ("train2017", "val2017")]
    there = [path for path in paths if path.is_file()]
    if not there:
        raise DataError(
            f"Expected {paths[0].name} in {paths[0].parent}, but got none. Unpack COCO's "
            "annotations_trainval2017.zip there."
        )
    return read_boxes(there), [*there, esc50 / "meta" / "esc50.csv"]


def check_sounds(path: Path) -> None:
    """Refuse an esc50.csv that has a listed sound in another category or fold."""
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


def read_boxes(paths: list[Path]) -> Boxes:
    """The boxes of the listed photos in COCO's instances files, for the eleven classes."""
    wanted = {int(name): name for group in FOLDS for name in photos(group)}
    sizes: dict[str, tuple[float, float]] = {}
    marked: list[tuple[str, int, Any, Path]] = []
    labels: dict[int, str] = {}
    for path in paths:
        for part, item in _instances(path, wanted):
            try:
                if part == "images" and item["id"] in wanted:
                    sizes[wanted[item["id"]]] = float(item["width"]), float(item["height"])
                elif part == "categories":
                    labels[int(item["id"])] = str(item["name"])
                elif part == "annotations" and item["image_id"] in wanted:
                    marked.append((wanted[item["image_id"]], int(item["category_id"]), item["bbox"], path))
            except (KeyError, TypeError, ValueError, OverflowError) as error:
                raise _malformed(path, part, item) from error
    source = ", ".join(map(str, paths))
    missing = [name for name in wanted.values() if name not in sizes]
    if missing:
        raise DataError(
            f"Expected every photo of the lists in {source}, but got none for {len(missing)} of {len(wanted)}: "
            f"{some(missing)}. Use COCO's own instances_train2017.json."
        )
    found = defaultdict[tuple[str, str], list[Box]](list)
    for photo, category, bbox, path in marked:
        label = labels.get(category, "")
        box = _fractions(bbox, sizes[photo], path) if label in CLASSES else None
        if box is not None:
            found[photo, label].append(box)
    check_negatives(found, source)
    return dict(found)


def check_negatives(boxes: Boxes, source: str) -> None:
    """Every negative must be one: what its sound is of, or all of the eleven classes, has no box in the photo."""
    wrong = []
    for pair in (pair for group in FOLDS for pair in pairs(group)):
        absent = (pair.label,) if pair.kind == "offscreen" else () if pair.kind in SEEN else tuple(CLASSES)
        wrong += [f"{pair.photo} ({label})" for label in absent if (pair.photo, label) in boxes]
    if wrong:
        raise DataError(
            f"Expected no box of what a negative must not show in {source}, but got some in {len(wrong)} places: "
            f"{some(wrong)}. Use COCO's own instances_train2017.json."
        )


def _fractions(bbox: Any, size: tuple[float, float], path: Path) -> Box | None:
    """x, y, width, height in pixels -> x0, y0, x1, y1 as fractions, by way of a centre and sides of five decimals.

    Folders of this set write boxes like that, and so the same list comes out of either. None for a box that covers
    nothing.

    >>> _fractions([160, 120, 320, 240], (640, 480), Path("instances.json"))
    (0.25, 0.25, 0.75, 0.75)
    """
    try:
        x, y, w, h = (float(value) for value in bbox)
        width, height = size
        xc, yc, w, h = (round(v, 5) for v in ((x + w / 2) / width, (y + h / 2) / height, w / width, h / height))
    except (TypeError, ValueError, OverflowError, ZeroDivisionError) as error:
        raise _malformed(path, "annotations", {"bbox": bbox}) from error
    if not all(math.isfinite(value) for value in (xc, yc, w, h)):
        raise _malformed(path, "annotations", {"bbox": bbox})
    return usable((xc - w / 2, yc - h / 2, xc + w / 2, yc + h / 2))


def _malformed(path: Path, part: str, item: object) -> DataError:
    return DataError(
        f"Expected {part} as COCO writes them in {path}, but got {str(item)[:80]}. Get the file again from COCO."
    )


def _instances(path: Path, wanted: Collection[int]) -> Iterator[tuple[str, Any]]:
    """Each image, category and annotation of an instances file, as (part, item); annotations of the wanted images.

    What is not wanted is dropped as it is parsed: 448 MB of text would take gigabytes as Python values.
    """

    def keep(item: dict[str, Any]) -> dict[str, Any] | None:
        image = item.get("image_id")
        return None if isinstance(image, int) and image not in wanted else item

    try:
        values = json.loads(path.read_text(encoding="utf-8"), object_hook=keep)
        parts = {name: list(values[name]) for name in ("images", "categories", "annotations")}
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        reason = " ".join(str(error).split())[:120]
        raise DataError(
            f"Expected {path} to be an instances file of COCO, but got: {reason}. Get it again: it may be cut off."
        ) from error
    yield from ((name, item) for name, found in parts.items() for item in found if item is not None)
