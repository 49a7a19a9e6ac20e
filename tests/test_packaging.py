"""What the package says of itself."""

from __future__ import annotations

import runpy
import tomllib
from pathlib import Path

from earsight.cli.settings import EXTRAS

ROOT = Path(__file__).parents[1]
SETUP = runpy.run_path(str(ROOT / "setup.py"))
HOME = "https://example.org/me/earsight"


def test_without_a_repository_there_are_no_links_and_readme_is_as_it_is() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert SETUP["links"]("") == {}
    assert SETUP["readme"](text, "") == text


def test_pictures_and_pages_get_addresses_from_the_repository() -> None:
    text = "![A film](docs/img/film.jpg) in [docs](docs/app.md#top), [here](#below), [there](https://example.com/x)"
    assert SETUP["readme"](text, HOME) == (
        f"![A film]({HOME}/raw/main/docs/img/film.jpg) in [docs]({HOME}/blob/main/docs/app.md#top), "
        "[here](#below), [there](https://example.com/x)"
    )
    assert SETUP["links"](HOME)["Issues"] == f"{HOME}/issues"


def test_every_picture_of_readme_is_found_by_its_address() -> None:
    text = SETUP["readme"]((ROOT / "README.md").read_text(encoding="utf-8"), HOME)
    assert "](docs/" not in text
    assert text.count(f"]({HOME}/raw/main/docs/img/") == 4


def test_extras_are_those_that_the_messages_name() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert set(EXTRAS) <= set(project["optional-dependencies"])
    assert any(one.startswith("Programming Language :: Python :: 3.13") for one in project["classifiers"])
