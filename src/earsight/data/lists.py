"""The published lists of the field, found or fetched, and their parsers: ids, boxes, negatives.

The lists were published with SLAVC (VGG-SS by Chen et al. 2021). One is looked for in the data folder, in metadata/
inside it, in the folder $EARSIGHT_METADATA, and is else downloaded once. A list of the user's own is taken whatever its
hash: each parser sees to it that it is of the right kind, and says what is wrong, and where.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from earsight.data.boxes import usable
from earsight.data.files import read_columns, read_first, read_text
from earsight.errors import DataError, UsageError
from earsight.files import parse_json
from earsight.types import POSITIVE, Box, Row

BASE = "https://raw.githubusercontent.com/stoneMo/SLAVC/main/metadata/"
LISTS = {
    "flickr_10k.txt": "773429321cd7690710660446b4aab9157ef75fe9a1f6b788649989a8066a77b1",
    "flickr_144k.txt": "5368914670a8e41f27591a7d6818abe74132aefd199a2a3b1861aeafa2e20b99",
    "flickr_sup_train.txt": "af87c3a35d584d8792686fe8de5b21adaf331330b6e2b80c7d4998f60d4f9030",
    "flickr_test.csv": "e5c04bd722fc73a2daafcdafe9e10068d198c5df168300db4e05aa61b4ef71ed",
    "flickr_test_plus_silent.csv": "45a0d32b64a9ef9e567d3eaf4a4a29683cdb0f7f4e1924a0e26cde24fa298643",
    "vggss.json": "ae300b4a259267e6fe839970d495862edd70bfe3da63d925bcdb34054ed3b15e",
    "vggss_10k.txt": "9a19023b17aedc79001bbcb69ccd5c96f6af2f7b8ef1b12fa92a76050a0ae43e",
    "vggss_144k.txt": "a9a02f704e8bb2d746c43860e5830e7589e9311de5bd067459484ec5bb4bd529",
    "vggss_heard.txt": "db900e2df283236b3e5485ae95a4a09f0904f8da184fc7da6f1ab1d24f6c5aa2",
    "vggss_heard_test.csv": "70a01c6828e7b84531823616ebb2e32e75bbaf5e44c715fa366b61111ab33c4e",
    "vggss_test.csv": "971081929d45caf21a148a6ca968822d96e8316331d0cc0bafb1783acb4d2c35",
    "vggss_test_plus_silent.csv": "905a009428e16d1108e5af112d8e682dbe1702a2ed897b3d56753ff587018e4e",
    "vggss_unheard_test.csv": "11883813db359df63e1a28f69bb53e1ceef7f5b8d68e0149de5792540acb9e17",
}
"""File name and sha256 of every list that can be fetched."""
_LARGEST = 64 << 20
UNKNOWN = "unknown"
"""Kind of a negative where the classes of its picture and its sound are not both known."""
LABEL = "non-sounding"
"""What the published lists of negatives write in their column `label`."""
_ID = re.compile(r"\w[\w.-]*|-[\w.-]*")  # a file name without its ending; YouTube's ids may begin with "-"
_SHOWN = 5


class Annotated(NamedTuple):
    """Class and boxes of one clip. There may be no boxes left, where all of them were degenerate."""

    label: str
    boxes: tuple[Box, ...]


class Pair(NamedTuple):
    """One negative: the clips, or recordings, seen and heard, and its kind where that is known."""

    video: str
    audio: str
    kind: str = ""


def places(data: Path | None) -> list[Path]:
    """The folders in which a list of the user's own is looked for, first one first."""
    if data is not None and not data.is_dir():
        raise DataError(f"Expected the folder of the data, but got {data}, which is none. Check --data.")
    found = [] if data is None else [data, data / "metadata"]
    own = os.environ.get("EARSIGHT_METADATA")
    if own:
        folder = Path(own).expanduser()
        if not folder.is_dir():
            raise UsageError(
                f"Expected EARSIGHT_METADATA to name a folder of lists, but got {own}, which is none. "
                "Correct it, or take it out of the environment."
            )
        found.append(folder)
    return found


def find_local(name: str, data: Path | None) -> Path | None:
    """The list `name` on this machine, or None; nothing is downloaded."""
    return next((folder / name for folder in places(data) if (folder / name).is_file()), None)


def find(name: str, data: Path | None) -> Path:
    """The list `name`: the user's own where there is one, else the published one, fetched once."""
    local = find_local(name, data)
    if local is not None:
        return local
    from earsight import download  # and with it what speaks http, which most commands do without

    try:
        return download.fetch(BASE + name, LISTS[name], name, download.cache_folder() / "metadata", max_bytes=_LARGEST)
    except DataError as error:
        also = ", ".join(str(folder) for folder in places(data)) or "the --data folder"
        raise DataError(f"{error} A {name} in one of these is taken as well: {also}.") from error


def read_ids(path: Path) -> list[str]:
    """Ids of a list, one a line; of a csv file, the first column. Blank lines are skipped, repeats are refused.

    The second column of Flickr's list is not a class, whatever it looks like, and is not read.
    """
    ids: dict[str, int] = {}
    for number, id in read_first(path):
        _check_id(id, f"{path}, line {number}")
        if id in ids:
            raise DataError(
                f"Expected every id once in {path}, but got {id} in lines {ids[id]} and {number}. Remove one of them."
            )
        ids[id] = number
    if not ids:
        raise DataError(f"Expected at least one id in {path}, but got none. Get the file again.")
    return list(ids)


