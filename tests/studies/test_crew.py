"""Workers of studies: every task is told, whatever becomes of its process, and time ends the work."""

from __future__ import annotations

import multiprocessing
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from studies import crew


def task(number: int) -> int:
    if number == 3:
        raise ValueError("three is too many")
    if number == 4:
        os.kill(os.getpid(), signal.SIGKILL)
    if number >= 100:
        time.sleep(number)
    return number * number


def naps(seconds: float) -> None:
    time.sleep(seconds)


def deaf(path: str) -> None:
    """Starts a process of its own and does not hear that it is to end. The file is open as long as one of them is."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    code = f"import time; f = open({path!r}, 'wb'); time.sleep(300)"
    subprocess.Popen([sys.executable, "-c", code])
    with Path(path).open("wb") as file:
        file.write(b"begun")
        file.flush()
        time.sleep(300)


def parent(path: str) -> None:
    list(crew.do([path], deaf, jobs=1))


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


def ended(path: str, pipe: int) -> bytes:
    """What was written to a pipe, once nobody is left who could write."""
    os.close(os.open(path, os.O_WRONLY))  # for a pipe that nobody has written to yet does not tell of its end
    told = b""
    while select.select([pipe], [], [], 60)[0]:
        if not (more := os.read(pipe, 100)):
            return told
        told += more
    pytest.fail("a process was left behind")


@pytest.fixture
def fifo(tmp_path: Path) -> Iterator[tuple[str, int]]:
    path = tmp_path / "fifo"
    os.mkfifo(path)
    pipe = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    yield str(path), pipe
    os.close(pipe)


def test_processes_that_do_not_end_are_killed_with_those_they_started(
    fifo: tuple[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(crew, "GRACE", 0.5)
    monkeypatch.setattr(crew, "PATIENCE", 0.2)
    path, pipe = fifo
    for seconds in (5.0, 20.0, 80.0):  # a process may need long to begin
        assert list(crew.do([path], deaf, jobs=1, seconds=seconds)) == []
        if ended(path, pipe) == b"begun":
            return
    pytest.fail("the process never began")


def test_workers_end_when_the_process_that_gives_them_tasks_is_killed(fifo: tuple[str, int]) -> None:
    path, pipe = fifo
    process = multiprocessing.get_context("spawn").Process(target=parent, args=(path,))
    process.start()
    while not select.select([pipe], [], [], 0.1)[0] or not os.read(pipe, 100):
        assert process.is_alive()
        time.sleep(0.05)
    process.kill()
    process.join()
    ended(path, pipe)


def test_a_task_that_cannot_be_expected_to_end_in_time_is_not_begun() -> None:
    # The first takes one second or more, so that a second one would end after two seconds or later.
    assert [one.task for one in crew.do([1.0, 1.0], naps, jobs=1, seconds=1.9)] == [1.0]
    assert [one.task for one in crew.do([0.1, 0.1], naps, jobs=1, seconds=1000.0)] == [0.1, 0.1]


def test_a_shorter_task_goes_before_one_that_does_not_fit() -> None:
    times = crew.Times()
    assert crew._that_fits([300.0], 1.0, times, str) == 0  # nothing is known yet
    times.took("2.0", 100.0)
    times.took("1.0", 10.0)
    assert crew._that_fits([2.0, 1.0], 50.0, times, str) == 1
    assert crew._that_fits([3.0, 2.0], 50.0, times, str) is None  # an unknown kind takes as long as the longest
    assert crew._that_fits([1.0], 0.0, crew.Times(), str) is None
