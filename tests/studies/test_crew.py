"""Workers of studies: every task is told, whatever becomes of its process, and time ends the work."""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2]))
from studies import crew


def task(number: int) -> int:
    if number == 3:
        raise ValueError("three is too many")
    if number == 4:
        os.kill(os.getpid(), signal.SIGKILL)
    if number >= 100:
        time.sleep(number)
    return number * number


def test_all_tasks_are_told_those_that_fail_and_those_whose_process_dies_too() -> None:
    ended = {one.task: one for one in crew.do(range(7), task, jobs=2)}
    assert {number: one.value for number, one in ended.items() if not one.error} == {0: 0, 1: 1, 2: 4, 5: 25, 6: 36}
    assert ended[3].error == "ValueError: three is too many"
    assert "the process died" in ended[4].error


def test_when_time_is_up_nothing_is_begun_and_what_runs_on_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(crew, "GRACE", 0.5)
    assert list(crew.do([1, 2], task, jobs=1, seconds=-10.0)) == []
    began = time.monotonic()
    assert list(crew.do([200], task, jobs=1, seconds=0.5)) == []
    assert time.monotonic() - began < 100
