"""A visitor of the page without a browser: speaks HTTP as the page's own script does."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any, Self
from urllib.parse import quote

import httpx

HEADER = "X-Earsight-Session"


class Visitor:
    """Uploads, asks and fetches, in a session of its own."""

    def __init__(self, address: str, auth: tuple[str, str] | None = None) -> None:
        self.http = httpx.Client(base_url=address, timeout=120, auth=auth)

    def __enter__(self) -> Self:
        opened = self.http.post("/api/session", headers={HEADER: "new"})
        assert opened.status_code == 200, opened.text
        self.about = opened.json()
        self.http.headers[HEADER] = self.session = self.about["session"]
        return self

    def __exit__(self, *_: object) -> None:
        self.http.close()

    def upload(self, data: bytes | Path, name: str = "clip.mp4") -> httpx.Response:
        content = data.read_bytes() if isinstance(data, Path) else data
        return self.http.post(f"/api/uploads?name={quote(name)}", content=content)

    def uploaded(self, data: bytes | Path, name: str = "clip.mp4") -> str:
        """The id of an upload."""
        answer = self.upload(data, name)
        assert answer.status_code == 200, answer.text
        return str(answer.json()["upload"])

    def start(self, clip: object, sound: object = None) -> httpx.Response:
        return self.http.post("/api/job", json={"clip": clip, "sound": sound})

    def ask(self, clip: object, sound: object = None) -> Answer:
        """Localize, and wait for the answer."""
        started = self.start(clip, sound)
        if started.status_code != 202:
            return Answer({"error": started.json()["error"]})
        while (job := self.http.get("/api/job").json())["state"] in ("waiting", "working"):
            time.sleep(0.05)
        return Answer(job)


class Answer:
    """What the page gets: a message, or the answer of each model."""

    def __init__(self, job: dict[str, Any]) -> None:
        self.message = str(job.get("error", ""))
        self.models: list[dict[str, Any]] = job.get("models", [])

    def verdicts(self, model: int = 0) -> set[str]:
        return {verdict for _, verdict, _ in self.models[model]["items"]}
