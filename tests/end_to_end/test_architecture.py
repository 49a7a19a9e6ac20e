"""docs/architecture.md tells where everything is."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "earsight"
UNNAMED = ("__init__.py", "__main__.py")


def test_every_file_is_named_or_lies_in_a_folder_that_is() -> None:
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    table = page.split("## What is where")[1].split("\n## ")[0]

    def told(path: Path) -> bool:
        folder = path.parent.relative_to(SOURCE).as_posix()
        return (
            any(f"{mark}{path.name}`" in table for mark in "`/") or f"{folder}/`" in table or f"{folder}/NAME" in table
        )

    files = [path for path in SOURCE.rglob("*.py") if path.name not in UNNAMED]
    assert [str(path.relative_to(SOURCE)) for path in sorted(files) if not told(path)] == []
