"""The names that `import earsight` offers, asked for in a fresh interpreter."""

from __future__ import annotations

import pkgutil
import subprocess
import sys
from itertools import permutations

import pytest

import earsight

NAMES = [name for name in earsight.__all__ if not name.startswith("_")]


@pytest.mark.parametrize("names", list(permutations(["evaluate", "train"])))
def test_public_names_are_what_they_say_whatever_was_imported_before(names: tuple[str, str]) -> None:
    one, two = names
    code = (
        f"from earsight import {one}, {two}\n"
        "import earsight.evaluation, earsight.training.loop\n"
        f"from earsight import {one} as first, {two} as second\n"
        f"assert first is {one} and second is {two}\n"
        "assert all(type(one).__name__ == 'function' for one in (first, second, earsight.evaluate, earsight.train))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert not done.returncode, done.stderr


def test_no_public_name_is_that_of_a_module() -> None:
    assert not set(NAMES) & {module.name for module in pkgutil.iter_modules(earsight.__path__)}


def test_an_unknown_name_lists_the_known_ones() -> None:
    with pytest.raises(AttributeError, match=r"has no attribute 'trian'; it has EvalSettings, Localizer, __version__"):
        earsight.trian  # noqa: B018
