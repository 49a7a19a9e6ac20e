"""Fetching a file once: whole and with the right hash, or a message that says where to put it by hand."""

from __future__ import annotations

import hashlib
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from earsight import download
from earsight.download import cache_folder, fetch
from earsight.errors import DataError, UsageError

CONTENT = bytes(range(256)) * 4000
SHA = hashlib.sha256(CONTENT).hexdigest()
OFFLINE = "http://127.0.0.1:9/list.txt"


class Server(BaseHTTPRequestHandler):
    asked: list[str] = []  # noqa: RUF012  (one list for all requests is what is wanted)
    released = threading.Event()

    def do_GET(self) -> None:
        self.asked.append(self.path)
        if self.path == "/missing":
            self.send_error(404)
            return
        if self.path.startswith("/to-"):
            self.send_response(302)
            self.send_header("Location", {"/to-good": "/good", "/to-ftp": "ftp://127.0.0.1/x"}[self.path])
            self.end_headers()
            return
        self.send_response(200)
        if self.path != "/unsized":
            self.send_header("Content-Length", str(len(CONTENT)))
        self.end_headers()
        if self.path == "/silent":
            self.released.wait(30)
            return
        body = CONTENT[:5000] if self.path == "/cut" else CONTENT
        # A client that has seen enough hangs up.
        try:
            self.wfile.write(body)
        except ConnectionError:
            self.close_connection = True

    def log_message(self, *_: object) -> None:
        """Not on stderr."""


