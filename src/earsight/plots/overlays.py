"""Pictures under their heat maps: one as JPEG, or many in a grid."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from earsight.errors import UsageError
from earsight.heatmap import overlay
from earsight.plots.figure import Target, new_figure, save
from earsight.types import F32, U8, Box, Mask


@dataclass(frozen=True)
class Tile:
    """One picture of a grid.

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


def overlay_grid(path: Target, tiles: Sequence[Tile], columns: int = 4) -> None:
    """A grid of pictures with heat map, truth boxes (cyan) and the outline of the prediction (white)."""
    if not tiles:
        raise UsageError("Expected pictures for the grid, but got none. Ask for at least one.")
    columns = min(columns, len(tiles))
    count = -(-len(tiles) // columns)
    figure, grid = new_figure(rows=count, columns=columns, size=(2.6 * columns, 2.85 * count))
    for axes in np.ravel(np.array(grid, dtype=object)):
        axes.axis("off")
    from matplotlib.patches import Rectangle
    from matplotlib.patheffects import Normal, Stroke

    dark = [Stroke(linewidth=3.4, foreground="#00000090"), Normal()]
    for axes, tile in zip(np.ravel(np.array(grid, dtype=object)), tiles, strict=False):
        _, height, width = tile.picture.shape
        axes.imshow(overlay(tile.picture, tile.score).transpose(1, 2, 0), interpolation="lanczos")
        if tile.mask is not None and tile.mask.any() and not tile.mask.all():
            lines = axes.contour(tile.mask.astype(np.float32), levels=[0.5], colors="white", linewidths=1.6)
            lines.set_path_effects(dark)
        for x0, y0, x1, y1 in tile.boxes:
            x0, x1 = (min(max(x, 0.0), 1.0) * width - 0.5 for x in (x0, x1))
            y0, y1 = (min(max(y, 0.0), 1.0) * height - 0.5 for y in (y0, y1))
            frame = Rectangle((x0, y0), x1 - x0, y1 - y0, fill=False, ec="#48DBFB", lw=1.8, path_effects=dark)
            axes.add_patch(frame)
        axes.set(xlim=(-0.5, width - 0.5), ylim=(height - 0.5, -0.5))
        axes.set_title(tile.caption, fontsize=8.5, pad=4)
    save(figure, path)


def overlay_jpeg(tile: Tile, side: int = 320) -> bytes:
    """One tile as a small JPEG whose longer side has `side` pixels, with the same marks as in the grid."""
    from matplotlib.image import imsave

    _, height, width = tile.picture.shape
    scale = side / max(height, width)
    shape = max(1, round(height * scale)), max(1, round(width * scale))
    picture = _resized(tile.picture, shape).clip(0, 255).round().astype(np.uint8)
    score = _resized(tile.score[None], shape)[0]
    mask = None
    if tile.mask is not None and tile.mask.any() and not tile.mask.all():
        mask = _resized(tile.mask[None].astype(np.float32), shape)[0] >= 0.5
    size = np.array([shape[1], shape[0]] * 2)
    boxes = [tuple((np.clip(box, 0, 1) * size).round().astype(int).tolist()) for box in tile.boxes]
    drawn = overlay(picture, score, mask, boxes).transpose(1, 2, 0)
    file = io.BytesIO()
    imsave(file, np.ascontiguousarray(drawn), format="jpeg", pil_kwargs={"quality": 84, "optimize": True})
    return file.getvalue()


def _resized(values: U8 | F32, shape: tuple[int, int]) -> F32:
    """(C, H, W) at another size, smooth when it grows and averaged when it shrinks."""
    import torch

    given = torch.from_numpy(np.ascontiguousarray(values)).float()[None]
    resized: F32 = torch.nn.functional.interpolate(given, shape, mode="bilinear", antialias=True)[0].numpy()
    return resized
