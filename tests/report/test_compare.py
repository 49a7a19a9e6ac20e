"""Facts about comparisons: what stands beside what, what is warned of, and what is tested."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from reports import entry, report, some_records, write

from earsight.errors import DataError, UsageError
from earsight.report import published
from earsight.report.compare import Comparison, Shown, best, compare
from earsight.report.results import read_report

METRICS = ("ap", "max_f1", "loc_acc")


def made(*folders: Path, table: str = "none", draws: int = 20) -> list[Comparison]:
    return compare([read_report(folder) for folder in folders], METRICS, table, draws)


def shown(value: float, group: tuple[str, str, int] | None = ("a", "b", 1), metric: str = "ap") -> Shown:
    return Shown("m", "", "-", "-", "exact", 1, {metric: value / 100}, group, True)


def test_two_reports_stand_in_one_table_and_are_tested(tmp_path: Path) -> None:
    (one,) = made(report(tmp_path / "a"), report(tmp_path / "b", "ezvsl", of=some_records(1)))
    assert [(row.name, row.source, row.n) for row in one.rows] == [("slavc", "a", 80), ("ezvsl", "b", 80)]
    assert one.warnings == ()
    (test,) = one.tests
    assert (test.first, test.second) == ("slavc", "ezvsl")
    assert list(test.differences) == list(METRICS)
    assert test.differences["ap"].value == pytest.approx(one.rows[0].values["ap"] - one.rows[1].values["ap"])


def test_the_first_is_tested_against_each_other(tmp_path: Path) -> None:
    folders = [report(tmp_path / name, name, of=some_records(i)) for i, name in enumerate("abc")]
    (one,) = made(*folders)
    assert [(test.first, test.second) for test in one.tests] == [("a", "b"), ("a", "c")]


def test_models_of_one_name_are_told_apart_by_their_reports(tmp_path: Path) -> None:
    (one,) = made(report(tmp_path / "a"), report(tmp_path / "b"))
    assert [row.name for row in one.rows] == ["slavc (a)", "slavc (b)"]
    (one,) = made(report(tmp_path / "x" / "a"), report(tmp_path / "y" / "a"))
    assert [row.name for row in one.rows] == [f"slavc ({tmp_path}/x/a)", f"slavc ({tmp_path}/y/a)"]


def test_other_lists_are_warned_of_and_not_tested(tmp_path: Path) -> None:
    (one,) = made(report(tmp_path / "a"), report(tmp_path / "b", "ezvsl", list_hash="def"))
    assert "Rows of different lists of clips are not comparable: abc: slavc; def: ezvsl." in one.warnings
    assert not [line for line in one.warnings if line.startswith("The tests below")]
    assert one.tests == ()
    assert "slavc was measured on another list of clips" in one.untested[0]


def test_what_a_report_warns_of_is_said_again(tmp_path: Path) -> None:
    leaks = "3 of 80 test clips are in the training list vggsound:144k"
    gone = [{"id": "c99", "reason": "no map"}]
    told = [leaks, "Whole sentences keep one full stop."]
    other = report(tmp_path / "b", "ezvsl", of=some_records(1), warnings=told, failures=gone)
    (one,) = made(report(tmp_path / "a"), other)
    assert f"ezvsl: {leaks}." in one.warnings
    assert "ezvsl: Whole sentences keep one full stop." in one.warnings
    assert "Compare with care: as many clips, but not the same ones are missing." in one.warnings


def test_other_protocols_are_warned_of_and_not_tested(tmp_path: Path) -> None:
    (one,) = made(report(tmp_path / "a"), report(tmp_path / "b", "ezvsl", protocol="paper"))
    assert any(line.startswith("Rows of different protocols are not comparable: exact (") for line in one.warnings)
    assert one.tests == ()
    assert "slavc was measured under another protocol" in one.untested[0]


def test_several_protocols_of_a_report_are_tested_each_with_its_own(tmp_path: Path) -> None:
    folders = [
        write(f, *(entry(f, model, protocol=p, of=some_records(i)) for p in ("exact", "official")))
        for i, (f, model) in enumerate([(tmp_path / "a", "slavc"), (tmp_path / "b", "ezvsl")])
    ]
    (one,) = made(*folders)
    assert [test.protocol.split()[0] for test in one.tests] == ["exact", "official"]
    assert one.untested == ()


def test_other_numbers_of_clips_are_warned_of_and_the_shared_ones_tested(tmp_path: Path) -> None:
    fewer = some_records(1).where(np.arange(70))
    (one,) = made(report(tmp_path / "a"), report(tmp_path / "b", "ezvsl", of=fewer))
    assert one.warnings[:2] == (
        "Rows with different numbers of clips are not comparable: 80 clips: slavc; 70 clips: ezvsl.",
        "The tests below are of the clips that both models have.",
    )
    assert (one.tests[0].differences["ap"].shared, one.tests[0].differences["ap"].unshared) == (70, 10)
    assert one.rows[0].group != one.rows[1].group


def test_as_many_other_clips_of_a_list_are_no_rivals(tmp_path: Path) -> None:
    gone = [{"id": "c99", "reason": "no map"}]
    other = report(tmp_path / "b", "ezvsl", of=some_records(1), list_hash="def", full_list_hash="abc", failures=gone)
    (one,) = made(report(tmp_path / "a"), other)
    assert one.rows[0].group != one.rows[1].group
    assert "Compare with care: as many clips, but not the same ones are missing." in one.warnings
    assert len(one.tests) == 1


def test_controls_are_rows_that_nothing_is_compared_with(tmp_path: Path) -> None:
    a = tmp_path / "a"
    write(a, entry(a), entry(a, audio="silent"), entry(a, "centre prior", audio="none"))
    b = tmp_path / "b"
    write(b, entry(b, "ezvsl"), entry(b, "centre prior", audio="none"))
    (one,) = made(a, b)
    assert [row.name for row in one.rows] == ["slavc", "slavc, silent audio", "centre prior", "ezvsl"]
    assert [row.group is None for row in one.rows] == [False, True, True, False]
    assert "Not every model has the same controls: silent: slavc; none: ezvsl." in one.warnings
    assert len(one.tests) == 1


def test_a_set_that_a_report_lacks_is_told(tmp_path: Path) -> None:
    found = made(report(tmp_path / "a"), report(tmp_path / "b", set="toybox:test"))
    assert [one.set for one in found] == ["vggss:extended", "toybox:test"]
    assert found[0].untested == (f"No test with {tmp_path / 'b'}: it has nothing on vggss:extended.",)


def test_a_protocol_of_another_version_is_not_tested(tmp_path: Path) -> None:
    for name in "ab":
        one = entry(tmp_path / name, name)
        one["protocol"]["gamma"] = 0.7
        write(tmp_path / name, one)
    (found,) = made(tmp_path / "a", tmp_path / "b")
    assert found.tests == ()
    assert "does not know their protocol exact" in found.untested[0]


def test_records_that_are_gone_are_told_when_they_are_needed(tmp_path: Path) -> None:
    a, b = report(tmp_path / "a"), report(tmp_path / "b", "ezvsl")
    next(b.glob("*.csv")).unlink()
    assert made(b)[0].tests == ()
    with pytest.raises(DataError, match="is not there"):
        made(a, b)


def test_published_numbers_stand_beside_with_what_keeps_them_apart(tmp_path: Path) -> None:
    (one,) = made(report(tmp_path / "a"), table="")
    theirs = [row for row in one.rows if not row.ours]
    assert {row.source for row in theirs} == {"Table 3"}
    slavc = next(row for row in theirs if row.name == "SLAVC")
    assert slavc.values == pytest.approx({"ap": 0.3295, "max_f1": 0.4, "loc_acc": 0.3779})
    assert (slavc.early_stop, slavc.trained_on, slavc.group) == ("no", "vggsound:144k", None)
    assert any("rows under exact" in line and "not comparable" in line for line in one.warnings)
    assert "Published numbers are on 10316 clips; not comparable with them: slavc with 80." in one.warnings


def test_cells_that_cannot_be_are_warned_of(tmp_path: Path) -> None:
    (one,) = made(report(tmp_path / "a", set="flickr_soundnet:extended"), table="table3")
    assert sum("Cannot be" in line for line in one.warnings) == 2


def test_early_stopping_is_a_column_and_a_warning(tmp_path: Path) -> None:
    (one,) = made(report(tmp_path / "a", set="vggss:test"), table="")
    assert {row.early_stop for row in one.rows} == {"-", "yes", "no"}
    assert any(row.source == "Table 2, quoted" for row in one.rows)
    assert any("early stop 'yes'" in line for line in one.warnings)


def test_the_published_arithmetic_on_as_many_clips_joins_the_published_rows(tmp_path: Path) -> None:
    (one,) = made(report(tmp_path / "a", protocol="official", n=10316), table="table3")
    assert {row.group for row in one.rows} == {one.rows[0].group}
    (one,) = made(report(tmp_path / "b", protocol="official", set="vggss:test", n=5158), table="table2")
    assert [row.early_stop for row in one.rows if not row.ours and row.group] == ["no"] * 9


def test_a_named_table_without_the_set_is_told(tmp_path: Path) -> None:
    (one,) = made(report(tmp_path / "a", set="toybox:test"), table="table3")
    assert one.warnings == ("table3 has no number of these on toybox:test.",)


def test_the_best_is_among_comparable_rows_only() -> None:
    assert best([shown(10), shown(12), shown(99, None)], "ap") == {1}
    assert best([shown(10), shown(12, ("a", "b", 2))], "ap") == set()
    assert best([shown(12.001), shown(12.002), shown(float("nan"))], "ap") == {0, 1}
    low, high = (shown(value, metric="false_alarm_at_90") for value in (10, 20))
    assert best([low, high], "false_alarm_at_90") == {0}


def test_unknown_names_are_refused(tmp_path: Path) -> None:
    reports = [read_report(report(tmp_path))]
    with pytest.raises(UsageError, match="Unknown number 'map'"):
        compare(reports, ["map"])
    with pytest.raises(UsageError, match="Unknown table 'table9'"):
        compare(reports, METRICS, "table9")


def test_how_models_were_trained_is_shown_and_warned_of_where_it_differs(tmp_path: Path) -> None:
    first = {"on": "toybox:train", "clips": 3072, "limit": 0, "epoch": "last", "val": "toybox:val"}
    second = {**first, "clips": 32, "limit": 32, "supervised": True, "epoch": "best"}
    folders = [report(tmp_path / "a", "a", training=first), report(tmp_path / "b", "b", training=second)]
    (one,) = made(*folders, report(tmp_path / "c", "c"))
    told = [(row.trained_on, row.early_stop) for row in one.rows]
    limited = "toybox:train, 32 clips, with ground truth"
    assert told == [("toybox:train", "no"), (limited, "by toybox:val"), ("-", "-")]
    assert f"Not trained on the same: toybox:train: a; {limited}: b." in one.warnings
    (one,) = made(folders[0], report(tmp_path / "d", "d", training=first))
    assert not [warning for warning in one.warnings if "trained" in warning]


def test_a_part_of_a_number_that_nothing_has_is_refused(tmp_path: Path) -> None:
    reports = [read_report(report(tmp_path / "a"))]
    with pytest.raises(UsageError, match=r"but none has max_f1/hardd\. They have max_f1/easy"):
        compare(reports, ["max_f1/hardd"], "none", 20)
    assert compare(reports, ["max_f1/easy"], "none", 20)


def test_the_tables_that_fit_by_themselves_exist() -> None:
    from earsight.report.compare import TABLES

    assert set(TABLES) < {name for name, _ in published.tables()}
