"""The page in a real browser: Debian's Chromium, driven by Playwright."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import make
import pytest

from earsight.app.look import NO_PREVIEW

pytestmark = pytest.mark.slow
CHROMIUM = shutil.which("chromium")
PATIENCE = 60_000  # milliseconds
SAMPLE = "#es-samples button.thumbnail-item"


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """Chromium with a camera and a microphone that are made up."""
    api = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed")
    if CHROMIUM is None:
        pytest.skip("Chromium is not installed: apt-get install chromium")
    with api.sync_playwright() as driver:
        args = ["--no-sandbox", "--disable-dev-shm-usage"]  # as root, in a container
        args += ["--use-fake-device-for-media-stream", "--use-fake-ui-for-media-stream"]
        one = driver.chromium.launch(executable_path=CHROMIUM, args=args)
        yield one
        one.close()


@pytest.fixture
def look(browser: Any, page: str) -> Iterator[Callable[..., Any]]:
    """Opens the page in a window of its own; at the end, nothing has been asked of any other machine."""
    opened, asked = [], []

    def open_page(width: int = 1280, height: int = 900) -> Any:
        context = browser.new_context(
            viewport={"width": width, "height": height}, accept_downloads=True, permissions=["camera", "microphone"]
        )
        tab = context.new_page()
        tab.set_default_timeout(PATIENCE)
        tab.on("request", lambda request: asked.append(request.url))
        opened.append(context)
        tab.goto(page)
        tab.wait_for_selector(SAMPLE)
        return tab

    yield open_page
    for context in opened:
        context.close()
    assert asked
    assert [url for url in asked if not url.startswith((page, "data:", "blob:"))] == []


def verdict(tab: Any, model: int = 1) -> str:
    return str(tab.locator(f"#es-verdict-{model} .es-verdict").get_attribute("data-verdict"))


def upload(tab: Any, path: Path) -> None:
    tab.locator("#es-clip input[type=file]").first.set_input_files(str(path))


def localize(tab: Any) -> None:
    tab.wait_for_selector("#es-clip video")
    tab.click("#es-go")


def record(tab: Any, seconds: float) -> None:
    tab.click("#es-clip button[aria-label='Capture from camera']")
    tab.click("#es-clip button:has-text('Click to Access Webcam')")
    tab.click("#es-clip button:has-text('Record')")
    # By the camera's clock: a busy machine gets few pictures in a second of ours.
    now = "document.querySelector('#es-clip video').currentTime"
    tab.wait_for_function(f"end => {now} > end", arg=tab.evaluate(now) + seconds)
    tab.click("#es-clip button:has-text('Stop')")
    tab.wait_for_selector("#es-clip video[src*='file=']")


def test_upload_is_localized_by_both_models(look: Callable[..., Any], clips: Path) -> None:
    tab = look()
    upload(tab, clips / "good.mp4")
    localize(tab)
    assert (verdict(tab, 1), verdict(tab, 2)) == ("visible source", "no visible source")
    assert tab.locator("#es-plot-1 svg circle").count() == 4
    assert "file=" in tab.locator("#es-film-1 video").get_attribute("src")


def test_sample_is_localized_and_the_slider_moves_the_picture(look: Callable[..., Any]) -> None:
    tab = look()
    tab.locator(SAMPLE).nth(1).click()
    assert verdict(tab) == "visible source"
    first = tab.locator("#es-picture-1 img").get_attribute("src")
    tab.locator("#es-slider input[type=number]").fill("5")
    tab.locator("#es-slider input[type=number]").press("Enter")
    tab.wait_for_function("before => document.querySelector('#es-picture-1 img').src.indexOf(before) < 0", arg=first)
    assert "0005" in tab.locator("#es-picture-1 img").get_attribute("src")
    tab.wait_for_function("document.querySelector('#es-picture-1 img').naturalWidth > 0")


def test_sound_is_swapped(look: Callable[..., Any]) -> None:
    tab = look()
    tab.locator(SAMPLE).nth(1).click()
    own = tab.locator("#es-plot-1 polyline").get_attribute("points")
    tab.click("#es-heard input")
    tab.get_by_role("option", name="sample: Frog").click()
    tab.click("#es-go")
    tab.wait_for_selector("#es-verdict-1 .es-heard:has-text('sample: Frog')")
    assert tab.locator("#es-plot-1 polyline").get_attribute("points") != own


def test_film_and_timeline_are_downloaded(look: Callable[..., Any], clips: Path) -> None:
    tab = look()
    upload(tab, clips / "good.mp4")
    localize(tab)
    tab.wait_for_selector("#es-verdict-1 .es-verdict")
    for button, name in (("#es-mp4-2", "earsight-2.mp4"), ("#es-json-2", "earsight-2.json")):
        with tab.expect_download() as coming:
            tab.click(button)
        assert coming.value.suggested_filename == name
        data = Path(coming.value.path()).read_bytes()
        assert data[4:8] == b"ftyp" if name.endswith("mp4") else json.loads(data)["version"] == 2


def test_broken_file_is_told_in_three_parts(look: Callable[..., Any], clips: Path) -> None:
    tab = look()
    upload(tab, clips / "broken.mp4")
    localize(tab)
    said = tab.locator("#es-message .es-notice").inner_text()
    assert said.startswith("Expected a video with sound, but the clip is damaged or cut off. Get it again")
    assert not tab.locator("#es-results").is_visible()


def test_oversized_file_is_refused_before_it_is_sent(look: Callable[..., Any], tmp_path: Path) -> None:
    tab = look()
    sent: list[str] = []
    tab.on("request", lambda request: sent.append(request.url))
    big = tmp_path / "big.mp4"
    big.write_bytes(bytes(1_200_000))
    upload(tab, big)
    said = tab.locator("#es-too-large").inner_text()
    assert said == "Expected a file of at most 1 MB, but this one is larger. Cut it or scale it down, and try again."
    assert not [url for url in sent if "upload" in url]


def test_file_that_is_no_video_is_refused_before_it_is_sent(look: Callable[..., Any], clips: Path) -> None:
    tab = look()
    sent: list[str] = []
    tab.on("request", lambda request: sent.append(request.url))
    for name in ("tone.wav", "picture.png"):
        upload(tab, clips / name)
        said = tab.locator("#es-too-large").inner_text()
        assert said.startswith("Expected a video, such as mp4, mov, mkv or webm, but this file is of another kind.")
    assert not [url for url in sent if "upload" in url]
    assert "Invalid file type" not in tab.content()
    upload(tab, clips / "good.mp4")
    tab.wait_for_selector("#es-clip video")
    assert not tab.locator("#es-too-large").is_visible()


def test_video_that_the_browser_cannot_play_is_localized_all_the_same(look: Callable[..., Any], tmp_path: Path) -> None:
    make.steps(tmp_path / "old.avi", 1.0, 10)
    tab = look()
    upload(tab, tmp_path / "old.avi")
    tab.wait_for_selector("#es-too-large")
    assert tab.locator("#es-too-large").inner_text() == NO_PREVIEW
    assert not tab.locator(".toast-body").is_visible()
    tab.click("#es-go")
    tab.wait_for_selector("#es-verdict-1 .es-verdict")
    assert verdict(tab) == "visible source"


def test_recording_is_localized(look: Callable[..., Any]) -> None:
    tab = look()
    record(tab, 2.0)
    localize(tab)
    assert verdict(tab) == "visible source"
    assert tab.locator("#es-plot-1 svg circle").count() >= 4


def test_recording_without_a_microphone_says_what_it_lacks(look: Callable[..., Any]) -> None:
    tab = look()
    tab.evaluate(
        """() => {
            const ask = navigator.mediaDevices.getUserMedia.bind(navigator.mediaDevices);
            navigator.mediaDevices.getUserMedia = wanted => ask({...wanted, audio: false});
        }"""
    )
    record(tab, 1.0)
    localize(tab)
    said = tab.locator("#es-message .es-notice").inner_text()
    assert said.startswith("Expected a video with sound, but the clip has no sound. Choose a clip with sound, or give")


def test_full_queue_is_told_in_our_words(browser: Any, serving: Callable[..., Any], weights: Path) -> None:
    with serving(weights, "--max-queue", 1) as (address, _, _):
        tab = browser.new_page()
        tab.set_default_timeout(PATIENCE)
        tab.goto(address)
        tab.wait_for_selector(SAMPLE)
        tab.evaluate(
            """() => {
                const send = window.fetch;
                const full = all => all.find(one => one.status == 429);
                window.fetch = (to, how) => String(to.url || to).includes("queue/join")
                  ? Promise.all([1, 2, 3, 4, 5].map(() => send(to, how))).then(full)
                  : send(to, how);
            }"""
        )
        tab.locator(SAMPLE).nth(1).click()
        tab.wait_for_selector("text=Expected a free place in the queue, but too many people are waiting.")
        tab.close()


def test_two_users_at_once_get_their_own_answers(look: Callable[..., Any], clips: Path) -> None:
    one, two = look(), look()
    upload(one, clips / "good.mp4")
    upload(two, clips / "longer.mp4")
    localize(one)
    localize(two)
    for tab, count in ((one, 4), (two, 8)):
        tab.wait_for_selector("#es-plot-1 svg")
        assert tab.locator("#es-plot-1 svg circle").count() == count


def test_page_fits_a_phone(look: Callable[..., Any]) -> None:
    tab = look(390, 844)
    tab.locator(SAMPLE).nth(1).click()
    assert verdict(tab) == "visible source"
    assert tab.evaluate("document.documentElement.scrollWidth") <= 390
    for part in ("#es-go", "#es-film-1", "#es-plot-2", "#es-slider", "#es-picture-2", "#es-json-1"):
        box = tab.locator(part).bounding_box()
        assert box["x"] >= 0, part
        assert box["x"] + box["width"] <= 390, part


@pytest.mark.skipif(
    "EARSIGHT_SCREENSHOTS" not in os.environ,
    reason="takes the documentation's pictures, and only when EARSIGHT_SCREENSHOTS names the weights to show",
)
def test_screenshots_for_the_documentation(browser: Any, serving: Callable[..., Any]) -> None:
    """Tests nothing: it writes docs/img/app-*.png anew, and stands here because it needs the browser and a page."""
    folder = Path(__file__).parents[2] / "docs" / "img"
    with serving(os.environ["EARSIGHT_SCREENSHOTS"]) as (address, _, _):
        for name, width, height in (("desktop", 1280, 900), ("phone", 390, 844)):
            tab = browser.new_page(viewport={"width": width, "height": height})
            tab.set_default_timeout(PATIENCE)
            tab.goto(address)
            tab.locator(SAMPLE).nth(0).click()
            tab.wait_for_selector("#es-verdict-1 .es-verdict")
            tab.locator("#es-slider input[type=number]").fill("37")
            tab.locator("#es-slider input[type=number]").press("Enter")
            tab.wait_for_selector("#es-picture-1 img[src*='0037']")
            tab.mouse.move(2, 2)
            tab.wait_for_timeout(3000)
            tab.screenshot(path=str(folder / f"app-{name}.png"), full_page=True)
            tab.close()
