"""What all plots share: colours, plain axes, and saving to a file or into memory."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np

from earsight.errors import UsageError
from earsight.escape import brief
from earsight.files import write_atomically
from earsight.metrics.base import Records

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Target = Path | BinaryIO
"""Where a plot goes: a PNG file, or an open binary file such as io.BytesIO."""
# Colours that stay apart for people with any kind of colour vision; the first is always the model or the positives.
PALETTE = ("#0072B2", "#D55E00", "#E69F00", "#CC79A7", "#009E73", "#56B4E9", "#5A5A5A")
GREY = "#8A8A8A"
_LETTERS = 70  # of a name, as many as are as wide as one plot


def new_figure(rows: int = 1, columns: int = 1, size: tuple[float, float] | None = None) -> tuple[Figure, Any]:
    """A figure and its axes: one, or an array of them."""
    # A Figure without pyplot: no global state, no window system, safe in threads.
    from matplotlib.figure import Figure

    figure = Figure(figsize=size or (5.6 * columns, 4.0 * rows), dpi=150, layout="constrained")
    axes: Any = figure.subplots(rows, columns)
    for one in np.ravel(np.array(axes, dtype=object)):
        _plain(one)
    return figure, axes


def label(name: str) -> str:
    """A name as a legend shows it, which leaves out labels that begin with an underscore."""
    shown = brief(name, _LETTERS)
    return f" {shown}" if shown.startswith("_") else shown


def key(figure: Figure) -> None:
    """The legend, below the axes, where it covers no line whatever the numbers are, in as few rows as fit."""
    labels = [label for axes in figure.axes for label in axes.get_legend_handles_labels()[1]]
    columns = len(labels)
    while columns > 1:
        widest = [max(map(len, part)) for part in np.array_split(np.array(labels, dtype=object), columns)]
        # In inches, at this size of letters.
        if sum(0.5 + 0.072 * letters for letters in widest) <= figure.get_figwidth() - 0.1:
            break
        columns -= 1
    figure.legend(
        loc="outside lower center", ncols=columns, frameon=False, fontsize=9.5, handlelength=1.5, columnspacing=1.4
    )


def save(figure: Figure, to: Target) -> None:
    """Write the figure as PNG, without a version inside: the same numbers give the same bytes.

    Dollar signs in it are no formulas, and letters that the font lacks are drawn as boxes.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.text import Text

    canvas: Any = FigureCanvasAgg(figure)
    for text in figure.findobj(Text):
        text.set_parse_math(False)

    def draw(target: Target) -> None:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="Glyph", category=UserWarning)
            # As savefig does, which draws a figure with a layout twice. Smaller by a fiftieth would take twice the
            # time.
            canvas.print_png(target, metadata={"Software": None}, pil_kwargs={"compress_level": 4})

    if isinstance(to, Path):
        write_atomically(to, draw)
    else:
        draw(to)


def need_positives(records: Records) -> None:
    if not records.positives.any():
        raise UsageError("Expected records with positives, but got none. Evaluate a set with visible sources.")


def _plain(axes: Axes) -> None:
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(color="#E4E4E4", lw=0.8)
    axes.set_axisbelow(True)
