"""Flickr-SoundNet: 250 clips with boxes by three people each, its extended version, and training lists.

Splits: `test` (250 positives), `extended` (these and 250 negatives), `10k` and `144k` (10,000 and 144,000 clips for
training, without boxes), `supervised` (4750 more with boxes), and `semi` for semi-supervised training: the clips of
`10k`, then those of `supervised`, each once, with boxes for the latter (13 clips are in both). The published list
decides which clips are tested; papers have used 249 and 250 of them. The classes are not known, so the kind of the
negatives is "unknown", unless a list of the user's own has a column `kind`.

The boxes are XML files, one a clip: DATA/Annotations/ID.xml (annotations, xml), beside frames/ and audio/. A pixel has
full weight where at least two boxes cover it, half where one does. The 10k list holds one of the test clips, the 144k
list 20, and the annotated training clips none.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from earsight.data.boxes import read_boxes_xml
from earsight.data.clips import ClipSet
from earsight.data.layout import Layout, Listed
from earsight.data.lists import check_rows, find, negative_rows, read_ids, read_pairs, some
from earsight.errors import DataError
from earsight.types import POSITIVE, Box, Row

SPLITS = ("10k", "144k", "supervised", "semi", "test", "extended")
DEFAULTS = {"train": "144k", "val": "", "test": "extended"}
TESTS = ("flickr_soundnet:test",)
"""Test sets that share their source with this one."""
CONSENSUS = 2
"""Boxes that must cover a pixel for full weight."""
_LISTS = {
    "10k": "flickr_10k.txt",
    "144k": "flickr_144k.txt",
    "supervised": "flickr_sup_train.txt",
    "semi": "flickr_10k.txt",
    "test": "flickr_test.csv",
    "extended": "flickr_test.csv",
}
_ANNOTATED = {"semi": "flickr_sup_train.txt"} | {split: _LISTS[split] for split in ("supervised", "test", "extended")}
"""The list whose clips have boxes, for the splits that have any."""
_NEGATIVES = "flickr_test_plus_silent.csv"
_INSIDE = ("flickr_soundnet", "flickr")
_ANNOTATIONS = ("Annotations", "annotations", "xml")


def open(split: str, data: Path | None) -> ClipSet:
    """The clips of `split`, with their media in `data`, and their boxes too where the split has any."""
    layout = Layout(data, _INSIDE)
    boxes = _boxes(split, read_ids(find(_ANNOTATED[split], data)), layout) if split in _ANNOTATED else {}
    rows: Sequence[Row] = [
        Row(id, "", POSITIVE, boxes[id], CONSENSUS) if id in boxes else Row(id) for id in _positives(split, data)
    ]
    if split == "extended":
        rows = check_rows([*rows, *_negatives(data)], "flickr_soundnet:extended")
    return Listed(f"flickr_soundnet:{split}", rows, layout)


def ids(split: str, data: Path | None) -> list[str]:
    """The ids of a split, from the lists alone: no boxes are needed."""
    listed = _positives(split, data)
    return listed + [row.id for row in _negatives(data)] if split == "extended" else listed


def video_of(id: str) -> str:
    """The Flickr video of a clip, which is its id; of a pair, the video that is seen.

    >>> video_of("10000130166"), video_of("10000130166+10437048305")
    ('10000130166', '10000130166')
    """
    return id.partition("+")[0]


def _positives(split: str, data: Path | None) -> list[str]:
    lists = dict.fromkeys((_LISTS[split], _ANNOTATED.get(split, _LISTS[split])))
    return list(dict.fromkeys(id for name in lists for id in read_ids(find(name, data))))


def _negatives(data: Path | None) -> list[Row]:
    return negative_rows(read_pairs(find(_NEGATIVES, data)), lambda id: "")


def _boxes(split: str, listed: list[str], layout: Layout) -> dict[str, tuple[Box, ...]]:
    """The boxes of every clip that is listed."""
    if layout.root is None:
        raise DataError(
            f"Expected the folder of Flickr-SoundNet, whose {_ANNOTATIONS[0]}/ID.xml hold the boxes of "
            f"flickr_soundnet:{split}, but got none. Pass --data DIR."
        )
    folders = [base / name for base in layout.bases() for name in _ANNOTATIONS if (base / name).is_dir()]
    places = {id: [folder / f"{id}.xml" for folder in folders] for id in listed}
    files = {id: next((path for path in paths if path.is_file()), None) for id, paths in places.items()}
    missing = [id for id, path in files.items() if path is None]
    if missing:
        raise DataError(
            f"Expected boxes for the {len(listed)} clips of flickr_soundnet:{split} in "
            f"{layout.root / _ANNOTATIONS[0]}/ID.xml, but got none for {len(missing)}: {some(missing)}. Put the XML "
            f"files of Flickr-SoundNet there; to do without some clips, take them out of a {_ANNOTATED[split]} of your "
            f"own in {layout.root}."
        )
    boxes = {id: read_boxes_xml(path) for id, path in files.items() if path is not None}
    if not any(boxes.values()):
        raise DataError(
            f"Expected bbox nodes in the XML files of {folders[0]}, but got none in {len(boxes)} files. "
            "Check that these are the annotations of Flickr-SoundNet."
        )
    return boxes
