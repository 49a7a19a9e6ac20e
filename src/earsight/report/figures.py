"""Figures of an evaluation and pictures under heat maps, as PNG.

matplotlib is imported when the first one is drawn. Figures have no pyplot behind them: no global state, and threads may
draw at once.
"""

from __future__ import annotations

import io
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from earsight.errors import EarsightError
from earsight.escape import brief
from earsight.files import write_bytes
from earsight.metrics import average_precision, sizes, sweeps
from earsight.metrics.base import SIZES, Records, hits
from earsight.overlay import overlay
from earsight.protocols import Protocol
from earsight.types import F32, POSITIVE, U8, Box, Mask

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Colours that stay apart for people with any kind of colour vision; the first is always the model or the positives.
PALETTE = ("#0072B2", "#D55E00", "#E69F00", "#CC79A7", "#009E73", "#56B4E9", "#5A5A5A")
GREY = "#8A8A8A"
MOST_KINDS = 10
"""Kinds of clips that a histogram shows apart; the others are one line, for which a legend has room."""
_LETTERS = 70  # of a name, as many as are as wide as one plot


@dataclass(frozen=True)
class Tile:
    """One picture under its heat map.

    Args:
        picture: uint8 (3, H, W).
        score: float32 (H, W) in 0..1.
        caption: one or two lines above the picture.
        mask: bool (H, W), outlined; None for no outline.
        boxes: where the source is, as fractions of the picture.
        id: name of the clip.
    """

    picture: U8
    score: F32
    caption: str = ""
    mask: Mask | None = None
    boxes: tuple[Box, ...] = ()
    id: str = ""

    @property
    def outline(self) -> Mask | None:
        """The mask where it has an edge."""
        return self.mask if self.mask is not None and self.mask.any() and not self.mask.all() else None


@dataclass(frozen=True)
class Plot:
    """A figure of a report.

    Args:
        file: its name in the folder "plots".
        caption: how to read it, in a sentence.
        draw: makes the figure.
        model: which model it shows; empty when all of them.
    """

    file: str
    caption: str
    draw: Callable[[], Figure]
    model: str = ""


def drawn(plots: Sequence[Plot]) -> tuple[dict[str, bytes], list[str]]:
    """PNG by file name, and a sentence for each plot that could not be drawn: the numbers do not go with it."""
    found: dict[str, bytes] = {}
    failed = []
    for plot in plots:
        try:
            found[plot.file] = png(plot.draw())
        except Exception as error:  # what matplotlib raises may be anything
            why = f"{'' if isinstance(error, EarsightError) else f'{type(error).__name__}: '}{error}"
            failed.append(f"The plot {plot.file} could not be drawn and is left out ({brief(why, 200)}).")
    return found, failed


def model_plots(
    records: Records, protocol: Protocol, name: str, model: str, threshold: float | None = None
) -> list[Plot]:
    """The plots of one model that its records have the numbers for; `name` is part of the names of their files."""

    def plot(kind: str, caption: str, draw: Callable[..., Figure], *of: Any) -> Plot:
        return Plot(f"{kind}-{name}.png", caption, partial(draw, records, *of), model)

    found = []
    if records.positives.any():
        caption = "Claims from the most to the least confident. A useless confidence stays on the dashed line."
        found.append(plot("pr", caption, precision_recall, protocol))
        caption = "F1 at every confidence threshold. Only what lies above the dashed floor is earned by the confidence."
        found.append(plot("f1", caption, f1_by_threshold, protocol))
        if records.by_size.shape[1]:
            caption = "LocAcc if every prediction had the same size. No single size suits small and huge sources."
            found.append(plot("size", caption, loc_acc_by_prediction_size, protocol))
    caption = "Positives should lie to the right of the negatives; where they overlap, the confidence cannot tell."
    return [*found, plot("confidence", caption, confidence_histogram, threshold)]


