"""A visitor of the page without a browser: speaks HTTP as the page's own script does."""

from __future__ import annotations

import json
import secrets
from pathlib import Path
from typing import Any, Self

import httpx

OWN = "its own sound"


class Visitor:
    """Uploads, asks and fetches, in a session of its own."""

    def __init__(self, address: str) -> None:
        self.http = httpx.Client(base_url=address, timeout=120)
        self.session = secrets.token_hex(8)

    def __enter__(self) -> Self:
        config = self.http.get("/config").json()
        self.config = config
        self.functions = {one["api_name"]: one["id"] for one in config["dependencies"] if one["api_name"]}
        return self

    def __exit__(self, *_: object) -> None:
        self.http.close()

    def upload(self, data: bytes | Path, name: str = "clip.mp4") -> httpx.Response:
        body = data.read_bytes() if isinstance(data, Path) else data
        return self.http.post("/gradio_api/upload", files={"files": (name, body)})

    def uploaded(self, data: bytes | Path, name: str = "clip.mp4") -> str:
        """Where the page keeps an upload."""
        answer = self.upload(data, name)
        assert answer.status_code == 200, answer.text
        return str(answer.json()[0])

    def join(self, data: list[Any], function: str = "localize") -> httpx.Response:
        body = {"data": data, "fn_index": self.functions[function], "session_hash": self.session}
        return self.http.post("/gradio_api/queue/join", json=body)

    def ask(self, clip: str | None, heard: str = OWN, other: str | None = None) -> Answer:
        """Localize, and wait for the answer."""
        joined = self.join([file(clip), heard, file(other)])
        assert joined.status_code == 200, joined.text
        with self.http.stream("GET", "/gradio_api/queue/data", params={"session_hash": self.session}) as stream:
            for line in stream.iter_lines():
                if line.startswith("data:"):
                    message = json.loads(line[5:])
                    if message["msg"] == "process_completed":
                        assert message["success"], message
                        return Answer(message["output"]["data"])
                    assert message["msg"] != "unexpected_error", message
        raise AssertionError("the page closed without an answer")


class Answer:
    """What the page shows: a message, or of each model the headline, plot, film, downloads and picture."""

    def __init__(self, data: list[Any]) -> None:
        self.message = str(data[1] or "")
        self.models = [data[at : at + 6] for at in range(5, len(data), 6)]

    def verdict(self, model: int = 0) -> str:
        return str(self.models[model][0]).split('data-verdict="')[1].split('"')[0]

    def film(self, model: int = 0) -> str:
        return str(self.models[model][2]["path"])

    def timeline(self, model: int = 0) -> str:
        return str(self.models[model][4]["path"])


def file(path: str | None) -> dict[str, Any] | None:
    return None if path is None else {"path": path, "meta": {"_type": "gradio.FileData"}}
