"""Categories of training clips, from their classes or from the files of a tagger.

Labels come in two shapes: int64 (N,), one category a clip and -1 where there is none, or float32 (N, K), how likely
each category is. Nothing is guessed: a clip or a class that a source does not know ends the command.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import one_hot

from earsight.data.files import read_columns, read_npz, read_table
from earsight.data.lists import some
from earsight.errors import DataError, UsageError
from earsight.types import F32, Row


class Tagged(NamedTuple):
    """What a tagger's file says: ids, names of the K categories, and values (n, K) of sounds and of pictures."""

    ids: list[str]
    names: list[str]
    audio: F32
    picture: F32


def targets(labels: Tensor, index: Tensor, categories: int) -> Tensor:
    """What the clips at `index` (B,) of the training list should be called: float32 (B, K). No label gives zeros.

    >>> targets(torch.tensor([1, 0, -1]), torch.tensor([0, 2]), 2).tolist()
    [[0.0, 1.0], [0.0, 0.0]]
    """
    chosen = labels[index]
    if chosen.is_floating_point():
        return chosen
    return one_hot(chosen + 1, categories + 1)[:, 1:].float()


def from_classes(rows: Sequence[Row], categories: int, groups: str = "") -> Tensor:
    """Each clip's class as its category, int64 (N,), in the order of the alphabet.

    `groups` is a csv file with the columns class and category; its categories then count in the order of the file.
    """
    unknown = [row.id for row in rows if not row.label]
    if unknown:
        raise DataError(
            f"Expected a class for every training clip, but got none for {len(unknown)} of {len(rows)} "
            f"({some(unknown)}). Train on a list with classes, or use --method.labels clusters or file."
        )
    classes = sorted({row.label for row in rows})
    if groups:
        number = _grouped(Path(groups), classes, categories)
    else:
        # A part of the list may lack some classes, so fewer are no mistake.
        if len(classes) > categories:
            raise UsageError(
                f"Expected at most {categories} classes in the training list, but got {len(classes)}. Set "
                f"--method.categories {len(classes)}, or name a csv file class,category with --method.class-groups."
            )
        number = {name: at for at, name in enumerate(classes)}
    return torch.tensor([number[row.label] for row in rows])


def from_files(rows: Sequence[Row], categories: int, sounds: str, pictures: str) -> tuple[Tensor, Tensor]:
    """Labels of sounds and of pictures, float32 (N, K) each, as taggers gave them.

    Either name may be empty: the other file then speaks for both.
    """
    if not sounds and not pictures:
        raise UsageError(
            "Expected a tagger's file for --method.labels file, but got none. Name one with --method.sound-labels or "
            "--method.picture-labels, or use --method.labels clusters or classes."
        )
    first = read_tagged(Path(sounds or pictures))
    second = first if not sounds or not pictures else read_tagged(Path(pictures))
    if first.names != second.names:
        raise DataError(
            f"Expected the same categories in {sounds} and {pictures}, but got {some(first.names)} and "
            f"{some(second.names)}. Give both files the same columns in the same order."
        )
    if len(first.names) != categories:
        raise UsageError(
            f"Expected {categories} categories in {sounds or pictures}, but got {len(first.names)}. "
            f"Set --method.categories {len(first.names)}, or name another file."
        )
    return (
        _of_rows(rows, first.ids, first.audio, sounds or pictures),
        _of_rows(rows, second.ids, second.picture, pictures or sounds),
    )


def read_tagged(path: Path) -> Tagged:
    """A csv file with the column id and one a category, or an .npz with ids, names, and audio or picture or both."""
    found = _npz(path) if path.suffix == ".npz" else _csv(path)
    for what, names in (("id", found.ids), ("category", found.names)):
        twice = [name for name, count in Counter(names).items() if count > 1]
        if twice:
            raise DataError(
                f"Expected every {what} once in {path}, but got {some(twice)} again. Leave all but one out."
            )
    for values in (found.audio, found.picture):
        strange = values[~((values >= 0) & (values <= 1))]  # NaN is neither
        if strange.size:
            raise DataError(
                f"Expected probabilities between 0 and 1 in {path}, but got {strange[0]:g}. Save what comes after the "
                "tagger's sigmoid or softmax."
            )
    return found


