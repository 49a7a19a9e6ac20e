"""The page over HTTP: everyone gets an answer to what he gave, and nobody gets anything else."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import threading
from pathlib import Path

import httpx
import pytest
from visiting import OWN, Answer, Visitor, file

from earsight.app import server
from earsight.app.limits import PageLimits
from earsight.errors import EarsightError

pytestmark = pytest.mark.slow


def test_upload_gives_film_timeline_plot_and_picture_of_both_models(visitor: Visitor, clips: Path) -> None:
    answer = visitor.ask(visitor.uploaded(clips / "good.mp4"))
    assert answer.message == ""
    assert [answer.verdict(0), answer.verdict(1)] == ["visible source", "no visible source"]
    for model in (0, 1):
        film = visitor.http.get(f"/gradio_api/file={answer.film(model)}")
        assert film.status_code == 200
        assert film.content[4:8] == b"ftyp"
        timeline = json.loads(visitor.http.get(f"/gradio_api/file={answer.timeline(model)}").text)
        assert timeline["version"] == 2
        assert len(timeline["items"]) == 4
        assert timeline["source"] == "clip"
        assert "/" not in timeline["weights"]
        assert "<svg" in answer.models[model][1]
        picture = str(answer.models[model][5]).split('src="')[1].split('"')[0]
        assert visitor.http.get(f"/{picture}").content[:2] == b"\xff\xd8"


def test_samples_are_there_and_can_be_asked_for(visitor: Visitor) -> None:
    sample = _samples(visitor)[1]
    assert sample.endswith("/samples/scene-0.mp4")
    assert visitor.ask(sample).message == ""


def test_sound_is_swapped_for_a_samples(visitor: Visitor, clips: Path) -> None:
    clip = visitor.uploaded(clips / "good.mp4")
    own, other = visitor.ask(clip), visitor.ask(clip, "sample: Bell")
    assert other.message == ""
    assert "with sample: Bell" in other.models[0][0]
    assert _confidences(visitor, own) != _confidences(visitor, other)


def test_sound_is_swapped_for_an_uploaded_one_even_on_a_mute_clip(visitor: Visitor, clips: Path) -> None:
    mute, tone = visitor.uploaded(clips / "mute.mp4"), visitor.uploaded(clips / "tone.wav", "tone.wav")
    assert visitor.ask(mute, "the sound of a file of yours", tone).message == ""


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("broken.mp4", "Expected a video with sound, but the clip is damaged or cut off. Get it again"),
        ("text.mp4", "Expected a video with sound, but the clip is not a media file of a known kind. Expected one of"),
        ("long.mp4", "Expected a video with sound, but the clip plays for 9 s, over the limit of 5 s. Cut it first."),
        ("mute.mp4", "Expected a video with sound, but the clip has no sound. Choose a clip with sound"),
        ("tone.wav", "Expected a video with sound, but the clip has no video track. Choose a video"),
        ("picture.png", "Expected a video with sound, but the clip is a picture, which does not move. Choose a video"),
        ("wide.mp4", "has frames of 1,100,000 pixels, over the limit of 1,000,000. Scale it down first."),
    ],
)
def test_bad_uploads_are_refused_in_three_parts(visitor: Visitor, clips: Path, name: str, says: str) -> None:
    path = visitor.uploaded(clips / name, name)
    answer = visitor.ask(path)
    assert says in answer.message
    assert "/tmp" not in answer.message
    assert visitor.http.get(f"/gradio_api/file={path}").status_code == 403, "a refused upload is removed at once"


def test_nothing_chosen_is_told_in_three_parts(visitor: Visitor) -> None:
    assert "Expected a clip, but got none. Drop one" in visitor.ask(None).message
    sample = _samples(visitor)[1]
    assert "Expected a file to hear, but got none." in visitor.ask(sample, "the sound of a file of yours").message


def test_too_large_is_refused_whether_its_length_is_told_or_not(visitor: Visitor) -> None:
    says = "Expected a file of at most 1 MB, but this one is larger. Cut it or scale it down"
    told = visitor.upload(bytes(1_500_000))
    assert (told.status_code, told.text.startswith(says)) == (413, True)
    head = b'--b\r\nContent-Disposition: form-data; name="files"; filename="a.mp4"\r\n\r\n'
    untold = visitor.http.post(
        "/gradio_api/upload",
        content=iter([head, *(bytes(100_000) for _ in range(20)), b"\r\n--b--\r\n"]),
        headers={"content-type": "multipart/form-data; boundary=b"},
    )
    assert (untold.status_code, untold.text.startswith(says)) == (413, True)


@pytest.mark.parametrize(
    "body", [b"", b"nonsense", b'--b\r\nContent-Disposition: form-data; name="x"\r\n\r\n1\r\n--b--']
)
def test_forms_without_a_file_are_refused(visitor: Visitor, body: bytes) -> None:
    answer = visitor.http.post(
        "/gradio_api/upload", content=body, headers={"content-type": "multipart/form-data; boundary=b"}
    )
    assert answer.status_code == 400
    assert answer.text.startswith("Expected a form with one file, but got")


@pytest.mark.parametrize("name", ["../../../etc/x.mp4", "/etc/passwd", "..\\..\\x.mp4", "a%2f..%2fb.mp4", "x" * 3000])
def test_the_name_of_an_upload_is_forgotten(visitor: Visitor, clips: Path, name: str) -> None:
    path = Path(visitor.uploaded(clips / "good.mp4", name))
    assert path.name in ("clip.mp4", "clip.bin")
    assert path.parent.parent.name == "page"


OUTSIDE = [
    "/etc/passwd", "//etc/passwd", "../../../../etc/passwd", "..%2f..%2f..%2fetc%2fpasswd", "%2fetc%2fpasswd",
    "file:///etc/passwd", "http://127.0.0.1:1/x", "https://example.com/x", "/proc/self/environ", "/dev/zero", "",
    "pyproject.toml", ".", "/", "\\etc\\passwd", "%00", "%252fetc%252fpasswd",
]  # fmt: skip


@pytest.mark.parametrize("path", OUTSIDE)
def test_no_file_from_outside_is_served(page: str, path: str) -> None:
    with httpx.Client(base_url=page) as http:
        for way in ("/gradio_api/file=", "/file=", "/gradio_api/file/", "/gradio_api/proxy=", "/static/", "/assets/"):
            answer = http.get(f"{way}{path}")
            assert answer.status_code in (400, 403, 404, 405), (way, answer.status_code)
            assert b"root:" not in answer.content


def test_folders_of_the_page_reach_no_further_than_its_files(visitor: Visitor, clips: Path) -> None:
    inside = Path(visitor.uploaded(clips / "good.mp4")).parent
    for path in (inside, f"{inside}/../../work", f"{inside}/../../../../../etc/passwd", inside.parent):
        assert visitor.http.get(f"/gradio_api/file={path}").status_code == 403


@pytest.mark.parametrize(
    "path", ["/etc/passwd", "http://127.0.0.1:1/x.mp4", "../x", 7, ["/etc/passwd"], {"path": "/x"}]
)
def test_a_request_can_name_only_files_of_the_page(visitor: Visitor, path: object) -> None:
    given = {"path": path, "meta": {"_type": "gradio.FileData"}}
    assert visitor.join([given, OWN, None]).status_code == 403
    assert visitor.join([None, OWN, {"deeper": [given]}]).status_code == 403


@pytest.mark.parametrize(
    "path",
    ["/monitoring", "/gradio_api/openapi.json", "/docs", "/gradio_api/dev/reload", "/gradio_api/deep_link", "/login"],
)
def test_what_the_page_does_not_need_is_not_there(visitor: Visitor, path: str) -> None:
    assert visitor.http.get(path).status_code == 404
    assert visitor.http.post(path).status_code == 404


def test_long_and_broken_requests_are_refused(visitor: Visitor) -> None:
    assert visitor.http.post("/gradio_api/queue/join", content=bytes(300_000)).status_code == 413
    assert visitor.http.post("/gradio_api/queue/join", content=b"[" * 100_000).status_code == 400


def test_only_local_names_reach_a_local_page(visitor: Visitor) -> None:
    assert visitor.http.get("/", headers={"host": "evil.example"}).status_code == 421
    assert visitor.http.get("/", headers={"host": "localhost:1"}).status_code == 200


def test_other_web_sites_cannot_send_anything(visitor: Visitor, page: str) -> None:
    files = {"files": ("a.mp4", b"x")}
    for origin in ("http://evil.example", "null", "https://localhost"):
        answer = visitor.http.post("/gradio_api/upload", files=files, headers={"origin": origin})
        assert answer.status_code == 403
        assert answer.text.startswith("Expected a request of this page, but another one sent it.")
    own = {"origin": page.rstrip("/")}
    assert visitor.http.post("/gradio_api/upload", files=files, headers=own).status_code == 200


def test_browsers_are_told_to_load_nothing_from_elsewhere(visitor: Visitor) -> None:
    policy = visitor.http.get("/").headers["content-security-policy"]
    assert "default-src 'self'" in policy
    assert "http" not in policy


def test_two_visitors_at_once_get_their_own_answers(page: str, clips: Path) -> None:
    found: dict[str, list[tuple[int, str]]] = {"good.mp4": [], "longer.mp4": []}

    def visit(name: str) -> None:
        with Visitor(page) as one:
            for _ in range(3):
                answer = one.ask(one.uploaded(clips / name))
                timeline = json.loads(one.http.get(f"/gradio_api/file={answer.timeline()}").text)
                found[name].append((len(timeline["items"]), answer.film()))

    threads = [threading.Thread(target=visit, args=(name,)) for name in found]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [count for count, _ in found["good.mp4"]] == [4, 4, 4]
    assert [count for count, _ in found["longer.mp4"]] == [8, 8, 8]
    assert len({film for films in found.values() for _, film in films}) == 6


def test_the_slider_shows_only_ones_own_answer(visitor: Visitor, clips: Path, page: str) -> None:
    visitor.ask(visitor.uploaded(clips / "good.mp4"))
    body = {"data": [None, 2], "fn_index": visitor.functions["show"], "session_hash": visitor.session}
    mine = visitor.http.post("/gradio_api/run/predict", json=body).json()["data"]
    assert "frame-1-0002.jpg" in mine[1]
    with Visitor(page) as stranger:
        other = stranger.http.post("/gradio_api/run/predict", json={**body, "session_hash": stranger.session})
        assert "frame" not in other.text


def _samples(visitor: Visitor) -> list[str]:
    gallery = next(one for one in visitor.config["components"] if one["type"] == "gallery")
    return [one["image"]["path"].replace(".png", ".mp4") for one in gallery["props"]["value"]]


def _confidences(visitor: Visitor, answer: Answer) -> list[float]:
    timeline = json.loads(visitor.http.get(f"/gradio_api/file={answer.timeline()}").text)
    return [item["confidence"] for item in timeline["items"]]


def test_visitors_wait_their_turn_and_too_many_are_sent_away(serving, weights: Path, clips: Path) -> None:  # type: ignore[no-untyped-def]
    with serving(weights, "--max-queue", 1) as (address, _, _), Visitor(address) as one:
        sample = _samples(one)[0]
        answers = [one.join([file(sample), OWN, None]) for _ in range(6)]
        assert answers[0].status_code == 200
        full = [answer for answer in answers if answer.status_code == 429]
        assert full
        assert full[0].json()["detail"].startswith("Expected a free place in the queue, but too many people are wait")


def test_a_place_that_is_taken_is_told_before_anything_is_loaded(tmp_path: Path) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        said = (
            rf"to listen at 127.0.0.1:{port}, but that is not possible: address already in use\. Choose another --port"
        )
        # The weights do not exist, which nobody gets to know.
        page = server.serving([tmp_path], device="cpu", host="127.0.0.1", port=port, limits=PageLimits())
        with pytest.raises(EarsightError, match=said), page:
            pass


def test_a_page_that_ends_leaves_the_process_as_it_was(weights: Path) -> None:
    code = (
        "import os, sys, tempfile\nfrom pathlib import Path\n"
        "from earsight.app.limits import PageLimits\nfrom earsight.app.server import serving\n"
        "before = dict(os.environ)\n"
        "with serving([Path(sys.argv[1])], device='cpu', host='127.0.0.1', port=0, limits=PageLimits()):\n    pass\n"
        "with tempfile.TemporaryDirectory():\n    print('fine', dict(os.environ) == before)\n"
    )
    done = subprocess.run([sys.executable, "-c", code, str(weights)], capture_output=True, text=True, timeout=300)
    assert done.stdout.endswith("fine True\n"), done.stderr
