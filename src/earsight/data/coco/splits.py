"""The named splits of coco_esc: which pairs each has, as rows with ground truth.

- `train`: the 1342 training photos, each with the class that the list gives it. Every visit draws another training
  sound of that class and another window of it; visit 0 is the list's own.
- `train_all`: the same, with a clip for every class that can be seen in a photo.
- `val`: positives and negatives as listed, for selection and calibration.
- `single`: localization, one class in sight. `multi`: silent objects, of two or three classes in sight one sounds.
  `test`: both.
- `extended`: `test` and all negatives: offscreen, no_object, ambience, and 220 each of silence and noise, heard with
  photos that have a source in sight.
- `interactive`: photos with two or three classes in sight, once with the sound of each: the pairs of `multi`, listed
  photo by photo, on which the image-wise minimum (metrics/interactive.py) asks whether the map moves.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from earsight.data.coco.lists import LENGTH, SEEN, WINDOW, Pair, pairs
from earsight.data.lists import some
from earsight.errors import DataError
from earsight.types import POSITIVE, Box, Row

Boxes = Mapping[tuple[str, str], Sequence[Box]]
"""Boxes by photo and class."""
LISTS = {
    "train": "train",
    "train_all": "train",
    "val": "val",
    "single": "test",
    "multi": "test",
    "test": "test",
    "extended": "test",
    "interactive": "test",
}
"""The list that each split is made of."""
SILENCE, NOISE = "silence", "noise"
MADE = 220
"""Clips each of silence and of noise."""


def pairs_of(split: str) -> list[Pair]:
    """The pairs of a split; those of training name no sound beyond what visit 0 hears."""
    listed = pairs(LISTS[split])
    if split == "train_all":
        return [replace(pair, label=label) for pair in listed for label in pair.visible]
    if split in ("train", "val"):
        return list(listed)
    if split in SEEN:
        return [pair for pair in listed if pair.kind == split]
    if split == "interactive":
        return sorted((pair for pair in listed if pair.kind == "multi"), key=lambda pair: pair.photo)
    if split == "test":
        return [pair for pair in listed if pair.kind in SEEN]
    return [*listed, *_made(SILENCE, 0), *_made(NOISE, 1)]


def _made(kind: str, shift: int) -> list[Pair]:
    """Photos with a source in sight, spread over the list, with a sound that no one made."""
    seen = list(dict.fromkeys(pair.photo for pair in pairs("test") if pair.kind in SEEN))
    start = (LENGTH - WINDOW) / 2
    return [Pair(seen[(2 * i + shift) * len(seen) // (2 * MADE)], kind, start, "", kind) for i in range(MADE)]


def name_of(pair: Pair, training: bool) -> str:
    """The id of a pair: the photo, then the class in training, where sounds change, and else the sound."""
    if training:
        return f"{pair.photo}+{pair.label}"
    return f"{pair.photo}+{pair.sound}" + ("" if pair.kind in (SILENCE, NOISE) else f"@{pair.start}")


def rows_of(split: str, chosen: Sequence[Pair], boxes: Boxes, where: str) -> list[Row]:
    """What is known of these pairs, with the boxes of the photo's class; `where` says from where boxes came."""
    training = LISTS[split] == "train"
    rows = []
    for pair in chosen:
        seen = pair.kind in SEEN
        truth = tuple(sorted(boxes.get((pair.photo, pair.label), ()))) if seen else ()
        heard = "" if training else pair.sound
        kind = POSITIVE if seen else pair.kind
        rows.append(Row(name_of(pair, training), pair.label, kind, truth, 1, pair.photo, heard))
    bare = [row.id for row in rows if row.positive and not row.boxes]
    if bare:
        raise DataError(
            f"Expected boxes for every positive of coco_esc:{split} in {where}, but got none for {len(bare)} of "
            f"{sum(row.positive for row in rows)}: {some(bare)}. Use the boxes of COCO train2017, all of them."
        )
    return rows
