"""Facts about the published numbers, held against the paper's own source where it is at hand."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from earsight.errors import UsageError
from earsight.metrics.base import module_of
from earsight.report import published

LABELS = {
    "table1": "tab:dataset_size",
    "table2": "tab: exp_sota_overfit",
    "table3": "tab: exp_sota_all_plus_silent",
    "table5": "tab: ab_negative_type",
    "table6": "tab: exp_sota_flickr10k",
    "table7": "tab: exp_openset",
}
ABLATIONS = ("vdrop", "adrop", "mom", "infer")
COUNTS = {"table1": 40, "table2": 42, "table3": 62, "table4": 57, "table5": 36, "table6": 55, "table7": 88}


def test_every_table_is_there_with_all_its_cells() -> None:
    assert {name: len(published.table(name).cells) for name, _ in published.tables()} == COUNTS
    assert all(title and published.table(name).notes for name, title in published.tables())


def test_percentages_are_percentages_and_counts_are_counts() -> None:
    for name, _ in published.tables():
        one = published.table(name)
        if one.unit == "percent":
            assert all(0 <= cell.value <= 100 for cell in one.cells)
        else:
            assert all(cell.value >= 0 and cell.value == int(cell.value) for cell in one.cells)


def test_every_number_says_what_it_is() -> None:
    sets = {"vggss:test", "vggss:extended", "vggss:heard", "vggss:unheard"}
    sets |= {"flickr_soundnet:test", "flickr_soundnet:extended"}
    for name, _ in published.tables():
        for cell in published.table(name).cells:
            assert cell.set in sets
            assert cell.column in published.table(name).columns
            assert f"Table {name[-1]}" in cell.source
            assert cell.method in cell.row or cell.table in ("table4", "table6", "table7") or "ours" in cell.row
            if name != "table1":
                module_of(cell.metric)
                assert cell.trained_on or cell.method in ("Center Prior", "OGL")


def test_no_cell_is_there_twice() -> None:
    keys = Counter(
        (cell.table, cell.row, cell.column, cell.reported_by)
        for name, _ in published.tables()
        for cell in published.table(name).cells
    )
    assert max(keys.values()) == 1


def test_the_sums_of_the_first_table_hold() -> None:
    for name in ("flickr_soundnet:extended", "vggss:extended", "vggss:test"):
        n = {cell.metric.removeprefix("n/"): cell.value for cell in published.table("table1").cells if cell.set == name}
        assert n["small"] + n["medium"] + n["large"] + n["huge"] == n["positive"]
        assert n["real"] + n["easy"] + n["hard"] == n["negative"]
        assert n["positive"] + n["negative"] == n["n"] == published.clips(name)
    assert published.clips("vggss:heard") is None


def test_starred_values_are_numbers_of_their_own() -> None:
    quoted = [
        c for name, _ in published.tables() for c in published.table(name).cells if c.reported_by != published.HERE
    ]
    assert len(quoted) == 16
    assert all(cell.early_stop and "as quoted in" in cell.source for cell in quoted)
    lvs = [c for c in published.table("table2").cells if c.method == "LVS" and c.set == "vggss:test" and c.early_stop]
    assert [(cell.value, cell.reported_by) for cell in lvs] == [(34.4, "original paper"), (33.36, "SLAVC paper")]
    assert lvs[0].source.startswith("Chen et al., Localizing visual sounds the hard way")


def test_cells_that_cannot_be_are_marked() -> None:
    odd = {
        (cell.table, cell.method, cell.set, cell.value): cell.note
        for name, _ in published.tables()
        for cell in published.table(name).cells
        if cell.note
    }
    assert len(odd) == 11
    assert "gives max-F1 29.18" in odd["table3", "Attention10k", "flickr_soundnet:extended", 24.0]
    assert "gives max-F1 53.43" in odd["table3", "DSOL", "flickr_soundnet:extended", 49.4]
    assert sum(key[0] == "table3" for key in odd) == 2


def test_what_is_published_about_a_set_comes_row_by_row() -> None:
    rows = published.for_set("vggss:extended", ["ap", "max_f1", "loc_acc"], ["table3"])
    assert len(rows) == 11
    slavc = next(cells for cells in rows if cells[0].method == "SLAVC")
    assert {cell.metric: cell.value for cell in slavc} == {"ap": 32.95, "max_f1": 40.0, "loc_acc": 37.79}
    for cell in slavc:
        assert (cell.early_stop, cell.trained_on, cell.reported_by) == (False, "vggsound:144k", "SLAVC paper")
    (centre,) = next(cells for cells in rows if cells[0].method == "Center Prior")
    assert (centre.metric, centre.value, centre.early_stop, centre.trained_on) == ("loc_acc", 34.16, None, "")
    assert {cells[0].table for cells in published.for_set("vggss:extended")} == {"table3", "table4", "table5"}
    assert published.for_set("toybox:test") == []
    assert published.for_set("vggss:test", ["ap"]) == []


def test_an_unknown_table_lists_the_known_ones() -> None:
    with pytest.raises(UsageError, match="Unknown table 'table8', did you mean 'table7'"):
        published.table("table8")


@pytest.mark.slow
def test_published_numbers_need_no_torch() -> None:
    code = "import sys; from earsight.cli.about import entries; entries('tables'); sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_the_numbers_are_part_of_the_package() -> None:
    settings = Path(__file__).resolve().parents[2] / "pyproject.toml"
    assert published.FILE.is_file()
    assert '"report/*.j2"' in settings.read_text(encoding="utf-8")
    assert (
        f'"report/{published.FILE.name}"'
        in settings.read_text(encoding="utf-8").split("package-data]")[1].split("[tool")[0]
    )


@pytest.fixture(scope="module")
def paper(shared: Path) -> str:
    path = shared / "paper.tex"
    if not path.is_file():
        pytest.skip("no source of the paper beside the checkout")
    return path.read_text(encoding="utf-8")


def printed(text: str) -> list[tuple[float, bool]]:
    """Every number in the rows of a table's source, in order, and whether it carries a star."""
    body = re.split(r"\\midrule", text, maxsplit=1)[1]
    body = re.sub(r"\\(cite|CC|RC|label|multirow)\{[^}]*\}(\{\*\}\{[^}]*\})?|10k|110", "", body)
    found = re.findall(r"(\d+(?:\.\d*)?)(\$\^\\star\$)?", body)
    return [(float(number), bool(star)) for number, star in found]


