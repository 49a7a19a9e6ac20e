"""Facts about plots: each writes a picture that can be read back, and refuses what it cannot draw."""

from __future__ import annotations

import io
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from matplotlib.image import imread

from earsight import plots
from earsight.errors import UsageError
from earsight.metrics.base import Records
from earsight.protocols import get
from earsight.types import Row

EXACT = get("exact")


def some_records(kinds: tuple[str, ...] = ("positive", "positive", "easy", "hard"), count: int = 80) -> Records:
    random = np.random.default_rng(0)
    rows = [Row(f"c{i}", kind=kinds[i % len(kinds)]) for i in range(count)]
    columns = {name: random.random(count) for name in ("confidence", "ciou")}
    area = 40_000 * random.random(count)
    return Records.of(rows, area=area, by_size=random.random((count, 9)), **columns)


def picture(path: Path) -> np.ndarray:  # type: ignore[type-arg]
    pixels = imread(path)
    assert min(pixels.shape[:2]) > 100
    assert pixels[..., :3].std() > 0.01
    return pixels


def tile(height: int = 48, width: int = 64) -> plots.Tile:
    score = np.linspace(0, 1, height * width, dtype=np.float32).reshape(height, width)
    gray = np.full((3, height, width), 120, dtype=np.uint8)
    return plots.Tile(gray, score, "dog, cIoU 0.71, conf 0.63", score > 0.5, ((0.1, 0.2, 0.9, 2.0),))


def test_curves_and_histogram_are_drawn(tmp_path: Path) -> None:
    plots.pr_curve(tmp_path / "new" / "pr.png", some_records(), EXACT)
    plots.f1_curve(tmp_path / "f1.png", some_records(), EXACT)
    plots.confidence_histogram(tmp_path / "h.png", some_records(), threshold=0.4)
    for name in ("new/pr.png", "f1.png", "h.png"):
        picture(tmp_path / name)


def test_of_many_kinds_the_most_frequent_are_told_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    legends: list[list[str]] = []
    monkeypatch.setattr(
        "earsight.plots.confidence.key", lambda figure: legends.append(figure.axes[0].get_legend_handles_labels()[1])
    )
    many = some_records(("positive", "easy", "easy", *(f"kind{i:03}" for i in range(397))), 400)
    plots.confidence_histogram(tmp_path / "h.png", many)
    picture(tmp_path / "h.png")
    (legend,) = legends
    assert legend == ["positive (1)", "easy (2)", *(f"kind{i:03} (1)" for i in range(8)), "389 other kinds (389)"]


def test_sweeps_are_drawn(tmp_path: Path) -> None:
    two = {"slavc": some_records(), "a model with a name of more than one line of a legend " * 2: some_records()}
    plots.ap_against_iou(tmp_path / "iou.png", two, EXACT)
    plots.loc_acc_against_size(tmp_path / "size.png", some_records(), EXACT)
    for name in ("iou.png", "size.png"):
        picture(tmp_path / name)


def test_plots_go_into_memory_as_into_a_file(tmp_path: Path) -> None:
    plots.loc_acc_against_size(tmp_path / "size.png", some_records(), EXACT)
    file = io.BytesIO()
    plots.loc_acc_against_size(file, some_records(), EXACT)
    assert file.getvalue() == (tmp_path / "size.png").read_bytes()


def test_one_clip_and_equal_confidences_are_drawn_too(tmp_path: Path) -> None:
    one = some_records(("positive",), 1)
    plots.pr_curve(tmp_path / "pr.png", one, get("official"))
    plots.f1_curve(tmp_path / "f1.png", one, get("official"))
    plots.confidence_histogram(tmp_path / "h.png", one)
    for name in ("pr.png", "f1.png", "h.png"):
        picture(tmp_path / name)


def test_the_same_records_give_the_same_file(tmp_path: Path) -> None:
    for name in ("a.png", "b.png"):
        plots.pr_curve(tmp_path / name, some_records(), EXACT)
    assert (tmp_path / "a.png").read_bytes() == (tmp_path / "b.png").read_bytes()