@pytest.fixture
def server() -> Iterator[str]:
    Server.asked.clear()
    Server.released.clear()
    running = ThreadingHTTPServer(("127.0.0.1", 0), Server)
    thread = threading.Thread(target=running.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{running.server_port}"
    Server.released.set()
    running.shutdown()
    running.server_close()
    thread.join()


def left(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.parametrize("path", ["good", "unsized", "to-good"])
def test_a_file_is_fetched_once_and_kept(server: str, tmp_path: Path, path: str) -> None:
    told: list[tuple[int, int | None]] = []
    got = fetch(f"{server}/{path}", SHA, "a.bin", tmp_path / "new", progress=lambda *now: told.append(now))
    assert got == tmp_path / "new" / "a.bin"
    assert got.read_bytes() == CONTENT
    assert told[-1] == (len(CONTENT), None if path == "unsized" else len(CONTENT))
    asked = len(Server.asked)
    assert fetch(f"{server}/{path}", SHA, "a.bin", tmp_path / "new") == got
    assert len(Server.asked) == asked
    assert left(tmp_path / "new") == ["a.bin"]


@pytest.mark.parametrize(
    ("path", "sha", "most", "match"),
    [
        (
            "good",
            "0" * 64,
            1 << 30,
            r"a file with sha256 0{64} at .*/good, but got one with .* Try again\. Put the file",
        ),
        ("missing", SHA, 1 << 30, r"to download .*/missing, but got: HTTP Error 404"),
        ("cut", SHA, 1 << 30, r"Expected 1,024,000 bytes from .*/cut, but got 5,000: the download was cut off"),
        ("good", SHA, 1000, r"at most 1,000 bytes from .*/good, but got 1,024,000\. Check the address"),
        ("unsized", SHA, 1000, r"at most 1,000 bytes from .*/unsized, but got"),
        ("to-ftp", SHA, 1 << 30, r"to download .*/to-ftp, but got: .*ftp"),
    ],
)
def test_what_does_not_come_whole_is_told_and_not_kept(
    server: str, tmp_path: Path, path: str, sha: str, most: int, match: str
) -> None:
    with pytest.raises(DataError, match=match) as caught:
        fetch(f"{server}/{path}", sha, "a.bin", tmp_path, max_bytes=most)
    assert f"Put the file there by hand: {tmp_path / 'a.bin'} (sha256 {sha})" in str(caught.value)
    assert left(tmp_path) == []


def test_a_server_that_stays_silent_is_given_up(server: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"to download .*/silent, but got: .*timed out"):
        fetch(f"{server}/silent", SHA, "a.bin", tmp_path, timeout=0.2)
    assert left(tmp_path) == []


def test_a_download_that_never_ends_is_given_up(server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(download, "LONGEST", -1.0)
    with pytest.raises(DataError, match=r"to download .*/good, but got: not done after"):
        fetch(f"{server}/good", SHA, "a.bin", tmp_path)


def test_without_a_network_the_message_says_where_to_put_the_file(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=f"Expected to download {OFFLINE}, but got: .*refused") as caught:
        fetch(OFFLINE, SHA, "list.txt", tmp_path)
    assert f"by hand: {tmp_path / 'list.txt'} (sha256 {SHA})" in str(caught.value)
    (tmp_path / "list.txt").write_bytes(CONTENT)
    assert fetch(OFFLINE, SHA, "list.txt", tmp_path).read_bytes() == CONTENT


def test_a_damaged_file_is_told_with_what_to_delete(tmp_path: Path) -> None:
    (tmp_path / "list.txt").write_bytes(CONTENT[:-1])
    with pytest.raises(DataError, match=r"a sha256 of .* damaged or of another version\. Delete .*list\.txt and run"):
        fetch(OFFLINE, SHA, "list.txt", tmp_path)


def test_a_folder_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(DataError, match=r"Expected to write .*a\.bin, but got: .*Set EARSIGHT_CACHE to a folder"):
        fetch(OFFLINE, SHA, "a.bin", tmp_path / "file")


@pytest.mark.parametrize("url", ["ftp://host/a", "file:///etc/passwd", "/etc/passwd", "http://", "", "https:// a/b"])
def test_other_addresses_are_refused(url: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="Expected an address that begins with http:// or https://, but got"):
        fetch(url, SHA, "a.bin", tmp_path)


@pytest.mark.parametrize("name", ["../a", "a/b", "", ".."])
def test_a_name_is_a_plain_file_name(name: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="Expected a plain file name"):
        fetch(OFFLINE, SHA, name, tmp_path)


def test_threads_that_fetch_at_once_all_get_the_whole_file(server: str, tmp_path: Path) -> None:
    with ThreadPoolExecutor(4) as pool:
        jobs = [pool.submit(fetch, f"{server}/good", SHA, "a.bin", tmp_path) for _ in range(4)]
        assert all(job.result().read_bytes() == CONTENT for job in jobs)
    assert left(tmp_path) == ["a.bin"]


def test_processes_that_fetch_at_once_all_get_the_whole_file(server: str, tmp_path: Path) -> None:
    code = "import sys, pathlib; from earsight.download import fetch; fetch(*sys.argv[1:4], pathlib.Path(sys.argv[4]))"
    command = [sys.executable, "-c", code, f"{server}/good", SHA, "a.bin", str(tmp_path)]
    running = [subprocess.Popen(command) for _ in range(2)]
    assert [one.wait(60) for one in running] == [0, 0]
    assert (tmp_path / "a.bin").read_bytes() == CONTENT
    assert left(tmp_path) == ["a.bin"]


def test_the_cache_is_where_the_environment_says(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("EARSIGHT_CACHE", str(tmp_path / "own"))
    assert cache_folder() == tmp_path / "own"
    monkeypatch.delenv("EARSIGHT_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_folder() == tmp_path / "earsight"
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cache_folder() == tmp_path / ".cache" / "earsight"
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert cache_folder() == tmp_path / ".cache" / "earsight"


def test_the_first_digits_of_a_hash_are_checked_where_no_more_are_known(server: str, tmp_path: Path) -> None:
    got = fetch(f"{server}/good", SHA[:8], "a.bin", tmp_path)
    assert fetch(OFFLINE, SHA[:8], "a.bin", tmp_path) == got
    with pytest.raises(DataError, match=r"a sha256 of 00000000 for .*a\.bin, but got"):
        fetch(OFFLINE, "0" * 8, "a.bin", tmp_path)
    with pytest.raises(DataError, match=r"a file with sha256 00000000 at .*/good, but got one with"):
        fetch(f"{server}/good", "0" * 8, "b.bin", tmp_path)
    assert left(tmp_path) == ["a.bin"]


@pytest.mark.parametrize("sha", ["", "f37072f", SHA + "0", "resnet18"])
def test_a_hash_has_enough_digits_to_tell_files_apart(sha: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="Expected 8 to 64 hex digits of a sha256, but got"):
        fetch(OFFLINE, sha, "a.bin", tmp_path)
