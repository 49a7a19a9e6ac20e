"""`earsight compare`: its formats, its files and how it ends."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest
from reports import report, some_records

from earsight.cli import main
from earsight.report.bootstrap import Difference
from earsight.report.compare_text import words
from earsight.report.published import tables


@pytest.fixture
def pair(tmp_path: Path) -> list[str]:
    better = some_records(0, 300, skill=0.4)
    first = report(tmp_path / "a", "my_model & co", of=better, protocol="official")
    second = report(tmp_path / "b", "ezvsl", of=some_records(1, 300), protocol="official")
    return [str(first), str(second), "--draws", "100"]


def test_text_has_rows_warnings_and_tests(pair: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", *pair]) == 0
    out = capsys.readouterr().out
    assert out.startswith("vggss:extended\nmodel")
    assert "SLAVC + OGL" in out
    assert "my_model & co minus ezvsl, protocol official" in out
    assert "unlikely to be chance in the choice of clips" in out
    assert "not what another training run could" in out


def test_markdown_has_one_table_a_set(pair: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", *pair, "--format", "markdown", "--table", "none"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "## vggss:extended"
    assert sum(line.startswith("|") for line in lines) == 4
    assert any(line.startswith("- my_model &amp; co minus ezvsl") for line in lines)


def test_csv_is_a_table_alone_and_remarks_go_to_stderr(pair: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", *pair, "--format", "csv"]) == 0
    told = capsys.readouterr()
    rows = list(csv.DictReader(io.StringIO(told.out)))
    assert len(rows) == 2 + 11
    assert {row["set"] for row in rows} == {"vggss:extended"}
    centre = next(row for row in rows if row["model"] == "Center Prior")
    assert (centre["AP"], centre["LocAcc"], centre["early stop"]) == ("", "34.16", "")
    assert "minus ezvsl" in told.err


def test_latex_is_escaped_with_the_best_in_bold(pair: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", *pair, "--format", "latex"]) == 0
    lines = capsys.readouterr().out.splitlines()
    start, end = lines.index("\\toprule"), lines.index("\\bottomrule")
    ours = next(line for line in lines[start:end] if line.startswith("my\\_model \\& co"))
    assert ours.count("\\textbf{") == 3
    assert sum("\\textbf" in line for line in lines) == 1  # published rows are of other numbers of clips
    assert all(line.endswith("\\\\") for line in lines[start + 1 : end] if not line.startswith("\\midrule"))
    assert all(line.startswith("%") or not line for line in lines[end + 2 :])


def test_json_holds_rows_and_tests(pair: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", *pair, "--json"]) == 0
    (one,) = json.loads(capsys.readouterr().out)["sets"]
    assert one["rows"][0]["name"] == "my_model & co"
    assert one["tests"][0]["differences"]["ap"]["p"] < 0.05
    centre = next(row for row in one["rows"] if row["name"] == "Center Prior")
    assert (centre["values"]["ap"], centre["n"]) == (None, None)
    assert centre["values"]["loc_acc"] == pytest.approx(0.3416)
    assert (centre["trained_on"], centre["early_stop"], centre["protocol"]) == (None, None, None)
    ours = one["rows"][0]
    assert (ours["trained_on"], ours["early_stop"], ours["protocol"]) == (None, None, "official")
    assert not [value for row in one["rows"] for value in row.values() if value == "-"]


def test_json_has_the_numbers_of_the_report(pair: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", *pair, "--json"]) == 0
    row = json.loads(capsys.readouterr().out)["sets"][0]["rows"][0]
    kept = json.loads((Path(pair[0]) / "metrics.json").read_text())["evaluations"][0]
    assert row["n"] == kept["n"] == 300
    assert row["values"] == {name: kept["metrics"][name] for name in ("ap", "max_f1", "loc_acc")}


def test_lists_without_negatives_are_compared_by_locacc_and_auc(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = some_records(0, 60)
    positives = found.where(found.positives)
    args = ["compare", str(report(tmp_path / "a", of=positives, set="vggss:test")), "--table", "none"]
    assert main(args) == 0
    assert capsys.readouterr().out.splitlines()[1].endswith("N  LocAcc (cIoU@0.5)    AUC")
    assert main([*args, "--metrics", "ap"]) == 0
    assert capsys.readouterr().out.splitlines()[1].endswith("AP")


def test_the_same_seed_says_the_same(pair: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    said = []
    for seed in ("0", "0", "1"):
        assert main(["compare", *pair, "--seed", seed]) == 0
        said.append(capsys.readouterr().out)
    assert said[0] == said[1] != said[2]


def test_the_table_is_written_and_not_replaced_unless_forced(
    pair: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "new" / "table.md"
    flags = ["--format", "markdown", "--out", str(out)]
    assert main(["compare", *pair, *flags]) == 0
    assert out.read_text() == capsys.readouterr().out
    assert main(["compare", *pair, *flags]) == 2
    assert "Expected no file at " in capsys.readouterr().err
    assert main(["compare", *pair, *flags, "--force"]) == 0
    assert main(["compare", *pair, "--out", str(tmp_path)]) == 2
    assert "Expected a file to write, but got the folder" in capsys.readouterr().err


@pytest.mark.parametrize("name", [name for name, _ in tables()])
@pytest.mark.parametrize("format", ["text", "markdown", "csv", "latex"])
def test_a_published_table_is_printed_alone(name: str, format: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", "--table", name, "--format", format]) == 0
    told = capsys.readouterr()
    assert "Source: Mo and Morgado" in (told.err if format == "csv" else told.out)


def test_a_published_table_stands_as_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", "--table", "table2", "--format", "csv"]) == 0
    rows = {row[""]: row for row in csv.DictReader(io.StringIO(capsys.readouterr().out))}
    assert rows["LVS"]["VGG-SS, Early Stop"] == "34.40*/33.36"
    assert list(rows["LVS"].values()) == ["LVS", "71.90*/71.60", "19.60", "34.40*/33.36", "10.43"]
    assert rows["AVObject"]["VGG-SS, NO Early Stop"] == ""


def test_a_published_table_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", "--table", "table3", "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)["cells"]) == 62


@pytest.mark.parametrize(
    ("args", "code", "told"),
    [
        ([], 2, "Expected report folders or a published table, but got neither. Name reports"),
        (["--table", "none"], 2, "but got neither"),
        (["--table", "table9"], 2, "Unknown table 'table9'"),
        (["nowhere"], 2, "Expected a report folder, but got nowhere: there is no such folder. Name the --out"),
        (["x", "--seed", "-1"], 2, "Expected a seed of at least 0, but got -1"),
        (["x", "--draws", "1000001"], 2, "Expected at most 1000000 draws, but got 1000001. 2000 tell"),
        (["x", "x"], 2, "Expected each report once, but got x twice. Leave one out"),
    ],
)
def test_wrong_commands_say_what_to_do(
    args: list[str], code: int, told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["compare", *args]) == code
    assert told in capsys.readouterr().err


def test_a_damaged_report_ends_with_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (report(tmp_path) / "metrics.json").write_text("{")
    assert main(["compare", str(tmp_path)]) == 1
    assert "Expected the numbers of a report, but" in capsys.readouterr().err


def test_words_are_careful() -> None:
    assert words("ap", Difference(0.0231, 0.008, 0.0395, 0.004, 9, 0)) == (
        "+2.31 AP [+0.80, +3.95], p = 0.004; unlikely to be chance in the choice of clips"
    )
    assert words("loc_acc", Difference(-0.01, -0.02, 0.01, 0.3, 9, 0)).endswith("p = 0.300; could be chance")
    assert "p < 0.001" in words("ap", Difference(0.1, 0.05, 0.2, 0.0001, 9, 0))
    assert "false_alarm_at_90 (lower is better)" in words("false_alarm_at_90", Difference(0.1, 0, 0.2, 1, 9, 0))
    assert words("auroc", Difference(float("nan"), 0, 0, 1, 9, 0)) == "AUROC is undefined here"