def test_training_curve_draws_losses_and_metrics(tmp_path: Path) -> None:
    rows = [{"step": e, "loss": 1 / (e + 1), "lr": 1e-4, "name": "x"} for e in range(5)]
    plots.training_curve(tmp_path / "t.png", [*rows, {"step": 4, "val": {"loc_acc": 0.5}}, {"epoch": 3}])
    picture(tmp_path / "t.png")


def test_a_log_without_numbers_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="log rows with 'step' and a loss or metric, but got 1 without"):
        plots.training_curve(tmp_path / "t.png", [{"step": 1, "lr": 0.1}])


@pytest.mark.parametrize(("height", "width"), [(48, 64), (600, 400), (1, 1)])
def test_a_tile_becomes_a_small_jpeg(height: int, width: int) -> None:
    written = plots.overlay_jpeg(tile(height, width), side=120)
    pixels = imread(io.BytesIO(written), format="jpeg")
    assert max(pixels.shape[:2]) == 120
    assert pixels.shape[1] == pytest.approx(pixels.shape[0] * width / height, abs=1)
    assert len(written) < 20_000


def test_a_tile_shows_its_box_and_outline() -> None:
    black, flat = np.zeros((3, 100, 100), dtype=np.uint8), np.zeros((100, 100), dtype=np.float32)
    left = np.zeros((100, 100), dtype=bool)
    left[:, :50] = True
    marked = plots.Tile(black, flat, mask=left, boxes=((0.6, 0.2, 0.9, 0.8),))
    pixels = imread(io.BytesIO(plots.overlay_jpeg(marked, side=100)), format="jpeg").astype(int)
    assert pixels[50, 49].min() > 150  # white
    assert pixels[50, 60, 2] - pixels[50, 60, 0] > 60  # cyan
    assert pixels[50, 75].max() < 60


@pytest.mark.parametrize("count", [1, 3, 5])
def test_a_grid_of_any_number_of_tiles_is_drawn(tmp_path: Path, count: int) -> None:
    plots.overlay_grid(tmp_path / "g.png", [tile() for _ in range(count)], columns=3)
    picture(tmp_path / "g.png")


def test_a_tile_needs_no_mask(tmp_path: Path) -> None:
    plain = plots.Tile(np.zeros((3, 32, 32), dtype=np.uint8), np.eye(32, dtype=np.float32))
    full = plots.Tile(plain.picture, plain.score, mask=np.ones((32, 32), dtype=bool))
    plots.overlay_grid(tmp_path / "g.png", [plain, full])
    picture(tmp_path / "g.png")


def test_nothing_to_draw_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="pictures for the grid, but got none"):
        plots.overlay_grid(tmp_path / "g.png", [])
    negatives = some_records(("easy",))
    with pytest.raises(UsageError, match="records with positives, but got none"):
        plots.pr_curve(tmp_path / "p.png", negatives, EXACT)
    with pytest.raises(UsageError, match="records with positives, but got none"):
        plots.f1_curve(tmp_path / "p.png", negatives, EXACT)
    with pytest.raises(UsageError, match="records with positives, but got none"):
        plots.loc_acc_against_size(tmp_path / "p.png", negatives, EXACT)
    with pytest.raises(UsageError, match="records with positives, but got none"):
        plots.ap_against_iou(tmp_path / "p.png", {"slavc": negatives}, EXACT)
    with pytest.raises(UsageError, match="records to draw, but got none"):
        plots.ap_against_iou(tmp_path / "p.png", {}, EXACT)
    with pytest.raises(UsageError, match=r"measured at every prediction size, but got none\. Score with sizes=True"):
        plots.loc_acc_against_size(tmp_path / "p.png", replace(some_records(), by_size=np.zeros((80, 0))), EXACT)
    with pytest.raises(UsageError, match="records to draw, but got none"):
        plots.confidence_histogram(tmp_path / "p.png", negatives.where(np.zeros(80, dtype=bool)))


@pytest.mark.slow
def test_importing_plots_imports_no_matplotlib() -> None:
    code = "import sys, earsight.plots; sys.exit('matplotlib' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
