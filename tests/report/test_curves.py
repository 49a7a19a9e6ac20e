"""Facts about training curves: what is read from logs, and that pictures are drawn of it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from matplotlib.image import imread

from earsight.errors import DataError
from earsight.report.curves import Curve, figure, read_runs
from earsight.report.figures import save


def a_run(folder: Path, values: Sequence[float], epochs: Sequence[int] | None = None) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    rows: list[dict[str, object]] = []
    for epoch, value in zip(epochs or range(len(values)), values, strict=True):
        rows += [
            {"step": 1, "epoch": epoch, "loss": 1.0},
            {"step": 1, "epoch": epoch, "val": {"ap": value, "auc": 0.1}},
        ]
    (folder / "log.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder


def test_the_best_so_far_is_what_early_stopping_reports(tmp_path: Path) -> None:
    (one,), _ = read_runs([a_run(tmp_path / "slavc", [0.1, 0.4, 0.3, 0.4, 0.2])], ["ap"])
    assert (one.run, one.at) == ("slavc", (1, 2, 3, 4, 5))
    assert one.best_so_far == (0.1, 0.4, 0.4, 0.4, 0.4)
    assert one.best == 1
    assert one.lost == pytest.approx(-0.2)


def test_the_best_of_a_number_that_should_be_low_is_the_lowest() -> None:
    one = Curve("a", "false_alarm_at_90", (1, 2, 3), (0.5, 0.2, 0.3))
    assert one.best_so_far == (0.5, 0.2, 0.2)
    assert one.lost == pytest.approx(0.1)


def test_epochs_of_a_second_stage_come_after_those_of_the_first(tmp_path: Path) -> None:
    (one,), _ = read_runs([a_run(tmp_path, [0.1, 0.2, 0.3, 0.4], [1, 3, 0, 1])], ["ap"])
    assert one.at == (2, 4, 5, 6)


def test_runs_of_one_name_are_called_by_their_paths(tmp_path: Path) -> None:
    series, _ = read_runs([a_run(tmp_path / name / "run", [0.1]) for name in "ab"], ["ap", "auc"])
    assert [(one.run, one.name) for one in series] == [
        (str(tmp_path / name / "run"), metric) for name in "ab" for metric in ("ap", "auc")
    ]


def test_a_run_without_validation_has_its_loss_and_rate(tmp_path: Path) -> None:
    good, bare = a_run(tmp_path / "good", [0.1]), a_run(tmp_path / "bare", [])
    rows = [{"step": 10 * i, "epoch": 0, "lr": 0.1, "loss": 1.0 / i} for i in (1, 2)]
    (bare / "log.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    validation, training = read_runs([good, bare], ["ap"])
    assert [one.run for one in validation] == ["good"]
    assert training == [
        Curve("good", "loss", (1,), (1.0,)),
        Curve("bare", "loss", (10, 20), (1.0, 0.5)),
        Curve("bare", "lr", (10, 20), (0.1, 0.1)),
    ]


def test_a_run_that_has_not_begun_is_told(tmp_path: Path) -> None:
    (tmp_path / "log.jsonl").touch()
    with pytest.raises(DataError, match=r"Expected a run that has taken its first steps, but .* Let it train"):
        read_runs([tmp_path], ["ap"])


def test_a_torn_line_hides_no_others(tmp_path: Path) -> None:
    path = a_run(tmp_path, [0.1, 0.2]) / "log.jsonl"
    path.write_text(path.read_text().replace('{"step": 1, "epoch": 1, "val"', '{"st\n{"step": 1, "epoch": 1, "val"'))
    (one,), _ = read_runs([tmp_path], ["ap"])
    assert one.values == (0.1, 0.2)


def test_what_is_no_run_or_damaged_is_told(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"Expected a run's folder, but .* has no log.jsonl\. Name the --out"):
        read_runs([tmp_path], ["ap"])
    (tmp_path / "log.jsonl").write_text("{\n")
    with pytest.raises(DataError, match=r"Expected a run's log, but .* cannot be read .* Train the run again"):
        read_runs([tmp_path], ["ap"])
    (tmp_path / "log.jsonl").write_text('{"val": {"ap": 1}}\n')
    with pytest.raises(DataError, match="cannot be read"):
        read_runs([tmp_path], ["ap"])


def test_a_number_that_was_not_measured_is_told(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"Expected 'loc_acc' in the validation of .*, but got ap, auc\. Choose"):
        read_runs([a_run(tmp_path, [0.1])], ["loc_acc"])


@pytest.mark.parametrize("count", [1, 3, 9])
def test_any_number_of_runs_and_panels_is_drawn(tmp_path: Path, count: int) -> None:
    random = np.random.default_rng(0)
    names = ["_hidden", "cost $5", "a" * 70, *(f"run{i}" for i in range(count))][:count]
    series = [
        Curve(name, metric, tuple(range(1, 6)), tuple(random.random(5).tolist()))
        for name in names
        for metric in ("ap", "loc_acc", "auc", "auroc")[: 1 + count // 2]
    ]
    save(figure(series), tmp_path / "new" / "c.png")
    pixels = imread(tmp_path / "new" / "c.png")
    assert min(pixels.shape[:2]) > 300
    assert pixels[..., :3].std() > 0.01


@pytest.mark.parametrize("measured", [True, False])
def test_losses_are_drawn_with_and_without_validation(tmp_path: Path, measured: bool) -> None:
    traces = [Curve(run, name, (1, 2, 3), (0.3, 0.2, 0.1)) for run in "ab" for name in ("loss", "lr")]
    series = [Curve("a", metric, (1, 2), (0.5, 0.6)) for metric in ("ap", "loc_acc") if measured]
    save(figure(series, traces), tmp_path / "c.png")
    height, width = imread(tmp_path / "c.png").shape[:2]
    assert width == 2 * 5.6 * 150
    assert (height > 1000) == measured


def test_the_same_series_give_the_same_bytes_and_one_epoch_is_enough(tmp_path: Path) -> None:
    for name in ("a.png", "b.png"):
        save(figure([Curve("only", "ap", (1,), (0.5,))]), tmp_path / name)
    assert (tmp_path / "a.png").read_bytes() == (tmp_path / "b.png").read_bytes()