@pytest.mark.parametrize("name", LABELS)
def test_numbers_are_those_of_the_paper_one_by_one(name: str, paper: str) -> None:
    start = paper.index(f"\\label{{{LABELS[name]}}}")
    block = paper[start : paper.index("\\bottomrule", start)]
    held = [(cell.value, cell.reported_by == published.ORIGINAL) for cell in published.table(name).cells]
    assert held == printed(block)


@pytest.mark.parametrize(("part", "command"), list(zip("abcd", ABLATIONS, strict=True)))
def test_ablations_are_those_of_the_paper_one_by_one(part: str, command: str, paper: str) -> None:
    start = paper.index(f"\\newcommand{{\\{command}}}")
    block = paper[start : paper.index("\\bottomrule", start)]
    cells = [cell for cell in published.table("table4").cells if cell.row.startswith(f"{part}: ")]
    held: list[tuple[float, bool]] = []
    for cell in cells:
        if cell.column == "AP":  # the setting, if it is a number, stands first in its row
            held += [(float(number), False) for number in re.findall(r" (\d+(?:\.\d*)?)$", cell.row)]
        held.append((cell.value, False))
    assert held == printed(block)
    assert all(f"Table 4{part}" in cell.source for cell in cells)


def test_sizes_are_those_of_the_paper(paper: str) -> None:
    row = next(line for line in paper.split("\n") if "Ground-truth size (pixels)" in line)
    values = json.loads(published.FILE.read_text(encoding="utf-8"))["tables"][0]["columns"]
    assert [column["pixels"] for column in values] == re.findall(r"\$([^$]*)\$", row)
