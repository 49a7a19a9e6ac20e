"""The contact sheet: evenly spaced overlays of a video with their verdicts, above the confidence over time."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Generic, TypeVar

import numpy as np

from earsight.escape import brief
from earsight.localize.draw import drawn, words
from earsight.localize.files import write_file
from earsight.localize.pictured import small
from earsight.localize.seen import Seen
from earsight.localize.settings import Drawing
from earsight.localize.timeline import NOT_VISIBLE, SILENT, VISIBLE, Moment, Timeline
from earsight.protocols import Protocol
from earsight.types import U8

if TYPE_CHECKING:
    from matplotlib.axes import Axes

T = TypeVar("T")
TILES = 12
# On white paper the verdicts need darker inks than on a film frame.
_INK = {VISIBLE: "#1B9E5A", NOT_VISIBLE: "#D1422F", SILENT: "#7A7A7A"}
_THUMB = 360  # pixels of a picture's longer side
_TALLEST = 3.0  # times as high as wide is the room of a picture; a still higher one leaves room at its sides


class Thinned(Generic[T]):
    """Evenly spaced items out of a stream of unknown length, with at most six times as many held as wanted.

    >>> some = Thinned[int](3)
    >>> for i in range(100):
    ...     if some.wants():
    ...         some.keep(i)
    ...     some.step()
    >>> some.spaced()
    [0, 48, 96]
    """

    def __init__(self, wanted: int) -> None:
        self.wanted, self._most, self._stride, self._seen = wanted, 6 * wanted, 1, 0
        self._kept: list[T] = []

    def wants(self) -> bool:
        """Whether to keep the item that comes now."""
        return self._seen % self._stride == 0

    def keep(self, item: T) -> None:
        self._kept.append(item)

    def step(self) -> None:
        """On to the next item."""
        self._seen += 1
        if len(self._kept) > self._most:
            self._kept, self._stride = self._kept[::2], 2 * self._stride

    def all(self) -> list[T]:
        """Those held now."""
        return self._kept

    def spaced(self, good: Callable[[T], bool] = lambda item: True) -> list[T]:
        """Those wanted, out of the good ones."""
        kept = [item for item in self._kept if good(item)]
        return [kept[round(i)] for i in np.linspace(0, len(kept) - 1, min(self.wanted, len(kept)))]


@dataclass
class _Tile:
    place: int
    picture: U8
    seen: Seen | None = None


class Tiles:
    """The pictures of a sheet: frames are offered as they are read, and what was seen in them follows later.

    Args:
        aspect: how many times as wide as high a pixel of the frames is shown.
    """

    def __init__(self, aspect: float = 1.0) -> None:
        self._some = Thinned[_Tile](TILES)
        self._aspect = aspect
        self._offered = self._seen = 0

    def offer(self, frame: U8) -> None:
        """The next frame (3, H, W)."""
        if self._some.wants():
            self._some.keep(_Tile(self._offered, small(frame, _THUMB, self._aspect)))
        self._some.step()
        self._offered += 1

    def follow(self, seen: Seen) -> None:
        """What was seen in the next of the frames that were offered."""
        for tile in self._some.all():
            if tile.place == self._seen:
                tile.seen = seen
        self._seen += 1

    def drawn(self, protocol: Protocol, drawing: Drawing) -> list[tuple[Moment, U8]]:
        """Evenly spaced pictures with their answers; those of which nothing was seen before a stop are left out."""
        pairs = [(tile.seen, tile.picture) for tile in self._some.spaced(lambda tile: tile.seen is not None)]
        return [(seen.moment, drawn(picture, seen, protocol, drawing)) for seen, picture in pairs if seen is not None]


def clock(seconds: float) -> str:
    """A time as a player shows it.

    >>> clock(3.25), clock(3725)
    ('0:03.2', '1:02:05.0')
    """
    tenths = math.floor(seconds * 10 + 1e-6)
    minutes, tenths = divmod(tenths, 600)
    hours, minutes = divmod(minutes, 60)
    head = f"{hours}:{minutes:02d}" if hours else f"{minutes}"
    return f"{head}:{tenths // 10:02d}.{tenths % 10}"


def write_sheet(path: Path, tiles: Sequence[tuple[Moment, U8]], timeline: Timeline) -> None:
    """Write the sheet as PNG: tiles of (moment, overlay uint8 (3, H, W)), and the timeline as a plot below them."""
    from matplotlib.figure import Figure

    shape = tiles[0][1].shape
    aspect = min(shape[1] / shape[2], _TALLEST)
    columns = min(len(tiles), 6 if aspect > 1.1 else 4)
    rows = -(-len(tiles) // columns)
    wide = 13.0 / max(columns, 3)
    tall = wide * aspect + 0.42
    figure = Figure(figsize=(13.0, rows * tall + 2.7), dpi=100, layout="constrained", facecolor="white")
    top, bottom = np.ravel(np.array(figure.subfigures(2, 1, height_ratios=[rows * tall, 2.7]), dtype=object))
    grid = top.subplots(rows, max(columns, 3), squeeze=False)
    for axes in grid.ravel():
        axes.axis("off")
    for i, (moment, picture) in enumerate(tiles):
        axes = grid[i // columns, i % columns]
        axes.imshow(picture.transpose(1, 2, 0), interpolation="lanczos")
        axes.set_title(f"{clock(moment.time)}   {words(moment)}",
                       fontsize=9, color=_ink(moment), loc="left", pad=3)  # fmt: skip
    _confidence(bottom.subplots(), timeline)
    # A file may be called anything: dollar signs are no formula.
    name = brief(Path(timeline.source).name, 120)
    top.suptitle(name, fontsize=12, fontweight="bold", x=0.012, ha="left", parse_math=False)
    if timeline.notes:
        notes = "\n".join(f"Note: {note}" for note in timeline.notes)
        bottom.suptitle(notes, fontsize=9, x=0.012, ha="left", parse_math=False)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph", category=UserWarning)
        write_file(path, lambda beside: figure.savefig(beside, format="png", metadata={"Software": None}))


def _confidence(axes: Axes, timeline: Timeline) -> None:
    """Confidence over time with the threshold; silence is shaded."""
    items = timeline.items
    half = (timeline.every or 1.0) / 2
    times = np.array([item.time for item in items])
    values = np.array([item.confidence for item in items])
    axes.plot(times, values, color="#B8B8B8", lw=1.4, zorder=1)
    if timeline.smooth > 0:
        alone = np.array([item.momentary for item in items])
        axes.plot(times, alone, color="#D8D8D8", lw=0.8, zorder=0.5, label="each moment alone")
    named: dict[str, list[int]] = {}
    for i, item in enumerate(items):
        named.setdefault(item.verdict, []).append(i)
    quiet = np.array([item.silent for item in items])
    axes.fill_between(
        times, 0, 1, where=quiet, step="mid", color="#EFEFEF", lw=0, zorder=0, transform=axes.get_xaxis_transform()
    )
    for label, at in sorted(named.items(), reverse=True):
        axes.scatter(times[at], values[at], s=16, color=_ink(items[at[0]]), label=f"{label} ({len(at)})", zorder=2)
    if timeline.threshold is not None:
        axes.axhline(timeline.threshold, color="#333333", ls="--", lw=1.1, label=f"threshold {timeline.threshold:.2f}")
    low = min(values.min(), timeline.threshold if timeline.threshold is not None else values.min())
    high = max(values.max(), timeline.threshold if timeline.threshold is not None else values.max())
    room = max(0.12 * (high - low), 0.01)
    axes.set(xlim=(times[0] - half, times[-1] + half), ylim=(low - room, high + room))
    axes.set(xlabel="Time (s)", ylabel="Confidence")
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(color="#E8E8E8", lw=0.8)
    axes.set_axisbelow(True)
    axes.legend(loc="lower left", bbox_to_anchor=(0, 1.0), ncols=5, frameon=False, fontsize=9, borderaxespad=0.1)


def _ink(moment: Moment) -> str:
    return _INK.get(moment.verdict, "#2C3E50")
