"""Facts about report folders and tables."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from earsight.errors import UsageError
from earsight.evaluation import Evaluation, measure
from earsight.metrics import average_precision
from earsight.metrics.base import Records
from earsight.protocols import get
from earsight.report.figures import Tile
from earsight.report.groups import lines
from earsight.report.tables import percent, render
from earsight.report.write import Attachments, write_report
from earsight.types import Row

EXACT = get("exact")


def some(audio: str = "real", model: str = "slavc", set_name: str = "toybox:extended", seed: int = 0) -> Evaluation:
    random = np.random.default_rng(seed)
    rows = [Row(f"c{i}", kind="easy" if i % 2 else "positive") for i in range(40)]
    columns = {name: random.random(40) for name in ("confidence", "ciou")}
    records = Records.of(rows, area=np.full(40, 9000.0), by_size=random.random((40, 9)), **columns)
    numbers, floor = measure(records, EXACT), average_precision.f1_floor(records, EXACT)
    failures = (("broken", "/data/of/mine/broken.mp4: ends too early."),)
    return Evaluation(set_name, "abc", EXACT, audio, records, numbers, floor, 0.5, failures, model, rows=41)


def write(folder: Path, evaluations: Sequence[Evaluation], **options: Any) -> list[Path]:
    """A report with few draws: how sure its intervals are is another test's matter."""
    return write_report(folder, evaluations, draws=20, **options)


ALL = [some("none", "centre prior", seed=3), some(), some("silent", seed=2), some("shuffled", seed=1)]


def test_lines_come_in_order_and_in_percent() -> None:
    rows = lines(ALL)
    assert [row["model"] for row in rows] == [
        "slavc",
        "slavc, shuffled audio",
        "slavc, silent audio",
        "centre prior",
        "ceiling (top_half)",
    ]
    assert list(rows[0]) == ["set", "model", "AP", "max-F1", "F1 floor", "LocAcc (cIoU@0.5)", "AUC", "AUROC", "N"]
    assert rows[0]["LocAcc (cIoU@0.5)"] == f"{100 * ALL[1].metrics['loc_acc']:.2f}"
    assert rows[0]["N"] == "40"
    assert rows[0]["F1 floor"] == percent(ALL[1].floor)
    assert rows[4]["AP"] == "-"
    assert rows[4]["F1 floor"] == "-"
    assert rows[4]["LocAcc (cIoU@0.5)"] == "50.00"


def test_without_negatives_locacc_and_auc_lead() -> None:
    alone = replace(some(), records=some().records.where(some().records.positives))
    rows = lines([alone])
    assert list(rows[0])[2:] == ["LocAcc (cIoU@0.5)", "AUC", "AP", "max-F1", "F1 floor", "AUROC", "N"]
    assert list(rows[-1]) == list(rows[0])
    assert list(lines([alone, some(set_name="other:extended")])[0])[2] == "AP"


def test_locacc_says_the_gamma_that_all_lines_share() -> None:
    strict = replace(some(), protocol=get("exact:gamma=0.75"))
    assert "LocAcc (cIoU@0.75)" in lines([strict])[0]
    assert "LocAcc" in lines([some(), strict])[0]


def test_each_model_has_its_own_floor_and_each_set_its_own_lines() -> None:
    rows = lines([some(), some(model="ezvsl", seed=5), some(set_name="other:test")])
    first = [row for row in rows if row["set"] == "toybox:extended"]
    assert [row["model"] for row in first] == ["slavc", "ezvsl", "ceiling (top_half)"]
    assert first[0]["F1 floor"] != first[1]["F1 floor"]
    assert len([row for row in rows if row["set"] == "other:test"]) == 2


def test_lines_name_the_protocol_where_there_are_several() -> None:
    rows = lines([some(), replace(some(), protocol=get("paper"))])
    assert [row["protocol"] for row in rows] == ["exact", "exact", "paper", "paper"]
    assert list(rows[0])[:3] == ["set", "protocol", "model"]


def test_tables_line_up() -> None:
    rows = lines(ALL)
    text = render(rows).splitlines()
    assert len({len(line) for line in text}) == 1
    markdown = render(rows, "markdown").splitlines()
    assert len({len(line) for line in markdown}) == 1
    assert len(markdown) == len(rows) + 2
    assert render([]) == ""


