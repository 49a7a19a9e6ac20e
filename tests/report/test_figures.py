"""Facts about plots: each writes a picture that can be read back, and refuses what it cannot draw."""

from __future__ import annotations

import io
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from matplotlib.image import imread

from earsight.metrics.base import Records
from earsight.protocols import get
from earsight.report import figures
from earsight.report.figures import Tile, png, save
from earsight.types import Row

EXACT = get("exact")


def some_records(kinds: tuple[str, ...] = ("positive", "positive", "easy", "hard"), count: int = 80) -> Records:
    random = np.random.default_rng(0)
    rows = [Row(f"c{i}", kind=kinds[i % len(kinds)]) for i in range(count)]
    columns = {name: random.random(count) for name in ("confidence", "ciou")}
    area = 40_000 * random.random(count)
    return Records.of(rows, area=area, by_size=random.random((count, 9)), **columns)


def picture(content: bytes) -> None:
    pixels = imread(io.BytesIO(content), format="png")
    assert min(pixels.shape[:2]) > 100
    assert pixels[..., :3].std() > 0.01


def tile(height: int = 48, width: int = 64) -> Tile:
    score = np.linspace(0, 1, height * width, dtype=np.float32).reshape(height, width)
    gray = np.full((3, height, width), 120, dtype=np.uint8)
    return Tile(gray, score, "dog, cIoU 0.71, conf 0.63", score > 0.5, ((0.1, 0.2, 0.9, 2.0),))


def test_curves_and_histogram_are_drawn(tmp_path: Path) -> None:
    save(figures.precision_recall(some_records(), EXACT), tmp_path / "new" / "pr.png")
    picture((tmp_path / "new" / "pr.png").read_bytes())
    picture(png(figures.f1_by_threshold(some_records(), EXACT)))
    picture(png(figures.confidence_histogram(some_records(), threshold=0.4)))


def test_of_many_kinds_the_most_frequent_are_told_apart() -> None:
    many = some_records(("positive", "easy", "easy", *(f"kind{i:03}" for i in range(397))), 400)
    figure = figures.confidence_histogram(many)
    picture(png(figure))
    legend = [text.get_text() for text in figure.legends[0].get_texts()]
    assert legend == ["positive (1)", "easy (2)", *(f"kind{i:03} (1)" for i in range(8)), "389 other kinds (389)"]


def test_sweeps_are_drawn() -> None:
    two = {"slavc": some_records(), "a model with a name of more than one line of a legend " * 2: some_records()}
    picture(png(figures.ap_by_iou(two, EXACT)))
    picture(png(figures.loc_acc_by_prediction_size(some_records(), EXACT)))


def test_one_clip_and_equal_confidences_are_drawn_too() -> None:
    one = some_records(("positive",), 1)
    picture(png(figures.precision_recall(one, get("official"))))
    picture(png(figures.f1_by_threshold(one, get("official"))))
    picture(png(figures.confidence_histogram(one)))


def test_the_same_records_give_the_same_bytes() -> None:
    first, second = (png(figures.precision_recall(some_records(), EXACT)) for _ in range(2))
    assert first == second


@pytest.mark.parametrize(("height", "width"), [(48, 64), (600, 400), (1, 1)])
def test_a_tile_becomes_a_small_jpeg(height: int, width: int) -> None:
    written = figures.overlay_jpeg(tile(height, width), side=120)
    pixels = imread(io.BytesIO(written), format="jpeg")
    assert max(pixels.shape[:2]) == 120
    assert pixels.shape[1] == pytest.approx(pixels.shape[0] * width / height, abs=1)
    assert len(written) < 20_000


def test_a_tile_shows_its_box_and_outline() -> None:
    black, flat = np.zeros((3, 100, 100), dtype=np.uint8), np.zeros((100, 100), dtype=np.float32)
    left = np.zeros((100, 100), dtype=bool)
    left[:, :50] = True
    marked = Tile(black, flat, mask=left, boxes=((0.6, 0.2, 0.9, 0.8),))
    pixels = imread(io.BytesIO(figures.overlay_jpeg(marked, side=100)), format="jpeg").astype(int)
    assert pixels[50, 49].min() > 150  # white
    assert pixels[50, 60, 2] - pixels[50, 60, 0] > 60  # cyan
    assert pixels[50, 75].max() < 60


@pytest.mark.parametrize("count", [1, 3, 5])
def test_a_grid_of_any_number_of_tiles_is_drawn(count: int) -> None:
    picture(png(figures.overlay_grid([tile() for _ in range(count)], columns=3)))


def test_a_tile_needs_no_mask() -> None:
    plain = Tile(np.zeros((3, 32, 32), dtype=np.uint8), np.eye(32, dtype=np.float32))
    full = Tile(plain.picture, plain.score, mask=np.ones((32, 32), dtype=bool))
    picture(png(figures.overlay_grid([plain, full])))


@pytest.mark.slow
def test_importing_figures_imports_no_matplotlib() -> None:
    code = "import sys, earsight.report.figures; sys.exit('matplotlib' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
