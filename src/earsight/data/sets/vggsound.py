"""VGGSound for training: 144k, 10k, the 110 heard classes, or all of it; no boxes.

Splits: `144k` and `10k` (144,000 and 10,000 clips), `heard` (59,468 clips of the 110 classes of vggss:heard), and
`full`: the training rows of the vggsound.csv that its authors hand out, which the user puts into the data folder. The
published lists hold ids alone; the classes are known where that vggsound.csv is there too.

The 144k list holds 3709 of the 5158 test clips of VGG-SS: `earsight data audit vggsound:144k` writes clean lists.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from earsight.data.clips import ClipSet
from earsight.data.files import read_table
from earsight.data.layout import Layout, Listed
from earsight.data.lists import find, find_local, places, read_ids
from earsight.data.sets.vggss import video_of
from earsight.errors import DataError
from earsight.types import Row

__all__ = ["DEFAULTS", "SPLITS", "TESTS", "ids", "open", "video_of"]

SPLITS = ("144k", "10k", "heard", "full")
DEFAULTS = {"train": "144k", "val": "", "test": ""}
TESTS = ("vggss:test",)
"""Test sets that share their source with this one."""
_LISTS = {"144k": "vggss_144k.txt", "10k": "vggss_10k.txt", "heard": "vggss_heard.txt"}
_TABLE = "vggsound.csv"


class _Line(NamedTuple):
    label: str
    train: bool


def open(split: str, data: Path | None) -> ClipSet:
    """The clips of `split`, with their media in `data`."""
    table = _table(data)
    rows = [Row(id, table[id].label if id in table else "") for id in _ids(split, data, table)]
    return Listed(f"vggsound:{split}", rows, Layout(data, ("vggsound",)))


def ids(split: str, data: Path | None) -> list[str]:
    """The ids of a split, from the lists alone."""
    return _ids(split, data, _table(data) if split == "full" else {})


def _ids(split: str, data: Path | None, table: dict[str, _Line]) -> list[str]:
    if split != "full":
        return read_ids(find(_LISTS[split], data))
    train = [id for id, line in table.items() if line.train]
    if not train:
        where = ", ".join(str(folder) for folder in places(data)) or "no folder (--data was not given)"
        raise DataError(
            f"Expected {_TABLE} with training rows (id,start,label,split) for vggsound:full, but got none in {where}. "
            "No address of it is known to work: ask the authors of VGGSound for it, and put it into the --data folder."
        )
    return train


def _table(data: Path | None) -> dict[str, _Line]:
    """Class and split of every clip in the user's vggsound.csv, by id; empty where there is none."""
    path = find_local(_TABLE, data)
    if path is None:
        return {}
    found: dict[str, _Line] = {}
    for number, values in read_table(path):
        where = f"{path}, line {number}"
        match values:
            case [video, start, label, "train" | "test" as split] if video and start.isdecimal():
                id, line = f"{video}_{int(start):06d}", _Line(label, split == "train")
            case _:
                raise DataError(
                    f"Expected id,start,label,split (train or test) in {where}, but got {','.join(values)[:80]}. "
                    f"Check that this is the {_TABLE} of VGGSound."
                )
        if found.setdefault(id, line) != line:
            raise DataError(f"Expected one class and split for {id}, but got another in {where}. Leave one line out.")
    return found
