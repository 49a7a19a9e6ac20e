"""`earsight app` before it serves anything: flags, limits, warnings, and missing packages."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from earsight.app import server
from earsight.cli import app, main
from earsight.cli.app import App
from earsight.cli.settings import EXTRAS


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """What the command would have served; it ends at once."""
    calls: list[dict[str, Any]] = []

    @contextmanager
    def serving(weights: list[Path], address: server.Address, **settings: Any) -> Iterator[str]:
        calls.append({"weights": list(weights), "address": address, **settings})
        yield "http://127.0.0.1:1/"

    class Over:
        def wait(self, seconds: float) -> bool:
            return True

    monkeypatch.setattr(server, "serving", serving)
    monkeypatch.setattr(app.threading, "Event", Over)
    return calls


def test_every_flag_reaches_the_page(served: list[dict[str, Any]], capsys: pytest.CaptureFixture[str]) -> None:
    flags = {
        "--host": "127.0.0.1", "--port": "8000", "--password": "a secret", "--device": "cpu", "--every": "0.5",
        "--max-mb": "7", "--max-seconds": "8", "--max-pixels": "900", "--max-queue": "3",
        "--max-run-seconds": "11", "--max-memory": "2", "--keep": "99",
    }  # fmt: skip
    assert {f"--{f.name.replace('_', '-')}" for f in fields(App)} == {*flags, "--weights"}
    assert main(["app", "a", "b", *(word for pair in flags.items() for word in pair)]) == 0
    (call,) = served
    assert call["weights"] == [Path("a"), Path("b")]
    assert call["address"] == server.Address("127.0.0.1", 8000, "a secret")
    limits = call["limits"]
    assert (limits.every, limits.megabytes, limits.seconds, limits.pixels) == (0.5, 7, 8, 900)
    assert (limits.queue, limits.run_seconds, limits.memory, limits.keep) == (3, 11, 2, 99)
    out = capsys.readouterr()
    assert "earsight is at http://127.0.0.1:1/" in out.out
    assert "warning" not in out.err


def test_another_host_is_warned_of(served: list[dict[str, Any]], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["app", "a", "--host", "0.0.0.0"]) == 0
    assert "warning: --host 0.0.0.0 lets everyone who can reach this machine use the page" in capsys.readouterr().err


def test_a_password_comes_from_the_environment_too_and_ends_the_warning(
    served: list[dict[str, Any]], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EARSIGHT_PASSWORD", "long enough")
    assert main(["app", "a", "--host", "0.0.0.0"]) == 0
    assert served[0]["address"].password == "long enough"
    assert "warning" not in capsys.readouterr().err
    assert main(["app", "a", "--password", "short"]) == 2
    assert "Expected a password of at least 8 letters, but got 5." in capsys.readouterr().err


def test_missing_packages_are_named_with_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(EXTRAS, "app", ("no_such_server",))
    assert main(["app", "a"]) == 2
    says = "Expected no_such_server for this command, but no_such_server is not installed. "
    assert f"{says}Install the extra 'app': pip install 'earsight[app]'" in capsys.readouterr().err


def test_senseless_limits_are_refused(served: list[dict[str, Any]], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["app", "a", "--max-mb", "0"]) == 2
    assert "Expected an upload limit from 0.001 to 10000 MB, but got 0.0." in capsys.readouterr().err
    assert served == []


def test_three_weights_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["app", "a", "b", "c"]) == 2
    assert "Expected one or two weights, but got 3. Two are shown side by side." in capsys.readouterr().err


def test_a_system_that_cannot_fork_is_refused(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delattr(os, "fork")
    assert main(["app", "a"]) == 2
    assert "Expected a system that can fork processes, such as Linux, but got" in capsys.readouterr().err