def test_a_report_holds_everything(tmp_path: Path) -> None:
    tile = Tile(np.zeros((3, 32, 32), dtype=np.uint8), np.eye(32, dtype=np.float32))
    tiles = {"A few": [tile], "Best": [tile, tile], "None": []}
    (tmp_path / "log.jsonl").write_text('{"step": 1, "loss": 1.0}\n{"step": 2, "epoch": 0, "val": {"loc_acc": 0.5}}\n')
    files = write(tmp_path / "report", ALL, attached=Attachments(tiles, tmp_path, values={"seconds": 3}))
    assert {str(path.relative_to(tmp_path / "report")) for path in files} == {
        "report.html",
        "metrics.json",
        "table.md",
        "records-toybox-extended.csv",
        "records-toybox-extended-shuffled.csv",
        "records-toybox-extended-silent.csv",
        "records-toybox-extended-centre.csv",
        "plots/pr-toybox-extended.png",
        "plots/f1-toybox-extended.png",
        "plots/iou-toybox-extended.png",
        "plots/size-toybox-extended.png",
        "plots/confidence-toybox-extended.png",
        "plots/overlays.png",
        "plots/overlays-best.png",
        "plots/training.png",
    }
    assert all(path.stat().st_size > 0 for path in files)
    assert {path for path in (tmp_path / "report").rglob("*") if path.is_file()} == set(files)
    values = json.loads((tmp_path / "report" / "metrics.json").read_text())
    assert values["extra"] == {"seconds": 3}
    assert values["evaluations"][1]["metrics"]["ap"] == ALL[1].metrics["ap"]
    back = Records.read(tmp_path / "report" / values["evaluations"][1]["records"])
    assert measure(back, EXACT) == pytest.approx(ALL[1].metrics, rel=0, abs=0, nan_ok=True)


def test_the_markdown_card_says_how_it_was_measured_and_what_is_missing(tmp_path: Path) -> None:
    write(tmp_path, ALL, attached=Attachments(command="earsight eval x --on toybox"))
    page = (tmp_path / "table.md").read_text()
    assert EXACT.hash in page
    assert "40 of 41 clips" in page
    assert "1 clips could not be read" in page
    assert "- broken: broken.mp4: ends too early." in page
    for part in ("## toybox:extended", "### slavc", "Audio drop", "By size of the source", "By kind of negative"):
        assert part in page
    assert "| strict_hits       | no       |" in page
    assert "    earsight eval x --on toybox\n" in page


def test_metrics_say_what_the_card_says(tmp_path: Path) -> None:
    write(tmp_path, ALL, attached=Attachments(command="earsight eval /home/me/x --on toybox"))
    text = (tmp_path / "metrics.json").read_text()
    assert "/data/of/mine" not in text
    assert "/home/me" not in text
    values = json.loads(text)
    assert "extra" not in values
    entry = values["evaluations"][1]
    assert (entry["n"], entry["rows"], entry["missing"]) == (40, 41, ["broken"])
    assert entry["failures"] == [{"id": "broken", "reason": "broken.mp4: ends too early."}]
    low, high = entry["intervals"]["loc_acc"]
    assert low <= entry["metrics"]["loc_acc"] <= high
    assert any("1 of 41 clips are missing (2.4%)" in warning for warning in entry["warnings"])
    (group,) = values["groups"]
    assert (group["set"], group["protocol"], group["protocol_hash"]) == ("toybox:extended", "exact", EXACT.hash)
    drop = group["audio_drop"]["slavc"]["shuffled"]["loc_acc"]
    assert drop["value"] == pytest.approx(ALL[1].metrics["loc_acc"] - ALL[3].metrics["loc_acc"])
    assert drop["interval"][0] <= drop["value"] <= drop["interval"][1]
    assert set(group["audio_drop"]["slavc"]) == {"shuffled", "silent"}
    assert set(entry["warnings"]) <= set(group["warnings"])


def test_names_cannot_break_the_markdown_table(tmp_path: Path) -> None:
    write(tmp_path, [some(model="a|b\n| c")])
    rows = [line for line in (tmp_path / "table.md").read_text().splitlines() if "a\\|b" in line]
    assert any(line.startswith("| a\\|b\\\\n\\| c") for line in rows)


