"""The page over HTTP: everyone gets an answer to what he gave, and nobody gets anything else."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from contextlib import suppress
from itertools import product
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest
from visiting import HEADER, Visitor

from earsight.app import server
from earsight.app.limits import PageLimits
from earsight.errors import EarsightError

pytestmark = pytest.mark.slow


def test_upload_gives_film_and_timeline_of_both_models(visitor: Visitor, clips: Path) -> None:
    answer = visitor.ask(visitor.uploaded(clips / "good.mp4"))
    assert answer.message == ""
    assert [answer.verdicts(0), answer.verdicts(1)] == [{"visible source"}, {"no visible source"}]
    for model in answer.models:
        film = visitor.http.get(model["film"])
        assert (film.status_code, film.headers["content-type"], film.content[4:8]) == (200, "video/mp4", b"ftyp")
        timeline = visitor.http.get(model["timeline"])
        assert str(Path("/tmp")) not in timeline.text
        values = timeline.json()
        assert (values["version"], values["source"], len(values["items"])) == (2, "clip", 4)
        assert "/" not in values["weights"]
        assert [[one["time"], one["verdict"], one["confidence"]] for one in values["items"]] == model["items"]


def test_film_is_served_in_ranges(visitor: Visitor) -> None:
    film = visitor.ask("sample-1").models[0]["film"]
    whole = visitor.http.get(film).content
    part = visitor.http.get(film, headers={"range": "bytes=100-199"})
    assert (part.status_code, part.content) == (206, whole[100:200])
    assert visitor.http.get(film, headers={"range": "bytes=999999999-"}).status_code == 416


def test_samples_are_there_and_can_be_localized(visitor: Visitor) -> None:
    assert visitor.about["samples"][:2] == ["In turns", "Bell"]
    assert visitor.http.get("/samples/0.mp4").content[4:8] == b"ftyp"
    assert visitor.http.get("/samples/0.png").content[:4] == b"\x89PNG"
    assert visitor.ask("sample-1").message == ""


def test_sound_is_swapped_without_a_second_upload(visitor: Visitor, clips: Path) -> None:
    clip = visitor.uploaded(clips / "good.mp4")
    own, other = visitor.ask(clip), visitor.ask(clip, "sample-1")
    assert (own.message, other.message) == ("", "")
    assert own.models[0]["items"] != other.models[0]["items"]


def test_sound_is_swapped_for_an_uploaded_one_even_on_a_mute_clip(visitor: Visitor, clips: Path) -> None:
    mute, tone = visitor.uploaded(clips / "mute.mp4"), visitor.uploaded(clips / "tone.wav", "tone.wav")
    assert visitor.ask(mute, tone).message == ""


def test_photo_and_sound_give_a_picture(visitor: Visitor, clips: Path) -> None:
    photo = visitor.uploaded(clips / "picture.png", "picture.png")
    (first, _) = visitor.ask(photo, visitor.uploaded(clips / "tone.wav", "tone.wav")).models
    assert "film" not in first
    assert visitor.http.get(first["picture"]).content[:4] == b"\x89PNG"
    assert visitor.http.get(first["timeline"]).json()["every"] is None


def test_silent_clip_is_called_silent(visitor: Visitor, clips: Path) -> None:
    answer = visitor.ask(visitor.uploaded(clips / "silent.mp4"))
    assert (answer.message, answer.verdicts(0), answer.verdicts(1)) == ("", {"silent"}, {"silent"})


def test_stereo_clip_with_sound_on_one_channel_is_heard(visitor: Visitor, clips: Path) -> None:
    answer = visitor.ask(visitor.uploaded(clips / "left.mkv", "left.mkv"))
    assert (answer.message, answer.verdicts()) == ("", {"visible source"})


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("broken.mp4", "Expected a video with sound, but the clip is damaged or cut off. Get it again"),
        ("text.mp4", "Expected a video with sound, but the clip is not a media file of a known kind. Expected one of"),
        ("long.mp4", "Expected a video with sound, but the clip plays for 9 s, over the limit of 5 s. Cut it first."),
        ("mute.mp4", "Expected a video with sound, but the clip has no sound. Choose a clip with sound"),
        ("tone.wav", "Expected a video with sound, but the clip has no video track. Choose a video"),
        ("picture.png", "Expected a video with sound, but the clip is a picture, which has no sound. Choose a sound"),
        ("wide.mp4", "has frames of 1,100,000 pixels, over the limit of 1,000,000. Scale it down first."),
    ],
)
def test_bad_uploads_are_refused_in_three_parts(visitor: Visitor, clips: Path, name: str, says: str) -> None:
    upload = visitor.uploaded(clips / name, name)
    answer = visitor.ask(upload)
    assert says in answer.message
    assert "/tmp" not in answer.message
    assert visitor.start(upload).status_code == 410, "a refused upload is removed at once"


def test_too_large_is_refused_whether_its_length_is_announced_or_not(visitor: Visitor) -> None:
    says = "Expected a file of at most 1 MB, but this one is larger. Cut it or scale it down"
    announced = visitor.upload(bytes(1_500_000))
    assert (announced.status_code, announced.json()["error"].startswith(says)) == (413, True)
    streamed = visitor.http.post("/api/uploads?name=a.mp4", content=(bytes(100_000) for _ in range(15)))
    assert (streamed.status_code, streamed.json()["error"].startswith(says)) == (413, True)


def test_empty_uploads_are_refused(visitor: Visitor) -> None:
    answer = visitor.upload(b"")
    assert (answer.status_code, answer.json()["error"][:31]) == (400, "Expected a file, but got an emp")


@pytest.mark.parametrize(
    "name", ["../../../etc/x.mp4", "/etc/passwd", "..\\..\\x.mp4", "a%2f..%2fb.mp4", "x" * 3000, "\0.mp4"]
)
def test_the_name_of_an_upload_is_forgotten(visitor: Visitor, clips: Path, name: str) -> None:
    assert len(visitor.uploaded(clips / "good.mp4", name)) == 32


OUTSIDE = [
    "/etc/passwd", "//etc/passwd", "../../../../etc/passwd", "..%2f..%2f..%2fetc%2fpasswd", "%2fetc%2fpasswd",
    "file:///etc/passwd", "http://127.0.0.1:1/x", "https://example.com/x", "/proc/self/environ", "/dev/zero", "",
    "pyproject.toml", ".", "/", "\\etc\\passwd", "%00", "%252fetc%252fpasswd",
]  # fmt: skip


def test_no_file_from_outside_is_served(visitor: Visitor) -> None:
    result = visitor.ask("sample-1").models[0]["film"].rpartition("/")[0]
    for way, path in product(("/", f"{result}/", "/results/", "/samples/", "/static/", "/api/"), OUTSIDE):
        answer = visitor.http.get(f"{way}{path}")
        if answer.request.url.path == "/":
            continue
        assert answer.status_code in (307, 400, 404, 405), (way, path, answer.status_code)
        assert b"root:" not in answer.content
        assert b"earsight-app" not in answer.content


@pytest.mark.parametrize(
    "clip",
    ["/etc/passwd", "http://127.0.0.1:1/x.mp4", "../x", 7, ["/etc/passwd"], {"path": "/x"}, "sample-9", "0" * 32, True],
)
def test_a_request_can_name_only_uploads_of_its_own_page(
    visitor: Visitor, page: str, clips: Path, clip: object
) -> None:
    gone = "Expected a clip that is still here, but it is gone. Upload it again."
    for values in ((clip, None), ("sample-1", clip)):
        answer = visitor.start(*values)
        assert (answer.status_code, answer.json()["error"]) == (410, gone)
    with Visitor(page) as stranger:
        assert visitor.start(stranger.uploaded(clips / "good.mp4")).status_code == 410


def test_nothing_chosen_is_refused_in_three_parts(visitor: Visitor) -> None:
    assert visitor.ask(None).message == "Expected a clip, but got none. Drop one, record one, or pick a sample."


@pytest.mark.parametrize(
    "path", ["/monitoring", "/openapi.json", "/docs", "/api/dev", "/login", "/page.html", "/results"]
)
def test_what_the_page_does_not_need_is_not_there(visitor: Visitor, path: str) -> None:
    says = "Expected an address of this page, but got another one. Go back to the page."
    for answer in (visitor.http.get(path), visitor.http.post(path)):
        assert (answer.status_code, answer.json()["error"]) == (404, says)
    assert visitor.http.put("/api/job").status_code == 405


def test_long_and_broken_requests_are_refused(visitor: Visitor) -> None:
    assert visitor.http.post("/api/job", content=bytes(300_000)).status_code == 413
    for content in (b"[" * 9_000, b"", b"7", b"{}", b"\xff"):
        assert visitor.http.post("/api/job", content=content).status_code == 400


def test_only_local_names_reach_a_local_page(visitor: Visitor) -> None:
    assert visitor.http.get("/", headers={"host": "evil.example"}).status_code == 421
    assert visitor.http.get("/", headers={"host": "localhost:1"}).status_code == 200


def test_other_web_sites_cannot_send_anything(visitor: Visitor, page: str) -> None:
    says = "Expected a request of this page, but another one sent it."
    own = {"origin": page.rstrip("/")}
    foreign = [{"origin": origin} for origin in ("http://evil.example", "null", "https://localhost")]
    for headers in (*foreign, {"sec-fetch-site": "cross-site"}):
        answer = visitor.http.post("/api/uploads?name=a.mp4", content=b"x", headers=headers)
        assert (answer.status_code, answer.json()["error"].startswith(says)) == (403, True)
    assert visitor.http.post("/api/uploads?name=a.mp4", content=b"x", headers=own).status_code == 200
    # A browser sends a header of our own to another site only when that site agrees, which this one never does.
    assert httpx.post(f"{page}api/session").status_code == 403
    assert httpx.options(f"{page}api/session", headers={HEADER: "new"}).status_code == 405


def test_browsers_may_load_nothing_from_elsewhere(visitor: Visitor) -> None:
    policy = visitor.http.get("/").headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "http" not in policy
    assert "unsafe" not in policy


def test_two_visitors_at_once_get_their_own_answers(page: str, clips: Path) -> None:
    found: dict[str, list[tuple[int, str]]] = {"good.mp4": [], "longer.mp4": []}

    def visit(name: str) -> None:
        with Visitor(page) as one:
            for _ in range(3):
                model = one.ask(one.uploaded(clips / name)).models[0]
                timeline = one.http.get(model["timeline"]).json()
                found[name].append((len(timeline["items"]), model["film"]))

    threads = [threading.Thread(target=visit, args=(name,)) for name in found]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [count for count, _ in found["good.mp4"]] == [4, 4, 4]
    assert [count for count, _ in found["longer.mp4"]] == [8, 8, 8]
    assert len({film for films in found.values() for _, film in films}) == 6


def test_a_closed_page_takes_its_files_along(page: str) -> None:
    with Visitor(page) as one:
        film = one.ask("sample-1").models[0]["film"]
        assert one.http.delete("/api/session").status_code == 200
        assert one.http.get(film).status_code == 404
        closed = one.start("sample-1")
        assert (closed.status_code, closed.json()["error"][:40]) == (410, "Expected an open page, but the server ha")
        assert one.http.get("/api/job").status_code == 410


def test_a_job_is_cancelled(visitor: Visitor) -> None:
    assert visitor.start("sample-0").status_code == 202
    assert visitor.http.delete("/api/job").status_code == 200
    assert visitor.http.get("/api/job").status_code == 410
    assert visitor.ask("sample-1").message == ""


def test_a_password_is_asked_for(serving, weights: Path) -> None:  # type: ignore[no-untyped-def]
    with serving(weights, EARSIGHT_PASSWORD="correct horse") as (address, _, _):
        for auth in (None, ("", "wrong"), ("", ""), ("correct horse", "")):
            answer = httpx.get(address, auth=auth)
            assert (answer.status_code, answer.headers["www-authenticate"][:5]) == (401, "Basic")
            assert b"<html" not in answer.content
        assert httpx.post(f"{address}api/session", headers={HEADER: "new"}).status_code == 401
        with Visitor(address, ("anyone", "correct horse")) as one:
            assert one.ask("sample-1").message == ""
            statuses = [httpx.get(address, auth=("", f"guess {k}")).status_code for k in range(12)]
            assert (statuses[0], statuses[-1]) == (401, 429)


def test_malformed_requests_cost_one_log_line_each(visitor: Visitor, page: str, log: Path) -> None:
    requests = [
        b"GARBAGE\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(200),
        b"GET / HTTP/1.1\r\n\r\n",
        b"GET \xff\xfe HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"GET /%ff%fe%00 HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: localhost\r\nX: " + b"x" * 70_000 + b"\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n",
        b"POST /api/uploads HTTP/1.1\r\nHost: localhost\r\nContent-Length: x\r\n\r\n",
        b"POST /api/uploads HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nabc",
        b"POST /api/job HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"POST /api/job HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5000\r\n\r\nabc",
        b"GET /samples/0.mp4 HTTP/1.1\r\nHost: localhost\r\nRange: bytes=9-1,x\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\nGARBAGE\r\n\r\n",
    ]
    at = urlsplit(page)
    while "Ctrl-C" not in log.read_text():  # the last line of the start
        time.sleep(0.05)
    for request in requests:
        before = log.read_text()
        with socket.create_connection((at.hostname, at.port), timeout=10) as one:
            one.sendall(request)
            one.shutdown(socket.SHUT_WR)
            answer = b""
            with suppress(ConnectionResetError):
                while more := one.recv(1 << 16):
                    answer += more
        assert b"Traceback" not in answer
        said = log.read_text()[len(before) :]
        assert len(said.splitlines()) <= 1, (request[:60], said)
    assert visitor.ask("sample-1").message == ""
    assert "Traceback" not in log.read_text()


def test_announced_uploads_that_never_come_leave_the_page_to_others(page: str, visitor: Visitor, clips: Path) -> None:
    at = urlsplit(page)
    with Visitor(page) as attacker:
        head = f"POST /api/uploads?name=a.mp4 HTTP/1.1\r\nHost: localhost\r\n{HEADER}: {attacker.session}\r\n"
        held = [socket.create_connection((at.hostname, at.port)) for _ in range(38)]
        for one in held:
            one.sendall(f"{head}Content-Length: 1000000\r\n\r\n".encode())
        assert visitor.ask(visitor.uploaded(clips / "good.mp4")).message == ""
        held[0].settimeout(60)
        assert b"408" in held[0].recv(100)
        for one in held:
            one.close()


def test_a_start_removes_what_a_killed_page_left(weights: Path, tmp_path: Path) -> None:
    run = [sys.executable, "-m", "earsight", "app", str(weights), "--port", "0", "--device", "cpu"]
    begin = {"stdout": subprocess.PIPE, "text": True, "env": {**os.environ, "TMPDIR": str(tmp_path)}}
    left: list[set[Path]] = []
    for end in (signal.SIGKILL, signal.SIGTERM):
        with subprocess.Popen(run, **begin) as process:  # type: ignore[call-overload]
            assert "http" in process.stdout.readline()
            left.append(set(tmp_path.iterdir()))
            process.send_signal(end)
            process.wait(60)
    assert len(left[0]) == len(left[1]) == 1
    assert left[0].isdisjoint(left[1])
    assert list(tmp_path.iterdir()) == []


def test_a_port_that_is_taken_fails_before_anything_is_loaded(tmp_path: Path) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        says = (
            rf"to listen at 127.0.0.1:{port}, but that is not possible: address already in use\. Choose another --port"
        )
        # The weights do not exist, which nobody gets to know.
        page = server.serving([tmp_path], server.Address(port=port), device="cpu", limits=PageLimits())
        with pytest.raises(EarsightError, match=says), page:
            pass


def test_a_page_that_ends_leaves_the_process_as_it_was(weights: Path) -> None:
    code = (
        "import os, sys, tempfile, threading\nfrom pathlib import Path\n"
        "from earsight.app.limits import PageLimits\nfrom earsight.app.server import Address, serving\n"
        "before = dict(os.environ)\n"
        "with serving([Path(sys.argv[1])], Address(), device='cpu', limits=PageLimits()):\n    pass\n"
        "with tempfile.TemporaryDirectory():\n"
        "    print('fine', dict(os.environ) == before, 'torch' in sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", code, str(weights)], capture_output=True, text=True, timeout=300)
    assert done.stdout.endswith("fine True False\n"), done.stderr
