"""The queue: clips in the order in which they came, a limit for all and for each client, and checked answers."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from earsight.app import jobs as module
from earsight.app.jobs import JobQueue, checked_answer
from earsight.app.limits import RefusedError
from earsight.app.storage import Session, Storage
from earsight.app.worker import CancelledError, WorkError

ANSWER = {"threshold": 0.5, "items": [[0.0, "visible source", 0.7]], "cut": 0.0, "notes": []}


class Slow:
    """A worker that works until it is allowed to end."""

    def __init__(self) -> None:
        self.clips: list[str] = []
        self.begun, self.end = threading.Semaphore(0), threading.Semaphore(0)
        self.answer: Any = [ANSWER]

    def ask(
        self,
        clip: Path,
        sound: Path | None,
        out: Path,
        progress: Callable[[float], None],
        cancelled: Callable[[], bool],
    ) -> list[dict[str, Any]]:
        self.clips.append(clip.parent.name)
        progress(0.5)
        (out / "earsight-1.mp4").write_bytes(b"film")
        self.begun.release()
        while not self.end.acquire(timeout=0.01):
            if cancelled():
                raise CancelledError
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer  # type: ignore[no-any-return]


@pytest.fixture
def worker() -> Slow:
    return Slow()


@pytest.fixture
def storage(tmp_path: Path) -> Iterator[Storage]:
    with Storage(60, 10_000, tmp_path) as one:
        yield one


@pytest.fixture
def queue(worker: Slow, storage: Storage) -> Iterator[JobQueue]:
    one = JobQueue(worker, storage, 3)  # type: ignore[arg-type]
    yield one
    one.close()


def submit(queue: JobQueue, storage: Storage, client: str) -> Session:
    session = storage.open_session(client)
    upload = storage.create(session, "upload")
    (upload.folder / "clip.mp4").write_bytes(b"x")
    queue.submit(session, upload.folder / "clip.mp4", None)
    return session


def finished(queue: JobQueue, session: Session) -> dict[str, Any]:
    for _ in range(500):
        if (status := queue.status(session.id))["state"] not in ("waiting", "working"):
            return status
        time.sleep(0.01)
    raise AssertionError(status)


def test_clips_wait_their_turn_and_too_many_are_sent_away(queue: JobQueue, storage: Storage, worker: Slow) -> None:
    first = submit(queue, storage, "a")
    worker.begun.acquire()
    others = [submit(queue, storage, client) for client in "abb"]
    assert queue.status(first.id) == {"id": queue.status(first.id)["id"], "state": "working", "progress": 0.5}
    assert [queue.status(one.id)["ahead"] for one in others] == [1, 2, 3]
    with pytest.raises(RefusedError, match="Expected a free place in the queue, but too many people are waiting"):
        submit(queue, storage, "c")
    queue.cancel(others[0].id)
    with pytest.raises(RefusedError, match="too many people"):
        submit(queue, storage, "b")  # has half of the places
    for _ in range(3):
        worker.end.release()
    (model,) = finished(queue, first)["models"]
    result = model["film"].split("/")
    assert storage.result(*result[2:]).read_bytes() == b"film"  # type: ignore[union-attr]
    assert finished(queue, others[2])["state"] == "done"
    assert len(worker.clips) == 3


def test_a_clip_at_hand_is_cancelled_and_a_new_one_takes_its_place(
    queue: JobQueue, storage: Storage, worker: Slow
) -> None:
    session = submit(queue, storage, "a")
    worker.begun.acquire()
    again = next(iter(session.stored.values())).folder / "clip.mp4"
    queue.submit(session, again, None)
    worker.begun.acquire()
    worker.end.release()
    assert finished(queue, session)["state"] == "done"
    assert sum(one.kind == "result" for one in session.stored.values()) == 1


def test_what_nobody_asks_after_is_dropped(
    queue: JobQueue, storage: Storage, worker: Slow, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = submit(queue, storage, "a")
    worker.begun.acquire()
    waiting = submit(queue, storage, "b")
    monkeypatch.setattr(module, "LEFT", 0.0)
    for _ in range(300):
        if not queue._waiting:
            break
        time.sleep(0.01)
    assert worker.clips == [next(iter(first.stored))]
    with pytest.raises(RefusedError, match="Expected a clip that is worked on, but there is none"):
        queue.status(waiting.id)


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (WorkError("Expected this, but that. Do so."), "Expected this, but that. Do so."),
        (OSError("/secret/path"), "but the server failed (OSError). Try again."),
        ([{"threshold": 0.5}], "but its answer makes no sense."),
    ],
)
def test_a_refused_clip_is_removed_at_once(
    queue: JobQueue, storage: Storage, worker: Slow, answer: Any, says: str
) -> None:
    worker.answer = answer
    session = submit(queue, storage, "a")
    worker.end.release()
    assert says in finished(queue, session)["error"]
    assert "secret" not in finished(queue, session)["error"]
    for _ in range(100):
        if not session.stored:
            break
        time.sleep(0.01)
    assert session.stored == {}


@pytest.mark.parametrize(
    "change",
    [
        {"items": []},
        {"items": [[0.0, "<b>", 0.5]]},
        {"items": [[0.0, "silent", float("inf")]]},
        {"items": [["nan", "silent", 0.5]]},
        {"threshold": "nan"},
        {"cut": "nan"},
    ],
)
def test_answers_that_make_no_sense_are_refused(change: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="Expected"):
        checked_answer({**ANSWER, **change})


def test_notes_are_few_and_short() -> None:
    notes = checked_answer({**ANSWER, "notes": ["x" * 999] * 9})["notes"]
    assert len("".join(notes)) < 1000, "the process that says it has opened a stranger's file"
