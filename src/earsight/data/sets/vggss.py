"""VGG-SS: 5158 clips of VGGSound with boxes, and its extended version with as many negatives.

Splits: `test` (5158 positives), `extended` (these and 5158 negatives), `heard` and `unheard` (2564 and 2575 positives,
110 classes each; 19 clips of "singing choir" are in neither), and `heard_extended` and `unheard_extended`, which are
earsight's own: the positives with those negatives of the extended list whose picture is of the same 110 classes. A real
negative counts to the class of the VGG-SS clips that were cut from its video, and to neither side if there are none.

The lists are found or fetched by data/lists.py; the folder is laid out as data/layout.py says. Real negatives are
other moments of the videos and come with the published extended set only.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from earsight.data.clips import ClipSet
from earsight.data.layout import Layout, Listed
from earsight.data.lists import Annotated, check_rows, find, negative_rows, read_annotations, read_ids, read_pairs, some
from earsight.errors import DataError
from earsight.types import POSITIVE, Row

SPLITS = ("test", "extended", "heard", "unheard", "heard_extended", "unheard_extended")
DEFAULTS = {"train": "", "val": "", "test": "extended"}
TESTS = ("vggss:test",)
"""Test sets that share their source with this one."""
_LISTS = {"test": "vggss_test.csv", "heard": "vggss_heard_test.csv", "unheard": "vggss_unheard_test.csv"}
_NEGATIVES = "vggss_test_plus_silent.csv"


def open(split: str, data: Path | None) -> ClipSet:
    """The clips of `split`, with their media in `data`."""
    return Listed(f"vggss:{split}", _rows(split, data), Layout(data, ("vggss", "vggsound")))


def ids(split: str, data: Path | None) -> list[str]:
    """The ids of a split, from the lists alone."""
    return [row.id for row in _rows(split, data)]


def video_of(id: str) -> str:
    """The YouTube video that a clip was cut from; of a pair, the video that is seen.

    >>> video_of("zpWuikVorYg_000032"), video_of("a_b_000001+c_000002")
    ('zpWuikVorYg', 'a_b')
    """
    return re.sub(r"_\d{6}$", "", id.partition("+")[0])


def _rows(split: str, data: Path | None) -> Sequence[Row]:
    base = "test" if split == "extended" else split.removesuffix("_extended")
    path = find("vggss.json", data)
    annotations = read_annotations(path)
    listed = read_ids(find(_LISTS[base], data))
    bare = [id for id in listed if id not in annotations]
    if bare:
        raise DataError(
            f"Expected every clip of {_LISTS[base]} in {path}, but got none for {len(bare)} of {len(listed)}: "
            f"{some(bare)}. Use a vggss.json and a list that belong together."
        )
    rows = [Row(id, annotations[id].label, POSITIVE, annotations[id].boxes) for id in listed]
    if base == split:
        return rows
    return check_rows(rows + _negatives(rows if base != "test" else None, annotations, data), f"vggss:{split}")


def _negatives(of: list[Row] | None, annotations: dict[str, Annotated], data: Path | None) -> list[Row]:
    """The negatives of the extended list; with `of`, those whose picture is of a class that these rows have."""
    classes = {id: entry.label for id, entry in annotations.items()}
    pairs = read_pairs(find(_NEGATIVES, data))
    if of is not None:
        # No two VGG-SS clips of one video have different classes.
        videos = {video_of(id): label for id, label in classes.items()}
        wanted = {row.label for row in of}
        pairs = [pair for pair in pairs if (classes.get(pair.video) or videos.get(video_of(pair.video))) in wanted]
    return negative_rows(pairs, lambda id: classes.get(id, ""))
