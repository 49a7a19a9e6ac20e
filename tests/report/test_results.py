"""Facts about reading reports back: what is not one is named, and said what to do about."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
from reports import entry, report, some_records, write

from earsight.errors import DataError, UsageError
from earsight.protocols import get
from earsight.report.results import read_report


def test_a_report_is_read_back(tmp_path: Path) -> None:
    (result,) = read_report(report(tmp_path, protocol="official"))
    assert (result.model, result.set, result.list_hash, result.n) == ("slavc", "vggss:extended", "abc", 80)
    assert result.rebuilt() == get("official")
    assert result.read_records().id.tolist() == some_records().id.tolist()


def test_what_is_undefined_is_nan_and_controls_are_called_so(tmp_path: Path) -> None:
    silent = entry(tmp_path, audio="silent") | {"metrics": {"ap": None, "loc_acc": 0.5}}
    (result,) = read_report(write(tmp_path, silent))
    assert math.isnan(result.metrics["ap"])
    assert result.called == "slavc, silent audio"


@pytest.mark.parametrize("change", [{"gamma": 0.7}, {"upsample": "nearest"}, {"size": "x"}])
def test_a_protocol_that_is_not_what_its_hash_says_is_not_rebuilt(tmp_path: Path, change: dict[str, Any]) -> None:
    one = entry(tmp_path)
    one["protocol"].update(change)
    (result,) = read_report(write(tmp_path, one))
    assert result.rebuilt() is None


def test_a_protocol_without_a_level_is_rebuilt(tmp_path: Path) -> None:
    one = entry(tmp_path, protocol="universal")
    one["protocol"]["level"] = None
    (result,) = read_report(write(tmp_path, one))
    rebuilt = result.rebuilt()
    assert rebuilt is not None
    assert math.isnan(rebuilt.level)


def test_what_is_no_report_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"Expected a report folder, but got .*: it has no metrics.json\. Name the"):
        read_report(tmp_path)
    with pytest.raises(UsageError, match=r"nowhere: there is no such folder\. Name the"):
        read_report(tmp_path / "nowhere")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("{", "cannot be read"),
        ("[]", "cannot be read"),
        ("{}", "no 'evaluations'"),
        ('{"evaluations": [{"model": "a"}]}', "cannot be read"),
        ('{"evaluations": 3}', "cannot be read"),
        ('{"evaluations": ' + 100_000 * "[", "cannot be read .more than 64 lists"),
        ('{"evaluations": [3]}', "cannot be read"),
        ("\udcff", "cannot be read"),
        ('{"evaluations": []}', "but got none"),
    ],
)
def test_damaged_numbers_are_told(tmp_path: Path, text: str, told: str) -> None:
    (tmp_path / "metrics.json").write_bytes(text.encode(errors="surrogateescape"))
    with pytest.raises(DataError, match=rf"Expected .*{told}.* Write the report again"):
        read_report(tmp_path)


@pytest.mark.parametrize("name", ["../secret.csv", "/etc/passwd", 3, ""])
def test_records_outside_the_folder_are_refused(tmp_path: Path, name: object) -> None:
    write(tmp_path, entry(tmp_path, records=name))
    with pytest.raises(DataError, match="are not a file of the folder"):
        read_report(tmp_path)


def test_missing_and_damaged_records_are_told(tmp_path: Path) -> None:
    (result,) = read_report(report(tmp_path))
    assert result.records is not None
    result.records.write_bytes(b"no records")
    with pytest.raises(DataError, match=r"records of a report, but .*csv cannot be read .* Write the report again"):
        result.read_records()
    result.records.unlink()
    with pytest.raises(DataError, match=r"records of slavc in .*, but .*csv is not there\. Write the report again"):
        result.read_records()
    (without,) = read_report(write(tmp_path, entry(tmp_path, records=None)))
    with pytest.raises(DataError, match=r"its metrics\.json names none\. Write"):
        without.read_records()


def test_a_name_of_several_lines_becomes_one(tmp_path: Path) -> None:
    (result,) = read_report(write(tmp_path, {**entry(tmp_path, audio="silent"), "model": "my\n\tmodel"}))
    assert result.called == "my\\n\\tmodel, silent audio"


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"n": 10**30}, "no usable n"),
        ({"n": "4"}, "no usable n"),
        ({"model": 3, "set": None}, "no usable model, set"),
        ({"protocol": []}, "no usable protocol"),
        ({"metrics": [["ap", 1]]}, "no usable metrics"),
        ({"metrics": {"ap": "high"}}, "could not convert"),
        ({"training": [1], "warnings": "careful", "failures": 3}, "no usable warnings, failures, training"),
        ({"failures": ["a"]}, "string indices"),
    ],
)
def test_numbers_of_other_kinds_are_refused(tmp_path: Path, change: dict[str, object], told: str) -> None:
    write(tmp_path, entry(tmp_path) | change)
    with pytest.raises(
        DataError, match=rf"Expected the numbers of a report, but .*metrics.json cannot be read .*{told}"
    ):
        read_report(tmp_path)
