"""What `earsight data prepare` does for a set: the lists of clips to pack, and small files to write beside them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from earsight.data.clips import ClipSet
from earsight.data.manifest import Settings


class Part(NamedTuple):
    """Clips that become one folder of a pack.

    Args:
        spec: the "set:split" it is opened by.
        clips: what is packed.
        settings: how.
        limit: to how many clips the list was cut; 0 for all.
    """

    spec: str
    clips: ClipSet
    settings: Settings
    limit: int = 0


def nothing() -> dict[str, str]:
    return {}


@dataclass(frozen=True)
class Plan:
    """The parts of a pack, and texts by their path in it, which are asked for once all parts are packed.

    A set whose pictures and sounds are packed apart defines `plan(split, settings, *, data, coco, esc50, limit)` and
    `tables(split, pack)`, the folders that a split is read from, in its file, and opens its packs itself.
    """

    parts: tuple[Part, ...]
    texts: Callable[[], dict[str, str]] = nothing
