"""Runs worth repeating: what to train, on what, with which settings, where they come from, and what to measure them on.

`earsight train --recipe NAME --data DIR --out RUN` trains one; docs/recipes.md lists them.
"""

from __future__ import annotations

from earsight.recipes import coco_esc, published, toybox
from earsight.recipes.base import Recipe

__all__ = ["RECIPES", "Recipe"]

RECIPES: dict[str, Recipe] = {
    recipe.name: recipe for recipe in (*published.RECIPES, *coco_esc.RECIPES, *toybox.RECIPES)
}