def _grouped(path: Path, classes: list[str], categories: int) -> dict[str, int]:
    given: dict[str, str] = {}
    for where, line in read_columns(path, ("class", "category")):
        name, category = line["class"], line["category"]
        if not name or not category or name in given:
            raise DataError(
                f"Expected one category for one class in {where}, but got {name or 'no class'}, "
                f"{category or 'no category'}{' again' if name in given else ''}. Correct that line."
            )
        given[name] = category
    names = list(dict.fromkeys(given.values()))
    if len(names) != categories:
        raise UsageError(
            f"Expected {categories} categories in {path}, but got {len(names)}. Set --method.categories {len(names)}, "
            "or name another file."
        )
    missing = [name for name in classes if name not in given]
    if missing:
        raise DataError(
            f"Expected a category for every class of the training list in {path}, but got none for {some(missing)}. "
            "Add a line for each."
        )
    return {name: names.index(category) for name, category in given.items()}


def _csv(path: Path) -> Tagged:
    (_, header), *below = read_table(path) or [(1, list[str]())]
    if header[:1] != ["id"] or len(header) < 2:
        raise DataError(
            f"Expected id and a column for each category in {path}, but got {','.join(header)[:80] or 'nothing'}. "
            "Add the first line, for example id,human,animal,music."
        )
    values = np.empty((len(below), len(header) - 1), dtype=np.float32)
    for row, (number, line) in enumerate(below):
        try:
            values[row] = [float(value) for _, value in zip(header[1:], line[1:], strict=True)]
        except ValueError as error:  # a word, or too few or too many numbers
            raise DataError(
                f"Expected {len(header) - 1} numbers in {path}, line {number}, but got {','.join(line[1:])[:80]}. "
                "Correct that line."
            ) from error
    return Tagged([line[0] for _, line in below], header[1:], values, values)


def _npz(path: Path) -> Tagged:
    try:
        found = read_npz(path, ("ids", "names", "audio", "picture"))
    except ValueError as error:
        raise DataError(
            f"Expected {path} to be an .npz file of plain arrays, but got: {error}. Save it with "
            "np.savez(FILE, ids=ids, names=names, audio=values)."
        ) from error
    values = {name: found[name] for name in ("audio", "picture") if name in found}
    if not {"ids", "names"} <= set(found) or not values:
        raise DataError(
            f"Expected the arrays ids, names, and audio or picture in {path}, but got {', '.join(found) or 'none'}. "
            "Save it with np.savez(FILE, ids=ids, names=names, audio=values)."
        )
    shape = (found["ids"].size, found["names"].size)
    for name, array in values.items():
        if array.shape != shape or array.dtype.kind not in "fiu":
            raise DataError(
                f"Expected numbers {shape} as {name} in {path}, one row an id and one column a name, but got "
                f"{array.dtype} {array.shape}. Save them so."
            )
    ids, names = ([str(value) for value in found[name].ravel()] for name in ("ids", "names"))
    either = next(iter(values.values()))
    return Tagged(ids, names, *(values.get(name, either).astype(np.float32) for name in ("audio", "picture")))


def _of_rows(rows: Sequence[Row], ids: list[str], values: F32, path: str) -> Tensor:
    place = {id: at for at, id in enumerate(ids)}
    missing = [row.id for row in rows if row.id not in place]
    if missing:
        raise DataError(
            f"Expected labels of every training clip in {path}, but got none for {len(missing)} of {len(rows)} "
            f"({some(missing)}). Run the tagger on these too, or train on a list without them."
        )
    return torch.from_numpy(values[[place[row.id] for row in rows]])
