"""Clips wait in one queue and are localized one after another; everyone asks after a job of his own."""

from __future__ import annotations

import math
import secrets
import shutil
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from earsight.app.limits import RefusedError
from earsight.app.storage import Session, Storage
from earsight.app.worker import CancelledError, Worker, WorkError
from earsight.localize.timeline import NOT_CALIBRATED, NOT_VISIBLE, SILENT, VISIBLE

QUEUE_FULL = "Expected a free place in the queue, but too many people are waiting. Try again in a minute."
GONE = "Expected a clip that is still here, but it is gone. Upload it again."
LEFT = 180.0
"""Seconds after which a job that nobody asks after is dropped."""
VERDICTS = (VISIBLE, NOT_VISIBLE, SILENT, NOT_CALIBRATED)
_MOST_NOTES, _LONGEST_NOTE = 4, 200


@dataclass(eq=False)
class Job:
    """A clip that waits, is worked on, or is done."""

    session: Session
    clip: Path
    sound: Path | None
    id: str = field(default_factory=lambda: secrets.token_hex(16))
    state: str = "waiting"
    """Then "working", and at the end "done", "failed" or "cancelled"."""
    progress: float = 0.0
    models: list[dict[str, Any]] = field(default_factory=list)
    """What the page shows of each model's answer."""
    error: str = ""
    asked: float = field(default_factory=time.monotonic)

    @property
    def left(self) -> bool:
        """Whether nobody wants the answer any more."""
        return self.state == "cancelled" or time.monotonic() - self.asked > LEFT


class JobQueue:
    """Works on jobs in the order in which they come, in a thread of its own; stops with its worker.

    Args:
        worker: does the work.
        storage: where uploads and results are.
        most: jobs that may wait; of one client address, half of them.
    """

    def __init__(self, worker: Worker, storage: Storage, most: int) -> None:
        self._worker, self._storage, self._most = worker, storage, most
        self._jobs: dict[str, Job] = {}  # one of each session: its newest
        self._waiting: list[Job] = []
        self._changed = threading.Condition()
        self._closed = False
        threading.Thread(target=self._run, name="earsight-jobs", daemon=True).start()

    def submit(self, session: Session, clip: Path, sound: Path | None) -> Job:
        """A new job, in place of the one that the session had."""
        with self._changed:
            self.cancel(session.id)
            own = sum(job.session.client == session.client for job in self._waiting)
            if len(self._waiting) >= self._most or own >= (self._most + 1) // 2:
                raise RefusedError(429, QUEUE_FULL)
            job = Job(session, clip, sound)
            self._jobs[session.id] = job
            self._waiting.append(job)
            self._changed.notify()
        return job

    def status(self, session_id: str) -> dict[str, Any]:
        """What the page shows of a session's job."""
        with self._changed:
            job = self._jobs.get(session_id)
            if job is None:
                raise RefusedError(410, "Expected a clip that is worked on, but there is none. Localize it again.")
            job.asked = time.monotonic()
            values: dict[str, Any] = {"id": job.id, "state": job.state, "progress": job.progress}
            if job.state == "waiting":
                values["ahead"] = self._waiting.index(job) + 1
            elif job.state == "failed":
                values["error"] = job.error
            elif job.state == "done":
                values["models"] = job.models
        return values

    def cancel(self, session_id: str) -> None:
        """Stop a session's job, wherever it is."""
        with self._changed:
            job = self._jobs.pop(session_id, None)
            if job is not None and job.state in ("waiting", "working"):
                job.state = "cancelled"
                self._waiting = [one for one in self._waiting if one is not job]

    def close(self) -> None:
        """Begin no other job."""
        with self._changed:
            self._closed = True
            self._changed.notify()

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._closed or self._waiting)
                if self._closed:
                    return
                job = self._waiting.pop(0)
                if job.left:
                    self._jobs.pop(job.session.id, None)
                    continue
                job.state = "working"
            self._work(job)

    def _work(self, job: Job) -> None:
        result = None
        try:
            if not job.clip.exists() or (job.sound is not None and not job.sound.exists()):
                raise WorkError(GONE)
            result = self._storage.create(job.session, "result")

            def tell(share: float) -> None:
                job.progress = share

            answers = self._worker.ask(job.clip, job.sound, result.folder, tell, lambda: job.left)
            self._storage.measure(result)
            models = [checked_answer(answer) for answer in answers]
            for at, model in enumerate(models, 1):
                for kind, name in (("film", "mp4"), ("picture", "png"), ("timeline", "json")):
                    if (result.folder / f"earsight-{at}.{name}").is_file():
                        model[kind] = f"/results/{result.id}/earsight-{at}.{name}"
            with self._changed:
                if job.state == "working":
                    job.models, job.state = models, "done"
            return
        except CancelledError:
            job.state = "cancelled"
        except (WorkError, RefusedError) as error:
            self._fail(job, str(error))
        except (ValueError, KeyError, TypeError):
            self._fail(
                job,
                "Expected a clip that can be worked on, but its answer makes no sense. Convert it to mp4 and retry.",
            )
        except Exception as error:  # the queue goes on whatever happens
            self._fail(job, f"Expected to work on the clip, but the server failed ({type(error).__name__}). Try again.")
        if result is not None:
            self._storage.remove(job.session, result)
            shutil.rmtree(result.folder, ignore_errors=True)

    def _fail(self, job: Job, message: str) -> None:
        with self._changed:
            if job.state == "working":
                job.state, job.error = "failed", message
        for path in (job.clip, job.sound):  # nobody asks for a refused clip again
            if path is not None and (stored := job.session.stored.get(path.parent.name)) is not None:
                self._storage.remove(job.session, stored)


def checked_answer(values: dict[str, Any]) -> dict[str, Any]:
    """An answer with plain numbers and known verdicts: the process that it comes from has opened a stranger's file.

    >>> checked_answer({"threshold": None, "items": [[0.0, "silent", 0.5]], "cut": 0.0, "notes": []})["items"]
    [[0.0, 'silent', 0.5]]
    """
    items = []
    for time_, verdict, confidence in values["items"]:
        if verdict not in VERDICTS:
            raise ValueError(f"Expected a verdict, but got {verdict!r:.40}.")
        items.append([_number(time_), verdict, _number(confidence)])
    if not items:
        raise ValueError("Expected at least one moment, but got none.")
    notes = [str(one)[:_LONGEST_NOTE] for one in list(values["notes"])[:_MOST_NOTES]]
    limit = None if values["threshold"] is None else _number(values["threshold"])
    return {"threshold": limit, "items": items, "cut": _number(values["cut"]), "notes": notes}


def _number(value: Any) -> float:
    number = float(value)
    if not math.isfinite(number):
        raise ValueError(f"Expected a finite number, but got {number}.")
    return number