def new_figure(rows: int = 1, columns: int = 1, size: tuple[float, float] | None = None) -> tuple[Figure, Any]:
    """A figure and its axes: one, or an array of them."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=size or (5.6 * columns, 4.0 * rows), dpi=150, layout="constrained")
    axes: Any = figure.subplots(rows, columns)
    for one in np.ravel(np.array(axes, dtype=object)):
        one.spines[["top", "right"]].set_visible(False)
        one.grid(color="#E4E4E4", lw=0.8)
        one.set_axisbelow(True)
    return figure, axes


def label(name: str) -> str:
    """A name as a legend shows it, which leaves out labels that begin with an underscore."""
    shown = brief(name, _LETTERS)
    return f" {shown}" if shown.startswith("_") else shown


def legend(figure: Figure, handles: Sequence[Any] = (), names: Sequence[str] = (), **style: Any) -> None:
    """A legend beside the axes, where it covers no line whatever the numbers are. Dollar signs are no formulas."""
    parts = {"handles": handles, "labels": names} if handles else {}
    made = figure.legend(**parts, **{"loc": "outside lower center", "frameon": False, **style})
    for text in made.get_texts():
        text.set_parse_math(False)


def key(figure: Figure) -> None:
    """The legend of all axes below them, in as few rows as fit."""
    labels = [label for axes in figure.axes for label in axes.get_legend_handles_labels()[1]]
    columns = len(labels)
    while columns > 1:
        widest = [max(map(len, part)) for part in np.array_split(np.array(labels, dtype=object), columns)]
        # In inches, at this size of letters.
        if sum(0.5 + 0.072 * letters for letters in widest) <= figure.get_figwidth() - 0.1:
            break
        columns -= 1
    legend(figure, ncols=columns, fontsize=9.5, handlelength=1.5, columnspacing=1.4)


def png(figure: Figure) -> bytes:
    """The figure as PNG, without a version inside: the same numbers give the same bytes.

    Letters that the font lacks are drawn as boxes.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    canvas: Any = FigureCanvasAgg(figure)
    file = io.BytesIO()
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph", category=UserWarning)
        # Not savefig, which draws a figure with a layout twice. Smaller by a fiftieth would take twice the time.
        canvas.print_png(file, metadata={"Software": None}, pil_kwargs={"compress_level": 4})
    return file.getvalue()


def save(figure: Figure, path: Path) -> None:
    """Write the figure as a PNG file, whole or not at all."""
    write_bytes(path, png(figure))


def precision_recall(records: Records, protocol: Protocol) -> Figure:
    """Precision against recall over all confidences, with the precision of accepting everything."""
    precision, recall, _ = average_precision.curve(records, protocol)
    ap = average_precision.compute(records, protocol)["ap"]
    figure, axes = new_figure()
    x, y = np.append(0, recall), np.append(precision[0], precision)
    axes.step(x, y, where="pre", color=PALETTE[0], lw=2)
    axes.fill_between(x, y, step="pre", color=PALETTE[0], alpha=0.12, lw=0)
    base = hits(records, protocol).sum() / len(records)
    axes.axhline(base, color=GREY, ls="--", lw=1.2, label=f"accept everything: {100 * base:.1f}%")
    axes.set(xlim=(0, 1), ylim=(0, 1.03), xlabel="Recall", ylabel="Precision")
    axes.set_title(f"Precision and recall, AP {100 * ap:.2f}", loc="left")
    key(figure)
    return figure


def f1_by_threshold(records: Records, protocol: Protocol) -> Figure:
    """F1 against the confidence threshold, with its highest point and the accept-everything floor."""
    f1, thresholds = average_precision.f1_curve(records, protocol)
    top = int(f1.argmax())
    floor = average_precision.f1_floor(records, protocol)
    figure, axes = new_figure()
    axes.plot(thresholds, f1, color=PALETTE[0], lw=2)
    axes.axhline(floor, color=GREY, ls="--", lw=1.2, label=f"floor, accept everything: {100 * floor:.2f}")
    named = f"max-F1 {100 * f1[top]:.2f} at {thresholds[top]:.3f}"
    axes.plot(thresholds[top], f1[top], "o", color=PALETTE[1], ms=7, label=named)
    axes.set(ylim=(0, 1.03), xlabel="Confidence threshold", ylabel="F1")
    axes.set_title("F1 against confidence", loc="left")
    key(figure)
    return figure


def confidence_histogram(records: Records, threshold: float | None = None) -> Figure:
    """How the confidences of positives and of each kind of negative lie, with the calibrated threshold if given."""
    low, high = float(records.confidence.min()), float(records.confidence.max())
    bins = np.linspace(low, high if high > low else low + 1e-3, 41)
    names, counts = np.unique(records.kind, return_counts=True)
    kinds = sorted(names.tolist(), key=lambda kind: (kind != POSITIVE, kind))
    if len(kinds) > MOST_KINDS:
        frequent = set(names[np.argsort(-counts, kind="stable")][: MOST_KINDS - 1].tolist()) | {POSITIVE}
        kinds = [kind for kind in kinds if kind in frequent]
    shown = [(kind, records.confidence[records.kind == kind]) for kind in kinds]
    if len(kinds) < len(names):
        rest = ~np.isin(records.kind, kinds)
        shown.append((f"{len(names) - len(kinds)} other kinds", records.confidence[rest]))
    figure, axes = new_figure()
    for i, (kind, values) in enumerate(shown):
        style = {"alpha": 0.3} if kind == POSITIVE else {"histtype": "step", "lw": 2}
        share, named = np.full(len(values), 1 / len(values)), label(f"{kind} ({len(values)})")
        axes.hist(values, bins, weights=share, color=PALETTE[i % len(PALETTE)], label=named, **style)
    if threshold is not None:
        axes.axvline(threshold, color=GREY, ls="--", lw=1.2, label=f"threshold {threshold:.3f}")
    axes.set(xlabel="Confidence", ylabel="Share of the kind")
    axes.set_title("Confidence of positives and negatives", loc="left")
    key(figure)
    return figure


