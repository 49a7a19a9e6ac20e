"""Every earsight command that any page shows is one that the command line takes."""

from __future__ import annotations

import re
import shlex
from dataclasses import fields
from pathlib import Path

import pytest

from earsight import cli

ROOT = Path(__file__).parents[2]
OWN = "add-a-method.md"
"""Trains a method that its reader writes; test_docs.py does it."""
PAGES = sorted(page for page in [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")] if page.name != OWN)
NUMBERS = {"LR": "0.1", "ALPHA": "0.5"}
"""Words that stand for a number."""


def shown(page: Path) -> list[str]:
    """Commands in blocks, which go on where the next line is indented, and those in words that name their input."""
    parts = re.split(r"^```\w*\n", page.read_text(encoding="utf-8"), flags=re.M)
    blocks = [re.sub(r" *\\?\n +(?=-)", " ", block) for block in parts[1::2]]
    lines = [line.split("  #")[0] for block in blocks for line in block.splitlines()]
    words = [re.sub(r"\s+", " ", found) for part in parts[::2] for found in re.findall(r"`(earsight [^`]+)`", part)]
    words = [one for one in words if re.search(r" --(on|recipe|data|out) ", one)]
    return [one for one in [*lines, *words] if re.match(r"earsight \w", one) and "..." not in one]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_the_command_line_takes_every_command_of_a_page(
    page: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for module in cli.COMMANDS.values():
        monkeypatch.setattr(f"earsight.cli.{module}.run", lambda settings: 0)
    for command in shown(page):
        args = [NUMBERS.get(word, word) for word in shlex.split(command)[1:]]
        assert cli.main(args) == 0, f"{command}\n{capsys.readouterr()}"


def test_the_quickstart_names_the_commands_that_take_a_limit() -> None:
    limited = {name for name in cli.COMMANDS if "limit" in {f.name for f in fields(cli.settings_of(name))}}
    text = (ROOT / "docs/quickstart.md").read_text(encoding="utf-8")
    (named,) = re.findall(r"With `--limit 64`, (.*?) use 64 clips", text, flags=re.S)
    assert set(re.findall(r"`([^`]+)`", named)) == limited


def test_commands_are_found_in_blocks_and_in_words(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "`earsight eval` and `earsight eval RUN --on\ntoybox`, `earsight train ... --out X`\n"
        "```\nearsight show X  # something\nmake demo\nearsight train slavc --on toybox \\\n    --out runs/a\n```\n"
    )
    assert shown(page) == [
        "earsight show X",
        "earsight train slavc --on toybox --out runs/a",
        "earsight eval RUN --on toybox",
    ]
