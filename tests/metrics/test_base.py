"""Facts about records."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from earsight.errors import DataError, UsageError
from earsight.metrics.base import TITLES, Records, higher_is_better, module_of
from earsight.types import Row


def test_records_survive_a_file(toy: Records, tmp_path: Path) -> None:
    toy.write(tmp_path / "r.csv")
    back = Records.read(tmp_path / "r.csv")
    for name in ("id", "kind", "label", "area", "confidence", "ciou"):
        np.testing.assert_array_equal(getattr(back, name), getattr(toy, name))


def test_every_column_survives_a_file(make, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    by_size = np.array([np.arange(9) / 9, np.full(9, np.nan)])
    records = make(
        ["positive", "hard"], [0.5, 0.6], [1, np.nan], area=[3, 0], support=[5, 0], predicted=[7, 8], by_size=by_size
    )
    records.write(tmp_path / "r.csv")
    back = Records.read(tmp_path / "r.csv")
    for name in Records.names():
        np.testing.assert_array_equal(getattr(back, name), getattr(records, name))


def test_columns_of_a_metric_follow_their_clips(make, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    records = replace(make(["positive", "hard"], [0.5, 0.6], [1, np.nan]), extra={"own": np.array([0.25, np.nan])})
    records.write(tmp_path / "r.csv")
    assert "clip/own" in (tmp_path / "r.csv").read_text().splitlines()[0]
    for other in (Records.read(tmp_path / "r.csv"), Records.concat([records.where(np.array([i])) for i in (0, 1)])):
        np.testing.assert_array_equal(other.column("own"), [0.25, np.nan])
    np.testing.assert_array_equal(records.drawn(np.array([1, 0, 0])).column("own"), [np.nan, 0.25, 0.25])
    assert np.isnan(records.column("another")).all()
    with pytest.raises(ValueError, match="columns of one length"):
        replace(records, extra={"own": np.zeros(3)})


def test_columns_that_were_not_measured_have_their_defaults(make) -> None:  # type: ignore[no-untyped-def]
    records = make(["positive", "easy"], [0.5, 0.6], [1, np.nan], area=[3, 0])
    assert records.support.tolist() == [3, 0]
    assert np.isnan(records.predicted).all()
    assert records.by_size.shape == (2, 0)


def test_by_size_of_another_width_is_refused(make) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(ValueError, match=r"by_size \(N, 9\) or \(N, 0\), but got \(1, 4\)"):
        make(["positive"], [0.5], [1], by_size=np.zeros((1, 4)))


def test_a_draw_may_repeat_clips(toy: Records) -> None:
    drawn = toy.drawn(np.array([2, 2, 0]))
    assert drawn.id.tolist() == ["clip00002", "clip00002", "clip00000"]
    assert drawn.positives.tolist() == [False, False, True]
    assert drawn.confidence.tolist() == [0.7, 0.7, 0.9]


def test_a_cut_and_shuffled_set_merges_to_the_same_records(toy: Records) -> None:
    merged = Records.concat([toy.where(np.array([5, 1, 3])), toy.where(np.array([2, 0, 4]))]).sorted_by_id()
    np.testing.assert_array_equal(merged.id, toy.id)
    np.testing.assert_array_equal(merged.ciou, toy.ciou)


def test_negatives_have_no_ciou_even_when_one_was_computed() -> None:
    rows = [Row("a"), Row("b", kind="hard")]
    given = np.array([0.5, 0.25])
    by_size = np.full((2, 9), 0.5)
    records = Records.of(rows, area=np.zeros(2), confidence=np.ones(2), ciou=given, by_size=by_size)
    assert records.ciou[0] == 0.5
    assert np.isnan(records.ciou[1])
    assert np.isnan(records.by_size[1]).all()
    assert given.tolist() == [0.5, 0.25]  # what was passed in stays as it was
    assert (by_size == 0.5).all()
    assert records.positives.tolist() == [True, False]


def test_a_clip_that_comes_twice_is_refused(toy: Records) -> None:
    with pytest.raises(DataError, match="one record per clip, but got 'clip00000' 2 times"):
        Records.concat([toy, toy.where(np.array([0]))])


def test_nan_confidence_is_refused_by_name(make) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(DataError, match=r"finite confidence and cIoU.*'clip00001' first"):
        make(["positive", "positive"], [0.1, np.nan], [1, 1])
    with pytest.raises(DataError, match="'clip00000' first"):
        make(["positive", "easy"], [0.1, 0.2], [np.nan, np.nan])


def test_columns_of_different_length_are_refused(toy: Records) -> None:
    with pytest.raises(ValueError, match="columns of one length"):
        Records(toy.id, toy.kind, toy.label, toy.area, toy.confidence[:3], toy.ciou)


def test_senseless_files_are_refused(toy: Records, tmp_path: Path) -> None:
    path = tmp_path / "r.csv"
    toy.write(path)
    text = path.read_text()
    for changed, why in (
        (text.replace("ciou", "other"), "no ciou"),
        (text.replace("\n", ",1\n", 3).replace(",1\n", "\n", 1), "lines of other lengths"),
        (text.rstrip("\n")[:-8].rpartition(",")[0], "lines of other lengths"),
        (text.replace("0.9", "high"), "could not convert"),
        ("", "no id, kind, label, area, confidence, ciou"),
    ):
        assert changed != text
        path.write_text(changed)
        with pytest.raises(ValueError, match=why):
            Records.read(path)


def test_other_columns_of_a_file_are_ignored(toy: Records, tmp_path: Path) -> None:
    path = tmp_path / "r.csv"
    toy.write(path)
    path.write_text("".join(f"{line},more\n" for line in path.read_text().splitlines()))
    assert len(Records.read(path)) == 6


def test_odd_names_survive_a_file(make, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    records = replace(make(["positive", "easy"], [0.5, 0.6], [1, np.nan]), id=np.array(['a,\n"b\r ', " \udcff"]))
    records.write(tmp_path / "r.csv")
    assert Records.read(tmp_path / "r.csv").id.tolist() == records.id.tolist()


def test_a_write_that_fails_leaves_the_old_records(
    toy: Records, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    toy.write(tmp_path / "r.csv")

    def half(descriptor: int) -> None:
        raise OSError("disk full")

    monkeypatch.setattr("os.fsync", half)
    with pytest.raises(OSError, match="disk full"):
        toy.where(np.array([0])).write(tmp_path / "r.csv")
    assert len(Records.read(tmp_path / "r.csv")) == len(toy)
    assert [path.name for path in tmp_path.iterdir()] == ["r.csv"]


def test_numbers_know_their_file_and_which_way_is_better() -> None:
    assert module_of("loc_acc/small").__name__.endswith("metrics.sizes")
    assert higher_is_better("ap")
    assert higher_is_better("max_f1/easy")
    assert not higher_is_better("false_alarm_at_90")
    assert all(higher_is_better(name) for name in TITLES)
    for name in ("max_f2/easy", "ap/", "loc"):
        with pytest.raises(UsageError, match=f"Unknown number '{name}'"):
            module_of(name)
