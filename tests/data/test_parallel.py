"""Work in several processes: answers in order, errors that come through, workers that die and that are left behind."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest

from earsight.data.parallel import in_order
from earsight.errors import DataError, MediaError, UsageError
from tiny import processes


def add(common: int, item: int) -> int:
    return common + item


def fail(common: int, item: int) -> int:
    if item == 5:
        raise MediaError("clip five", "is torn.")
    return item


def die(common: int, item: int) -> int:
    if item == 5:
        os.kill(os.getpid(), signal.SIGKILL)
    return item


def write_own_number(folder: Path, item: int) -> None:
    (folder / "worker").write_text(str(os.getpid()))
    (folder / "worker").rename(folder / "worker-is-there")
    time.sleep(60)


def employ(folder: Path) -> None:
    list(in_order(write_own_number, folder, [0], 1))


def test_without_workers_this_process_does_it() -> None:
    assert list(in_order(add, 10, range(5), 0)) == [10, 11, 12, 13, 14]
    assert list(in_order(add, 10, [], 0)) == []


@pytest.mark.slow
def test_answers_of_workers_come_in_order() -> None:
    assert list(in_order(add, 1, range(100), 2, chunk=3)) == list(range(1, 101))


@pytest.mark.slow
def test_what_a_worker_raises_comes_through() -> None:
    with pytest.raises(MediaError, match=r"clip five: is torn\."):
        list(in_order(fail, 0, range(8), 1))


@pytest.mark.slow
def test_a_worker_that_dies_is_told_with_what_it_may_have_died_on() -> None:
    with pytest.raises(DataError, match=r"a reader that died between clip 0 and clip 7\. Try again with --workers 0"):
        list(in_order(die, 0, range(8), 1, name=lambda item: f"clip {item}"))


@pytest.mark.slow
def test_workers_of_a_process_that_is_killed_end_too(tmp_path: Path) -> None:
    process = processes.start(employ, tmp_path)
    note = tmp_path / "worker-is-there"
    while not note.exists():
        assert process.is_alive()
        time.sleep(0.01)
    worker = int(note.read_text())
    process.kill()
    process.join()
    for _ in range(3000):
        if not Path(f"/proc/{worker}").exists() or " Z " in Path(f"/proc/{worker}/stat").read_text():
            return
        time.sleep(0.01)
    pytest.fail("the worker is still there")


def test_senseless_numbers_of_workers_are_refused() -> None:
    with pytest.raises(UsageError, match="Expected at most 512 workers, but got 513"):
        list(in_order(add, 0, [1], 513))