def ap_by_iou(records: Mapping[str, Records], protocol: Protocol) -> Figure:
    """AP over the cIoU from which on a prediction counts as a hit, one line for each named group of records."""
    figure, axes = new_figure()
    axes.axvline(protocol.gamma, color=GREY, ls="--", lw=1.2, label=f"protocol: {protocol.gamma:g}")
    for i, (name, some) in enumerate(records.items()):
        thresholds, values = sweeps.over_ious(some, protocol)
        axes.plot(thresholds, 100 * values, "o-", ms=3.5, lw=2, color=PALETTE[i % len(PALETTE)], label=label(name))
    axes.set(xlim=(0, 1), xlabel="cIoU that makes a hit", ylabel="AP (%)")
    axes.set_ylim(0, max(1.0, 1.08 * axes.dataLim.y1))
    axes.set_title("AP against the IoU threshold", loc="left")
    key(figure)
    return figure


def loc_acc_by_prediction_size(records: Records, protocol: Protocol) -> Figure:
    """LocAcc of predictions that keep 10% to 90% of the picture, for all positives and for each size of source."""
    counts = {"all": int(records.positives.sum()), **sizes.counts(records, protocol)}
    figure, axes = new_figure()
    for i, (name, values) in enumerate(sweeps.over_sizes(records, protocol).items()):
        if not np.isnan(values).all():
            style = {"color": "#222222", "lw": 2.6} if name == "all" else {"color": PALETTE[(i - 1) % 7], "lw": 1.8}
            axes.plot(100 * np.array(SIZES), 100 * values, "o-", ms=3.5, label=f"{name} ({counts[name]})", **style)
    axes.set(xlim=(5, 95), ylim=(0, 103), xlabel="Share of the picture that is predicted (%)", ylabel="LocAcc (%)")
    axes.set_title("LocAcc against prediction size, by source size", loc="left")
    key(figure)
    return figure


def overlay_grid(tiles: Sequence[Tile], columns: int = 4) -> Figure:
    """A grid of pictures as in `overlay_jpeg`, under their captions."""
    columns = min(columns, len(tiles))
    count = -(-len(tiles) // columns)
    figure, grid = new_figure(rows=count, columns=columns, size=(2.6 * columns, 2.85 * count))
    panels = np.ravel(np.array(grid, dtype=object))
    for axes in panels:
        axes.axis("off")
    for axes, tile in zip(panels, tiles, strict=False):
        axes.imshow(_marked(tile, 400), interpolation="lanczos")
        axes.set_title(tile.caption, fontsize=8.5, pad=4, parse_math=False)
    return figure


def overlay_jpeg(tile: Tile, side: int = 320) -> bytes:
    """One tile as a small JPEG whose longer side has `side` pixels: with its heat map, truth boxes (cyan) and the
    outline of the prediction (white)."""
    from PIL import Image

    file = io.BytesIO()
    Image.fromarray(_marked(tile, side)).save(file, "jpeg", quality=84, optimize=True)
    return file.getvalue()


def _marked(tile: Tile, side: int) -> U8:
    """A tile without its caption, uint8 (H, W, 3)."""
    from PIL import Image

    _, height, width = tile.picture.shape
    scale = side / max(height, width)
    size = max(1, round(width * scale)), max(1, round(height * scale))

    def resized(values: U8 | F32) -> Any:
        """Smooth when it grows and averaged when it shrinks."""
        return np.asarray(Image.fromarray(values).resize(size, Image.Resampling.BILINEAR))

    picture = np.ascontiguousarray(resized(np.ascontiguousarray(tile.picture.transpose(1, 2, 0))).transpose(2, 0, 1))
    mask = None if tile.outline is None else resized(tile.outline.astype(np.float32)) >= 0.5
    boxes = [tuple((np.clip(box, 0, 1) * np.array(size * 2)).round().astype(int).tolist()) for box in tile.boxes]
    return np.ascontiguousarray(overlay(picture, resized(tile.score), mask, boxes).transpose(1, 2, 0))
