"""Names are file names, and a wrong one says what was meant."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from earsight import registry
from earsight.cli import main
from earsight.errors import UsageError
from earsight.metrics.base import module_of


@pytest.mark.parametrize("kind", registry.FOLDERS)
def test_every_name_loads_and_says_what_it_is(kind: str) -> None:
    found = registry.names(kind)
    assert found == sorted(found)
    assert not {"base", "__init__"} & set(found)
    for name in found:
        module = registry.load(kind, name)
        assert module.__name__.endswith(f".{name}")
        summary = registry.summary(kind, name)
        assert summary
        assert module.__doc__ is not None
        assert module.__doc__.startswith(summary)


def test_the_built_in_names_are_there() -> None:
    assert "slavc" in registry.names("method")
    assert {"toybox", "folder"} <= set(registry.names("set"))
    assert {"loc_acc", "average_precision"} <= set(registry.names("metric"))


@pytest.mark.parametrize("kind", registry.FOLDERS)
def test_an_unknown_name_lists_the_known_ones(kind: str) -> None:
    with pytest.raises(UsageError, match=rf"Unknown {kind} 'zzzz'\. Known: .*{registry.names(kind)[0]}"):
        registry.load(kind, "zzzz")


def test_a_mistyped_name_is_suggested() -> None:
    with pytest.raises(UsageError, match="Unknown method 'slavec', did you mean 'slavc'"):
        registry.load("method", "slavec")


@pytest.mark.parametrize(
    ("args", "told"),
    [
        (["train", "SLAVC", "--on", "toybox", "-o", "r"], "Unknown method 'SLAVC', did you mean 'slavc'?"),
        (["train", "slavc", "--preset", "Official", "-o", "r"], "Unknown preset 'Official', did you mean 'official'?"),
        (
            ["train", "--recipe", "SLAVC-toybox", "-o", "r"],
            "Unknown recipe 'SLAVC-toybox', did you mean 'slavc_toybox'?",
        ),
        (["score", "center-prior", "--on", "VGG-SS"], "Unknown set 'VGG-SS', did you mean 'vggss'?"),
        (["score", "center-prior", "--on", "toybox", "--protocol", "Exact"], "did you mean 'exact'?"),
        (["compare", "--table", "Table 3"], "Unknown table 'Table 3', did you mean 'table3'?"),
    ],
)
def test_names_are_suggested_whatever_their_case_and_dashes(
    args: list[str], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(args) == 2
    assert told in capsys.readouterr().err


def test_a_number_is_suggested_by_its_heading() -> None:
    with pytest.raises(UsageError, match="Unknown number 'LocAcc', did you mean 'loc_acc'"):
        module_of("LocAcc")


@pytest.mark.parametrize("name", ["base", "__init__", ""])
def test_files_that_are_no_entries_cannot_be_loaded(name: str) -> None:
    with pytest.raises(UsageError, match="Unknown method"):
        registry.load("method", name)


def test_a_dotted_path_loads_a_module_of_the_users_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mylab").mkdir()
    (tmp_path / "mylab" / "mine.py").write_text("Config = Model = int\nPRESETS = {}\n")
    monkeypatch.syspath_prepend(tmp_path)
    assert registry.load("method", "mylab.mine").PRESETS == {}
    with pytest.raises(
        UsageError, match=r"Expected SPLITS, DEFAULTS, open in the module 'mylab.mine' of a set, but got no SPLITS"
    ):
        registry.load("set", "mylab.mine")


@pytest.mark.parametrize("name", ["no.such.module", ".relative", "a..b", "../escape"])
def test_a_dotted_path_that_leads_nowhere_is_refused(name: str) -> None:
    with pytest.raises(UsageError, match=r"Expected an importable module for method .* Put its folder on PYTHONPATH"):
        registry.load("method", name)


def test_listing_names_imports_no_torch() -> None:
    code = (
        "import sys; from earsight import registry, config, types, errors\n"
        "for kind in registry.FOLDERS:\n"
        "    for name in registry.names(kind): registry.summary(kind, name)\n"
        "assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize(
    ("allowed", "may"), [("", False), ("own", True), ("x, own.mean", True), ("own.mean.pooling", False), ("ow", False)]
)
def test_files_may_name_only_modules_that_the_user_named(
    allowed: str, may: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(registry.MODULES, allowed)
    assert registry.may_import("own.mean") == may
    assert registry.may_import("slavc")
