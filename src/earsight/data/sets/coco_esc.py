"""COCO photos with ESC-50 sounds, paired by class: eleven classes, human boxes, and negatives that are certain.

Splits: `train`, `train_all`, `val`, `single`, `multi`, `test`, `extended` and `interactive` (data/coco/lists.py says
what each holds). The lists come with earsight; photos, sounds and boxes do not. `data` is a pack that

    earsight data prepare coco_esc --coco DIR --esc50 DIR --out PACK

made from the published COCO and ESC-50, or a folder with images/PHOTO.jpg, audio/SOUND.ogg and boxes.csv, with columns
image, cls, xc, yc, w, h. A folder's own pair lists must be the ones that earsight has.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from earsight.data.boxes import number, read_boxes
from earsight.data.clips import ClipSet
from earsight.data.coco import lists
from earsight.data.coco.lists import LENGTH, WINDOW, Boxes, name_of, pairs_of, rows_of
from earsight.data.files import read_columns
from earsight.data.manifest import Plan, Settings, is_pack
from earsight.data.pairs import FileTable, PairSet, packed_tables, parts, table_folders, table_names
from earsight.errors import DataError, UsageError
from earsight.files import csv_text, sha256
from earsight.types import Row

SPLITS = tuple(lists.SPLITS)
DEFAULTS = {"train": "train", "val": "val", "test": "extended"}
TESTS = ("coco_esc:extended",)
"""Test sets that share their source with this one."""
BOXES = "boxes.csv"
_KINDS = {"neg_offscreen": "offscreen", "neg_image": "no_object", "neg_image_ambient": "ambience"}
"""How folders call the kinds of negatives."""


def open(split: str, data: Path | None) -> ClipSet:
    """The pairs of `split`, from a pack or from a folder."""
    if data is None:
        raise UsageError(
            "Expected the folder of coco_esc, but got none. Pass --data DIR with images/, audio/ and boxes.csv, or "
            "make a pack: earsight data prepare coco_esc --coco DIR --esc50 DIR --out PACK"
        )
    chosen, name = pairs_of(split), lists.SPLITS[split]
    if is_pack(data):
        tables = packed_tables(data, "coco_esc", name, "--coco DIR --esc50 DIR")
        photos, boxes = {row.id for row in tables[0].rows}, data / "coco_esc" / BOXES
        there = [pair for pair in chosen if pair.photo in photos]
        limited = len(photos) < len(lists.photos(name))
        if not there or (len(there) < len(chosen) and not limited):
            raise DataError(
                f"Expected the photos of coco_esc:{split} in the pack {data}, but got {len(there)} of {len(chosen)}. "
                "Prepare it again with --force, and without --limit."
            )
    else:
        tables, boxes, there = _tables(name, *_folders(data, [name])), data / BOXES, chosen
    rows = rows_of(split, there, _boxes_in(boxes, packed=is_pack(data)), str(boxes))
    choose = lists.sound_of_visit if lists.is_training(split) else None
    listed = [(pair.sound, pair.start) for pair in there]
    return PairSet(f"coco_esc:{split}", rows, listed, tables, (LENGTH, WINDOW), choose)


def ids(split: str, data: Path | None) -> list[str]:
    """The ids of a split, from the lists alone."""
    return [name_of(pair, lists.is_training(split)) for pair in pairs_of(split)]


def video_of(id: str) -> str:
    """The photo of a clip.

    >>> video_of("000000000042+4-191687-A-0@0.22")
    '000000000042'
    """
    return id.partition("+")[0]


Folders = tuple[list[Path], list[Path]]
"""In which photos, and sounds, are looked for."""


def _folders(root: Path, names: Sequence[str]) -> Folders:
    """Those of a folder of media, whose pair lists must be those of earsight."""
    if not root.is_dir():
        raise DataError(
            f"Expected a folder with images/, audio/ and {BOXES}, but got {root}, which is none. Check --data."
        )
    for name in names:
        if (root / f"pairs_{name}.csv").is_file():
            _check_pairs(root / f"pairs_{name}.csv", name)
    return [root / "images"], [root / "audio"]


def _tables(name: str, photos: Sequence[Path], sounds: Sequence[Path], side: int = 0) -> tuple[FileTable, FileTable]:
    """The photos and sounds of a list as files; photos as squares where they are to be packed."""
    of_photos, of_sounds = table_names("coco_esc", name)
    listed = [Row(sound.name, sound.label) for sound in lists.sounds().values() if sound.list == name]
    return (
        FileTable(of_photos, [Row(photo) for photo in lists.photos(name)], photos, side),
        FileTable(of_sounds, listed, sounds),
    )


def _check_pairs(path: Path, name: str) -> None:
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
    known = [(pair.photo, pair.sound, pair.start, pair.label, pair.kind) for pair in lists.pairs(name)]
    if sorted(there) != sorted(known):
        others = sorted(set(there) - set(known))
        got = f"{len(there)} pairs, {len(others)} of them others" + (f" (first {others[0]})" if others else "")
        raise DataError(
            f"Expected {path} to be the list of coco_esc, {len(known)} pairs, but got {got}. "
            "Remove it, or use --on folder for pairs of your own."
        )


def _boxes_in(path: Path, *, packed: bool = False) -> Boxes:
    """The boxes of a folder or of a pack by photo and class."""
    if not path.is_file() and packed:
        raise DataError(f"Expected {path}, but got none: the pack is not finished. Run earsight data prepare again.")
    if not path.is_file():
        raise DataError(
            f"Expected {path.name} with columns image, cls, xc, yc, w, h, but got none in {path.parent}. Give the "
            "folder with images/, audio/ and boxes.csv, or a pack made by earsight data prepare coco_esc."
        )
    found = read_boxes(path, corners=packed)
    return {(Path(image).stem, label): boxes for (image, label), boxes in sorted(found.items())}


def tables(split: str, pack: Path) -> list[Path]:
    """The folders of a pack that a split is read from."""
    return table_folders(pack, "coco_esc", lists.SPLITS[split])


def plan(
    split: str, settings: Settings, *, data: Path | None, coco: Path | None, esc50: Path | None, limit: int = 0
) -> Plan:
    """How to pack the list of a split, or with an empty split all three, from the published folders or from one.

    Boxes are read first, so that lists and boxes that do not belong together are refused before any work.
    """
    names = [lists.SPLITS[split]] if split else list(lists.FOLDS)
    if data is not None:
        if coco is not None or esc50 is not None:
            raise UsageError("Expected --data, or --coco and --esc50, but got both. Leave one out.")
        if is_pack(data):
            raise UsageError(f"Expected a folder of coco_esc, but got the pack {data}. Prepare from the files.")
        folders, used = _folders(data, names), [data / BOXES]
        boxes = _boxes_in(data / BOXES)
    elif coco is None or esc50 is None:
        got = "neither" if coco is None and esc50 is None else "no --coco" if coco is None else "no --esc50"
        raise UsageError(
            f"Expected --coco DIR and --esc50 DIR, the folders of COCO and ESC-50, but got {got}. Name both, or give "
            "--data DIR with images/, audio/ and boxes.csv."
        )
    else:
        from earsight.data.coco.published import read_published

        boxes, used = read_published(coco, esc50)
        folders = [coco / "train2017", coco / "val2017"], [esc50 / "audio"]
    for one, name in lists.SPLITS.items():
        if name in names:
            rows_of(one, pairs_of(one), boxes, str(used[0]))
    settings = replace(settings, seconds=LENGTH)
    tables = {name: _tables(name, *folders, settings.size) for name in names}

    def texts() -> dict[str, str]:
        lines = [(*key, *map(repr, box)) for key in sorted(boxes) for box in sorted(boxes[key])]
        found = {f"coco_esc/{BOXES}": csv_text(("image", "cls", "x0", "y0", "x1", "y1"), lines)}
        for name in names:
            found[f"coco_esc/used_{name}.csv"] = csv_text(("file", "bytes", "sha256"), _used(tables[name], used))
        return found

    return Plan(tuple(part for name in names for part in parts(tables[name], settings, limit)), texts)


def _used(tables: Sequence[FileTable], lists_used: Sequence[Path]) -> Iterator[tuple[str, str, str]]:
    """Every file behind two tables: its name with the folder it lies in, its size and its hash."""
    media = (table.find(row.id) for table in tables for row in table.rows)
    for path in (*lists.files(), *lists_used, *media):
        if path is not None and path.is_file():
            yield f"{path.parent.name}/{path.name}", str(path.stat().st_size), sha256(path)