def test_names_bring_no_link_and_no_codes_into_the_card(tmp_path: Path) -> None:
    evil = "![x](http://evil/a.png) \x1b[2J\u202e\ud800 `<img src=x>`\n# forged"
    failed = replace(some(model=evil), failures=((evil, evil),), warnings=(evil,), rows=41)
    write(tmp_path, [failed], attached=Attachments(command=evil))
    for name in ("table.md", "report.html"):
        page = (tmp_path / name).read_text(encoding="utf-8")
        assert not set(page) & {"\x1b", "\u202e"}
        assert "<img src=x" not in page.split("## How to reproduce")[0]
        assert "\n# forged" not in page
    prose = [line for line in (tmp_path / "table.md").read_text().splitlines() if not line.startswith("    ")]
    assert "![x]" not in "\n".join(prose)


def test_no_name_is_a_formula_and_none_is_missing_from_a_legend(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    one = some(model="_$x_{$ \u6771")
    costly = np.where(one.records.positives, "positive", "costs $5 {and $")
    records = replace(one.records, kind=costly)
    said: list[str] = []
    image = Tile(np.zeros((3, 32, 32), np.uint8), np.eye(32, dtype=np.float32), "hears $5 {and $\n\x1b[2J")
    written = write(
        tmp_path, [replace(one, records=records)], attached=Attachments({"Best": [image]}), note=said.append
    )
    assert said == []
    assert {path.name for path in written} >= {"confidence-toybox-extended.png", "overlays.png"}
    assert "Glyph" not in capsys.readouterr().err


def test_a_plot_that_fails_leaves_the_rest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(records: Records, protocol: object) -> None:
        raise RuntimeError("no\nway <b>")

    monkeypatch.setattr("earsight.report.figures.f1_by_threshold", broken)
    said: list[str] = []
    written = write(tmp_path, ALL, note=said.append)
    told = "The plot f1-toybox-extended.png could not be drawn and is left out (RuntimeError: no\\nway <b>)."
    assert said == [told]
    names = {path.name for path in written}
    assert "pr-toybox-extended.png" in names
    assert "f1-toybox-extended.png" not in names
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert told.replace("<b>", "&lt;b&gt;") in page
    assert all((path.is_file()) for path in written)


def test_names_cannot_bring_html_into_the_markdown_card(tmp_path: Path) -> None:
    named = [some(model="<b>x|y</b>"), some(model="other", seed=1), some("silent", "<b>x|y</b>", seed=2)]
    write(tmp_path, [replace(one, set_name="<i>:test") for one in named])
    page = (tmp_path / "table.md").read_text()
    assert "<" not in page
    assert "### &lt;b&gt;x\\|y&lt;/b&gt;\n" in page
    header = next(line for line in page.splitlines() if line.startswith("| size "))
    assert "&lt;b&gt;x\\|y&lt;/b&gt; |" in header  # a column here, where there are several models
    assert "&lt;i&gt;:test" in page


def test_the_same_evaluations_give_the_same_bytes(tmp_path: Path) -> None:
    first, second = (write(tmp_path / name, ALL) for name in ("a", "b"))
    for one, two in zip(first, second, strict=True):
        assert one.read_bytes() == two.read_bytes()


def test_a_report_is_not_overwritten_unless_forced(tmp_path: Path) -> None:
    write(tmp_path, ALL[:2])
    before = (tmp_path / "metrics.json").read_bytes()
    with pytest.raises(UsageError, match=r"without a report, but got .*metrics.json .* use --force"):
        write(tmp_path, [some(seed=9)])
    assert (tmp_path / "metrics.json").read_bytes() == before
    write(tmp_path, [some(seed=9)], force=True)
    assert (tmp_path / "metrics.json").read_bytes() != before


def test_files_are_told_apart_by_model_and_protocol(tmp_path: Path) -> None:
    other = replace(some(), protocol=get("paper"))
    names = {path.name for path in write(tmp_path, [some(), some(model="ez/vsl"), other])}
    assert {"records-toybox-extended-slavc-exact.csv", "records-toybox-extended-ez-vsl-exact.csv"} <= names
    assert "records-toybox-extended-slavc-paper.csv" in names


def test_two_equal_evaluations_and_none_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="differ in set, model, protocol or audio, but got two toybox-extended"):
        write(tmp_path, [some(), some()])
    with pytest.raises(UsageError, match="at least one evaluation to report, but got none"):
        write(tmp_path, [])