def read_annotations(path: Path) -> dict[str, Annotated]:
    """Classes and boxes of a vggss.json, by id: a list of {"file", "class", "bbox": [[x0, y0, x1, y1], ...]}.

    Coordinates are fractions. They are clipped to [0, 1], since some are -2.88e16, and boxes that are empty or inverted
    then are left out: they cover nothing in the published evaluation either.
    """
    try:
        entries: Any = parse_json(read_text(path))
    except ValueError as error:
        raise DataError(f"Expected {path} to be JSON, but got: {error}. Get the file again.") from error
    if not isinstance(entries, list) or not entries:
        raise _not_annotations(path, f"{type(entries).__name__} at the top" if entries else "nothing in it")
    found: dict[str, Annotated] = {}
    for number, entry in enumerate(entries, start=1):
        match entry:
            case {"file": str(id), "class": str(label), "bbox": list(raw)}:
                where = f"{path}, entry {number}"
                _check_id(id, where)
                boxes = (usable(_box(numbers, where)) for numbers in raw)
            case _:
                raise _not_annotations(path, f"{str(entry)[:60]} as entry {number}")
        if id in found:
            raise DataError(f"Expected every file once in {path}, but got {id} again as entry {number}. Remove it.")
        found[id] = Annotated(label, tuple(box for box in boxes if box is not None))
    return found


def read_pairs(path: Path, *, published: bool = True) -> list[Pair]:
    """Negatives of an extended set: csv with the columns video and audio, and perhaps label and kind.

    In a `published` list, ids are names of files, and a label must be "non-sounding"; a list of your own names clips
    as its set does, and labels them as it likes.
    """
    found: dict[tuple[str, str], Pair] = {}
    for where, line in read_columns(path, ("video", "audio")):
        pair = Pair(line["video"], line["audio"], line.get("kind", ""))
        if not (pair.video and pair.audio):
            raise DataError(
                f"Expected the two clips of a negative in {where}, but got '{pair.video}' and '{pair.audio}'. "
                "Correct that line."
            )
        label = line.get("label", LABEL) if published else LABEL
        if published:
            _check_id(pair.video, where)
            _check_id(pair.audio, where)
        if label != LABEL or pair.kind == POSITIVE:
            raise DataError(
                f"Expected negatives alone, labelled {LABEL}, but got {pair.kind if label == LABEL else label} in "
                f"{where}. Leave that line out."
            )
        if (pair.video, pair.audio) in found:
            raise DataError(
                f"Expected every pair once, but got {pair.video} with {pair.audio} again in {where}. Leave it out."
            )
        found[pair.video, pair.audio] = pair
    if not found:
        raise DataError(f"Expected at least one negative in {path}, but got none. Write it or get it again.")
    return list(found.values())


def kind_of(pair: Pair, seen: str, heard: str) -> str:
    """The kind a list gives, or what follows from the classes seen and heard ("" where a class is not known).

    real: one recording without a visible source. hard: picture and sound of one class. easy: of two classes.

    >>> kind_of(Pair("a", "a"), "", ""), kind_of(Pair("a", "b"), "dog", "cat"), kind_of(Pair("a", "b"), "dog", "")
    ('real', 'easy', 'unknown')
    """
    if pair.kind:
        return pair.kind
    if pair.video == pair.audio:
        return "real"
    if not seen or not heard:
        return UNKNOWN
    return "hard" if seen == heard else "easy"


def negative_rows(pairs: Iterable[Pair], class_of: Callable[[str], str]) -> list[Row]:
    """Rows of negatives: id VIDEO where that one recording is seen and heard, else VIDEO+AUDIO.

    The label is the class of the sound as `class_of` knows it. That of a real negative is left empty: it is another
    moment of some video, in which whatever the video is known for is not seen or not heard.
    """
    rows = []
    for pair in pairs:
        heard = class_of(pair.audio)
        kind = kind_of(pair, class_of(pair.video), heard)
        if pair.video == pair.audio:
            rows.append(Row(pair.video, "", kind))
        else:
            rows.append(Row(f"{pair.video}+{pair.audio}", heard, kind, picture=pair.video, sound=pair.audio))
    return rows


def check_rows(rows: Sequence[Row], where: str) -> Sequence[Row]:
    """The rows, refused when two have one name: a clip cannot be a positive and a real negative."""
    twice = [id for id, count in Counter(row.id for row in rows).items() if count > 1]
    if twice:
        raise DataError(
            f"Expected every clip of {where} once, but got {some(twice)} again: a positive cannot be a negative too. "
            "Correct the list of negatives."
        )
    return rows


def some(names: Sequence[str]) -> str:
    """The first few names, for messages."""
    return ", ".join(names[:_SHOWN]) + (f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else "")


def _check_id(id: str, where: str) -> None:
    # Ids become file names: nothing that could leave the data folder may pass.
    if not _ID.fullmatch(id) or len(id) > 128:
        raise DataError(
            f"Expected an id (letters, digits, '_', '-', '.') in {where}, but got '{id[:60]}'. "
            "Check that this is the right kind of file."
        )


def _box(numbers: object, where: str) -> Box:
    match numbers:
        case [int() | float(), int() | float(), int() | float(), int() | float()]:
            if all(value == value for value in numbers):  # not so for NaN
                return numbers[0], numbers[1], numbers[2], numbers[3]
    raise DataError(f"Expected a box of four numbers in {where}, but got {str(numbers)[:60]}. Correct it.")


def _not_annotations(path: Path, got: str) -> DataError:
    return DataError(
        f"Expected {path} to be a list of entries with file, class and bbox, but got {got}. "
        "Check that this is the vggss.json of VGG-SS."
    )
