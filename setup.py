"""What pyproject.toml cannot say: project links and README's pictures by their addresses, from one setting there."""

import re
import tomllib
from pathlib import Path

from setuptools import setup

ROOT = Path(__file__).parent
PAGES = {"Documentation": "tree/main/docs", "Changelog": "blob/main/CHANGELOG.md", "Issues": "issues"}


def links(repository: str) -> dict[str, str]:
    """The project links of a repository; none while there is none."""
    return (
        {"Source": repository, **{name: f"{repository}/{page}" for name, page in PAGES.items()}} if repository else {}
    )


def readme(text: str, repository: str) -> str:
    """README for a package index, which has neither the pictures nor the pages that it points to."""
    if not repository:
        return text
    text = re.sub(r"(!\[[^]]*\]\()(?!\w+:)([^)]+\))", rf"\g<1>{repository}/raw/main/\g<2>", text)
    return re.sub(r"((?<!!)\[[^]]*\]\()(?![\w#]+:)([^)#][^)]*\))", rf"\g<1>{repository}/blob/main/\g<2>", text)


if __name__ == "__main__":
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["earsight"]
    repository = settings["repository"].rstrip("/")
    setup(
        long_description=readme((ROOT / "README.md").read_text(encoding="utf-8"), repository),
        long_description_content_type="text/markdown",
        project_urls=links(repository),
    )
