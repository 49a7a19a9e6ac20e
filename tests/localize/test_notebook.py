"""Answers show themselves in a notebook: self-contained, escaped and bounded HTML."""

from __future__ import annotations

import base64
import io
import re
import subprocess
import sys
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path

import make
import numpy as np
import pytest
from PIL import Image

from earsight.export import export_onnx
from earsight.localize import Localizer
from earsight.localize.notebook import SIDE
from earsight.localize.sheet import STILLS
from earsight.localize.timeline import Moment, Timeline
from tiny.localized import run_pair, run_video

SOUND = make.chirp(1.0, 8000)
HOSTILE = '"><script>alert(1)<img src=x onerror=y>&\udcff.mp4'


class Page(HTMLParser):
    """The tags of a page; unbalanced ones are an error."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag != "img":
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def count(self, tag: str) -> int:
        return sum(one == tag for one, _ in self.tags)

    @property
    def pictures(self) -> list[np.ndarray]:
        return self.of_kind("jpeg")

    @property
    def charts(self) -> list[np.ndarray]:
        return self.of_kind("png")

    def of_kind(self, kind: str) -> list[np.ndarray]:
        found = [str(given["src"]).partition(";base64,") for tag, given in self.tags if tag == "img"]
        assert all(head in ("data:image/jpeg", "data:image/png") and coded for head, _, coded in found)
        files = [base64.b64decode(coded) for head, _, coded in found if head == f"data:image/{kind}"]
        return [np.asarray(Image.open(io.BytesIO(file))) for file in files]


def shown(thing: object) -> tuple[str, Page]:
    """What a notebook gets, which is plain text that needs nothing from elsewhere."""
    text = thing._repr_html_()  # type: ignore[attr-defined]
    text.encode("utf-8")
    page = Page(text)
    assert not {"script", "style", "link", "iframe"} & {tag for tag, _ in page.tags}
    assert not [name for _, given in page.tags for name in given if name.startswith("on")]
    assert not re.search(r"https?://|url\(", text)
    return text, page


def photo(height: int, width: int) -> np.ndarray:
    return np.random.default_rng(0).integers(0, 256, (height, width, 3), dtype=np.uint8)


def timeline(count: int, source: str = "a.mp4", threshold: float | None = 0.5, **more: object) -> Timeline:
    kinds = ["visible source", "no visible source", "silent"]
    items = tuple(Moment(i * 0.5, kinds[i % 3], 0.3 + i / 9999, 0.3, (0, 0), ()) for i in range(count))
    given = {"width": 9, "height": 9, "items": items, **more}
    return Timeline(source, source, "w", "exact", threshold, 0.5, 1.0, 0.5, **given)  # type: ignore[arg-type]


@pytest.mark.parametrize(("height", "width"), [(60, 90), (900, 1600), (5, 2000)])
def test_a_localization_shows_its_picture_with_heat_box_and_verdict(
    trusting: Localizer, height: int, width: int
) -> None:
    answer = trusting.localize(photo(height, width), SOUND, 8000)
    text, page = shown(answer)
    (picture,) = page.pictures
    assert max(picture.shape) <= max(SIDE, 3)
    assert "visible source" in text
    assert f"confidence {answer.confidence:.3f}, threshold -1.000" in text
    assert f"box {answer.boxes[0]}" in text
    assert f"{width} x {height} pixels" in text
    assert len(text) < 400_000


def test_a_localization_without_a_visible_source_says_so_and_has_no_box(doubting: Localizer) -> None:
    text, _ = shown(doubting.localize(photo(60, 90), SOUND, 8000))
    assert "no visible source" in text
    assert "box (" not in text


def test_the_picture_that_is_shown_is_the_one_that_was_asked_about(localizer: Localizer) -> None:
    frame = np.full((3, 40, 40), 200, np.uint8)
    answer = localizer.localize(frame, SOUND, 8000)
    frame[:] = 0
    assert shown(answer)[1].pictures[0].mean() > 60
    assert repr(answer).startswith("Localization(not calibrated, confidence 0.")
    assert repr(answer).endswith("40 x 40 pixels)")


def test_a_film_shows_a_strip_the_confidence_and_the_verdicts(trusting: Localizer, tmp_path: Path) -> None:
    film = make.steps(tmp_path / "film.mp4", 2.0)
    found = run_video(trusting, film, tmp_path / "out", every=0.2, formats=("json",))
    text, page = shown(found)
    assert len(page.pictures) == STILLS
    assert len(page.charts) == 1
    assert re.search(rf"{len(found.items)} moments: .*visible source</b> {len(found.items)}", text)
    assert "film.earsight.json" in text
    assert str(tmp_path) not in text
    assert "stills" not in found.to_json()
    assert repr(found) == f"Timeline('film.mp4', {len(found.items)} moments: visible source {len(found.items)})"


def test_a_pair_shows_one_picture_and_what_was_heard(trusting: Localizer, tmp_path: Path) -> None:
    image = make.picture(tmp_path / "photo.png", photo(40, 60))
    sound = make.wav(tmp_path / "bell.wav", make.chirp(1.0), make.RATE, tag=3)
    text, page = shown(run_pair(trusting, image, sound, tmp_path / "out"))
    assert len(page.pictures) == 1
    assert not page.charts
    assert "<b>photo.png</b> with the sound of <b>bell.wav</b>" in text
    assert "1 moment:" in text


def test_names_of_files_are_escaped(localizer: Localizer, monkeypatch: pytest.MonkeyPatch) -> None:
    text, _ = shown(timeline(2, HOSTILE, files=(Path(HOSTILE),)))
    assert "&lt;script&gt;" in text
    monkeypatch.setattr(localizer, "name", HOSTILE)
    assert "&lt;script&gt;" in shown(localizer)[0]


def test_long_films_and_names_stay_small() -> None:
    text, page = shown(timeline(20_000, "a" * 5000))
    assert len(page.charts) == 1
    assert "One of 50 moments is drawn." in text
    assert len(text) < 100_000


@pytest.mark.parametrize("count", [0, 1, 2])
@pytest.mark.parametrize("threshold", [None, 0.4])
def test_short_and_stopped_films_are_shown(count: int, threshold: float | None) -> None:
    text, _ = shown(timeline(count, threshold=threshold, partial=True))
    assert f"{count} moment" in text
    assert "Stopped before the end." in text
    assert "nan" not in text


def test_a_localizer_tells_what_it_is(trusting: Localizer, localizer: Localizer) -> None:
    text, _ = shown(trusting)
    for part in ("slavc", "tiny.safetensors", "exact (", "-1.000, with 10% false alarms", "32 x 32", "1 s at 8000 Hz"):
        assert part in text
    assert "not calibrated" in shown(localizer)[0]
    assert repr(trusting).startswith("Localizer(slavc from '")
    assert "threshold none" in repr(localizer)


def test_an_exported_model_shows_itself_without_torch(make_weights: Callable[..., Path], tmp_path: Path) -> None:
    weights = make_weights(-1.0)
    exported = export_onnx(weights, tmp_path / "model").path
    code = (
        "import sys, numpy as np; from earsight import Localizer; "
        f"one = Localizer.load({str(exported)!r}); "
        "found = one.localize(np.zeros((40, 60, 3), np.uint8), np.ones(800), 8000); "
        "print('<img' in found._repr_html_(), 'slavc' in one._repr_html_(), 'torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout.strip() == "True True False", done.stderr
