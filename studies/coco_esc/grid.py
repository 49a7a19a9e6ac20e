"""python -m studies.coco_esc.grid: maps of test clips by the size of the source, and of every kind of negative.

The choice looks at sizes and kinds only. Photos are their makers' and are left out of what is kept in docs/img: there a
map lies on grey, beside its boxes. `--photos` draws them too, for your own eyes.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from earsight import protocols
from earsight.checkpoint import load_weights
from earsight.data.clips import ClipSet, Some, open_set
from earsight.data.truth import truth_map
from earsight.metrics.sizes import NAMES, SIDES
from earsight.model_evaluation import EvalSettings, evaluate_all
from earsight.report.figures import overlay_grid, save
from earsight.report.gallery import tiles
from earsight.report.training import threshold_of
from studies.coco_esc.trials import EXTENDED

GRID = Path(__file__).parents[2] / "docs" / "img" / "coco_esc_grid.png"
EACH = 5
"""Clips of each size; as many kinds of negatives are shown."""
GREY = 90
SIDE = 224
"""Of the pictures that sizes are told of."""


def chosen(clips: ClipSet) -> list[int]:
    """Clips of each size from small to huge, spread evenly over the list, then one of each kind of negative."""
    by_size: dict[str, list[int]] = {name: [] for name in NAMES}
    kinds: dict[str, list[int]] = {}
    for i, row in enumerate(clips.rows):
        if row.positive:
            area = float(truth_map(row.boxes, SIDE).sum())
            by_size[NAMES[int(np.searchsorted(np.square(SIDES), area, "right"))]].append(i)
        else:
            kinds.setdefault(row.kind, []).append(i)
    spread = [at for some in by_size.values() if some for at in _spread(some, EACH)]
    return spread + [some[len(some) // 2] for some in list(kinds.values())[:EACH]]


def _spread(some: Sequence[int], count: int) -> list[int]:
    """The middles of `count` equal parts.

    >>> _spread(range(10), 5)
    [1, 3, 5, 7, 9]
    """
    return [some[(2 * k + 1) * len(some) // (2 * count)] for k in range(min(count, len(some)))]


def main(argv: Sequence[str] | None = None) -> int:
    ask = argparse.ArgumentParser(prog="python -m studies.coco_esc.grid", description=__doc__)
    ask.add_argument("--weights", type=Path, required=True, help="of SLAVC, trained by the study")
    ask.add_argument("--pack", type=Path, required=True, help="pack of coco_esc, or its folder")
    ask.add_argument("--photos", action="store_true", help="draw the photos too")
    ask.add_argument("--out", type=Path, default=GRID)
    args = ask.parse_args(argv)
    loaded, whole = load_weights(args.weights, "cpu"), open_set(EXTENDED, args.pack)
    clips, exact = Some(whole, chosen(whole)), protocols.get("exact")
    (evaluation,) = evaluate_all(loaded.model, clips, [exact], EvalSettings(keep_maps=True))
    drawn = tiles(evaluation, clips, loaded.model, range(len(clips)), threshold_of(loaded, exact))
    shown = list(drawn.values())
    if not args.photos:
        shown = [replace(tile, picture=np.full_like(tile.picture, GREY)) for tile in shown]
    save(overlay_grid(shown, columns=EACH), args.out)
    sys.stderr.write(f"{args.out}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
