"""What pages of studies are made of: rows that are looked up, numbers in cells, cells in tables."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

Rows = list[dict[str, Any]]


def one(rows: Rows, group: str, name: str, epoch: str = "last", protocol: str = "exact", form: str = "",
        test: str = "extended") -> dict[str, Any] | None:  # fmt: skip
    wanted = {"group": group, "name": name, "epoch": epoch, "protocol": protocol, "form": form, "test": test}
    found = [row for row in rows if all(row[key] == value for key, value in wanted.items())]
    return found[0] if found else None


def cell(row: dict[str, Any] | None, metric: str, interval: bool = True) -> str:
    """A number with its interval; a dash where there is none."""
    if row is None:
        return "-"
    value, low, high = row["numbers"][metric]
    return f"{value:.2f} [{low:.1f}, {high:.1f}]" if interval else f"{value:.2f}"


def names(rows: Rows, group: str) -> list[str]:
    return list(dict.fromkeys(row["name"] for row in rows if row["group"] == group))


def filled(words: Path, known: Mapping[str, str]) -> str:
    """The text of a file in which {{name}} stands for a table or a fact; what is not known was not measured."""

    def meant(found: re.Match[str]) -> str:
        return known.get(found[1], "(not measured)")

    return re.sub(r"\{\{(\w+)\}\}", meant, words.read_text(encoding="utf-8"))
