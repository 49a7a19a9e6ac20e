"""COCO photos with ESC-50 sounds, paired by class: eleven classes, human boxes, and negatives that are certain.

Splits: `train`, `train_all`, `val`, `single`, `multi`, `test`, `extended` and `interactive` (data/coco/splits.py says
what each holds). The lists come with earsight; photos, sounds and boxes do not. `data` is a pack that

    earsight data prepare coco_esc --coco DIR --esc50 DIR --out PACK

made from the published COCO and ESC-50, or a folder with images/, audio/ and boxes.csv (data/coco/media.py).
"""

from __future__ import annotations

from pathlib import Path

from earsight.data.clips import ClipSet
from earsight.data.coco.media import Folder
from earsight.data.coco.packed import PackedPairs, Tables, folders
from earsight.data.coco.pairs import Pairs
from earsight.data.coco.splits import LISTS, name_of, pairs_of, rows_of
from earsight.data.manifest import Settings, is_pack
from earsight.data.plan import Plan
from earsight.errors import DataError, UsageError

SPLITS = tuple(LISTS)
DEFAULTS = {"train": "train", "val": "val", "test": "extended"}
TESTS = ("coco_esc:extended",)
"""Test sets that share their source with this one."""


def open(split: str, data: Path | None) -> ClipSet:
    """The pairs of `split`, from a pack or from a folder."""
    if data is None:
        raise UsageError(
            "Expected the folder of coco_esc, but got none. Pass --data DIR with images/, audio/ and boxes.csv, or "
            "make a pack: earsight data prepare coco_esc --coco DIR --esc50 DIR --out PACK"
        )
    chosen = pairs_of(split)
    if is_pack(data):
        tables = Tables(data, LISTS[split])
        there = [pair for pair in chosen if tables.has(pair)]
        if not there or (len(there) < len(chosen) and not tables.limited):
            raise DataError(
                f"Expected the photos of coco_esc:{split} in the pack {data}, but got {len(there)} of {len(chosen)}. "
                "Prepare it again with --force, and without --limit."
            )
        return PackedPairs(split, rows_of(split, there, tables.boxes(), tables.where), there, tables)
    folder = Folder(data)
    folder.need_own_lists(LISTS[split])
    return Pairs(split, rows_of(split, chosen, folder.boxes(), folder.where), chosen, folder)


def ids(split: str, data: Path | None) -> list[str]:
    """The ids of a split, from the lists alone."""
    return [name_of(pair, LISTS[split] == "train") for pair in pairs_of(split)]


def video_of(id: str) -> str:
    """The photo of a clip.

    >>> video_of("000000000042+4-191687-A-0@0.22")
    '000000000042'
    """
    return id.partition("+")[0]


def tables(split: str, pack: Path) -> list[Path]:
    """The folders of a pack that a split is read from."""
    return folders(pack, LISTS[split])


def plan(
    split: str, settings: Settings, *, data: Path | None, coco: Path | None, esc50: Path | None, limit: int = 0
) -> Plan:
    """How to pack the list of a split, or with an empty split all three, from the published folders or from one."""
    from earsight.data.coco.official import Official
    from earsight.data.coco.preparing import plan as planned

    names = [LISTS[split]] if split else list(dict.fromkeys(LISTS.values()))
    if data is not None:
        if coco is not None or esc50 is not None:
            raise UsageError("Expected --data, or --coco and --esc50, but got both. Leave one out.")
        if is_pack(data):
            raise UsageError(f"Expected a folder of coco_esc, but got the pack {data}. Prepare from the files.")
        folder = Folder(data)
        for name in names:
            folder.need_own_lists(name)
        return planned(names, folder, settings, limit)
    if coco is None or esc50 is None:
        got = "neither" if coco is None and esc50 is None else "no --coco" if coco is None else "no --esc50"
        raise UsageError(
            f"Expected --coco DIR and --esc50 DIR, the folders of COCO and ESC-50, but got {got}. Name both, or give "
            "--data DIR with images/, audio/ and boxes.csv."
        )
    return planned(names, Official(coco, esc50), settings, limit)
