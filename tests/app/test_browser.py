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

pytestmark = pytest.mark.slow
CHROMIUM = shutil.which("chromium")
PATIENCE = 60_000  # milliseconds
SAMPLE = "#samples button"


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
    """Opens the page in a window of its own; at the end, no script has failed and no other machine was asked."""
    opened, asked, errors = [], [], []

    def open_page(width: int = 1280, height: int = 900, scheme: str = "light") -> Any:
        context = browser.new_context(
            viewport={"width": width, "height": height}, color_scheme=scheme, permissions=["camera", "microphone"]
        )
        tab = context.new_page()
        tab.set_default_timeout(PATIENCE)
        tab.on("request", lambda request: asked.append(request.url))
        tab.on("pageerror", lambda error: errors.append(str(error)))
        tab.on(
            "console",
            lambda line: line.type == "error" and "Failed to load" not in line.text and errors.append(line.text),
        )
        opened.append(context)
        tab.goto(page)
        tab.wait_for_selector(SAMPLE)
        return tab

    yield open_page
    for context in opened:
        context.close()
    assert asked
    assert errors == [], "errors of scripts, and what the content policy forbids"
    assert [url for url in asked if not url.startswith((page, "data:", "blob:"))] == []


def verdict(tab: Any, model: int = 1) -> str:
    return str(tab.locator(f"#verdict-{model}").get_attribute("data-verdict"))


def until(tab: Any, condition: str) -> None:
    """Wait; the page's content policy forbids what Playwright's own way would do."""
    for _ in range(PATIENCE // 50):
        if tab.evaluate(condition):
            return
        tab.wait_for_timeout(50)
    raise AssertionError(condition)


def choose(tab: Any, path: Path, which: str = "#clip-file") -> None:
    tab.locator(which).set_input_files(str(path))


def localize(tab: Any) -> None:
    tab.click("#go")
    tab.wait_for_selector("#verdict-1 b, #notice")


def pick(tab: Any, at: int) -> None:
    tab.locator(SAMPLE).nth(at).click()
    tab.wait_for_selector("#verdict-1 b")


def notice(tab: Any) -> str:
    return str(tab.locator("#notice").inner_text())


def dots(tab: Any, model: int = 1) -> int:
    return int(tab.locator(f"#chart-{model} circle[data-verdict]:not(.here)").count())


def record(tab: Any, seconds: float) -> None:
    tab.click("#record")
    # By the camera's clock: a busy machine gets few pictures in a second of ours.
    now = "document.querySelector('#stage video')?.currentTime"
    until(tab, f"{now} > {seconds}")
    tab.click("#record")
    tab.wait_for_selector("#stage video[controls]")


def test_upload_is_localized_by_both_models(look: Callable[..., Any], clips: Path) -> None:
    tab = look()
    choose(tab, clips / "good.mp4")
    localize(tab)
    assert (verdict(tab, 1), verdict(tab, 2)) == ("visible source", "no visible source")
    assert (dots(tab, 1), dots(tab, 2)) == (4, 4)
    assert tab.locator("#result-1 h3").inner_text() == "trusting (slavc)"
    until(tab, "document.querySelector('#film-2 video').readyState >= 2")


def test_slider_chart_and_film_show_the_same_moment(look: Callable[..., Any]) -> None:
    tab = look()
    pick(tab, 1)
    seconds = "document.querySelector('#film-2 video').currentTime"
    tab.focus("#moment")
    for _ in range(5):
        tab.keyboard.press("ArrowRight")
    until(tab, f"Math.abs({seconds} - 1.25) < 0.01")
    assert tab.locator("#when").inner_text() == "1.3 s, 6 of 16"
    assert tab.locator("#moment").get_attribute("aria-valuetext") == "1.3 s, visible source"
    assert "confidence" in tab.locator("#readout-2").inner_text()
    tab.keyboard.press("Tab")
    tab.keyboard.press("Enter")
    until(tab, f"Math.abs({seconds} - 1.5) < 0.01")
    box = tab.locator("#chart-1 svg").bounding_box()
    tab.mouse.click(box["x"] + box["width"] - 12, box["y"] + 60)
    until(tab, f"Math.abs({seconds} - 3.75) < 0.01")
    cursor, last = tab.locator("#chart-2 .cursor"), tab.locator("#chart-2 circle[data-verdict]:not(.here)").last
    assert float(cursor.get_attribute("x1")) == pytest.approx(float(last.get_attribute("cx")), abs=1)


def test_film_plays_and_the_slider_follows(look: Callable[..., Any]) -> None:
    tab = look()
    pick(tab, 1)
    tab.evaluate("document.querySelector('#film-1 video').muted = true, document.querySelector('#film-1 video').play()")
    until(tab, "Number(document.querySelector('#moment').value) >= 2")


def test_sound_is_swapped_and_the_clip_is_sent_once(look: Callable[..., Any], clips: Path) -> None:
    tab = look()
    sent: list[str] = []
    tab.on("request", lambda request: "uploads" in request.url and sent.append(request.url))
    choose(tab, clips / "good.mp4")
    localize(tab)
    own = tab.evaluate("shown.models[0].items")
    tab.select_option("#sound", label="sample: Frog")
    tab.click("#go")
    tab.wait_for_selector("#verdict-1 .with:has-text('with sample: Frog')")
    assert tab.evaluate("shown.models[0].items") != own
    tab.select_option("#sound", "file")
    localize(tab)
    assert notice(tab).startswith("Expected a file to hear, but got none. Choose or record one")
    choose(tab, clips / "tone.wav", "#sound-file")
    tab.click("#go")
    tab.wait_for_selector("#verdict-1 .with:has-text('with a file')")
    assert [url.rpartition("=")[2] for url in sent] == [".mp4", ".wav"]


def test_sound_is_recorded(look: Callable[..., Any], clips: Path) -> None:
    tab = look()
    choose(tab, clips / "mute.mp4")
    tab.select_option("#sound", "file")
    tab.click("#record-sound")
    tab.wait_for_selector("#record-sound:has-text('Stop (1 s)')")
    tab.click("#record-sound")
    tab.wait_for_selector("#sound-preview:not([hidden])")
    localize(tab)
    assert verdict(tab) == "visible source"


def test_photo_with_a_sound_is_localized(look: Callable[..., Any], clips: Path) -> None:
    tab = look()
    choose(tab, clips / "picture.png")
    tab.wait_for_selector("#sound-hint:has-text('A photo needs a sound')")
    localize(tab)
    assert notice(tab) == "Expected a sound for this photo, but got none. Choose one under “Swap the sound”."
    tab.select_option("#sound", "sample-1")
    tab.click("#go")
    until(tab, "document.querySelector('#film-1 img')?.naturalWidth > 0")
    assert not tab.locator("#moments").is_visible()
    assert "threshold" in tab.locator("#readout-1").inner_text()


def test_film_and_timeline_are_downloaded(look: Callable[..., Any], clips: Path) -> None:
    tab = look()
    choose(tab, clips / "good.mp4")
    localize(tab)
    for button, name in (("#mp4-2", "earsight-2.mp4"), ("#json-2", "earsight-2.json")):
        with tab.expect_download() as coming:
            tab.click(button)
        assert coming.value.suggested_filename == name
        data = Path(coming.value.path()).read_bytes()
        assert data[4:8] == b"ftyp" if name.endswith("mp4") else json.loads(data)["version"] == 2


def test_broken_file_is_refused_in_three_parts(look: Callable[..., Any], clips: Path) -> None:
    tab = look()
    choose(tab, clips / "broken.mp4")
    localize(tab)
    assert notice(tab).startswith("Expected a video with sound, but the clip is damaged or cut off. Get it again")
    assert not tab.locator("#results").is_visible()


def test_nothing_chosen_is_said(look: Callable[..., Any]) -> None:
    tab = look()
    localize(tab)
    assert notice(tab) == "Expected a clip, but got none. Drop one, record one, or pick a sample."


def test_files_that_cannot_do_are_refused_before_they_are_sent(
    look: Callable[..., Any], clips: Path, tmp_path: Path
) -> None:
    tab = look()
    sent: list[str] = []
    tab.on("request", lambda request: sent.append(request.url))
    (tmp_path / "big.mp4").write_bytes(bytes(1_200_000))
    choose(tab, tmp_path / "big.mp4")
    said = notice(tab)
    assert said == "Expected a file of at most 1 MB, but this one is larger. Cut it or scale it down, and try again."
    (tmp_path / "text.txt").write_text("no clip")
    for path in (clips / "tone.wav", tmp_path / "text.txt"):
        choose(tab, path)
        assert notice(tab).startswith("Expected a video or a photo, such as mp4, mov, mkv, webm or jpg, but this file")
    assert not [url for url in sent if "upload" in url]
    choose(tab, clips / "good.mp4")
    tab.wait_for_selector("#stage video")
    assert tab.locator("#notice").count() == 0


def test_a_file_is_dropped(look: Callable[..., Any], clips: Path) -> None:
    tab = look()
    data = list((clips / "good.mp4").read_bytes())
    transfer = tab.evaluate_handle(
        """bytes => {
            const transfer = new DataTransfer();
            transfer.items.add(new File([new Uint8Array(bytes)], "<b>dropped</b>.mp4", {type: "video/mp4"}));
            return transfer;
        }""",
        data,
    )
    tab.dispatch_event("#drop", "drop", {"dataTransfer": transfer})
    assert tab.locator("#clip-name span").inner_text() == "<b>dropped</b>.mp4"
    localize(tab)
    assert verdict(tab) == "visible source"


def test_video_that_the_browser_cannot_play_is_localized_all_the_same(look: Callable[..., Any], tmp_path: Path) -> None:
    make.steps(tmp_path / "old.avi", 1.0, 10)
    tab = look()
    choose(tab, tmp_path / "old.avi")
    tab.wait_for_selector("#no-preview:has-text('Your browser cannot play this kind of file. It can be localized')")
    localize(tab)
    assert verdict(tab) == "visible source"


def test_recording_is_localized(look: Callable[..., Any]) -> None:
    tab = look()
    record(tab, 2.0)
    localize(tab)
    assert verdict(tab) == "visible source"
    assert dots(tab) >= 4


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
    assert notice(tab).startswith("Expected a video with sound, but the clip has no sound. Choose a clip with sound")


def test_progress_is_shown_and_a_clip_is_cancelled(look: Callable[..., Any]) -> None:
    tab = look()
    states = [{"state": "waiting", "ahead": 2}, {"state": "working", "progress": 0.4}]
    tab.route("**/api/job", lambda way: way.fulfill(json=states[0]) if way.request.method == "GET" else way.continue_())
    tab.locator(SAMPLE).nth(0).click()
    tab.wait_for_selector("#progress:has-text('Waiting'):has-text('2 clips come first')")
    del states[0]
    tab.wait_for_selector("#track[aria-valuenow='40']")
    assert "Localizing" in tab.locator("#progress").inner_text()
    tab.unroute("**/api/job")
    tab.click("#cancel")
    assert not tab.locator("#progress").is_visible()
    assert tab.locator("#empty").is_visible()
    pick(tab, 1)


def test_full_queue_and_lost_session_are_explained(look: Callable[..., Any], clips: Path) -> None:
    tab = look()
    choose(tab, clips / "good.mp4")
    full = {"status": 429, "json": {"error": "Expected a free place in the queue, but too many people are waiting."}}
    tab.route("**/api/job", lambda route: route.fulfill(**full))
    localize(tab)
    assert notice(tab) == "Expected a free place in the queue, but too many people are waiting."
    tab.unroute("**/api/job")
    tab.evaluate("fetch('/api/session', {method: 'DELETE', headers: {[HEADER]: session}})")
    localize(tab)
    assert verdict(tab) == "visible source", "a new session is opened, and the clip is sent again"
    tab.route("**/api/**", lambda route: route.abort())
    tab.click("#go")
    tab.wait_for_selector("#notice")
    assert notice(tab).startswith("Expected an answer from the server, but it cannot be reached.")


def test_two_users_at_once_get_their_own_answers(look: Callable[..., Any], clips: Path) -> None:
    one, two = look(), look()
    choose(one, clips / "good.mp4")
    choose(two, clips / "longer.mp4")
    one.click("#go")
    two.click("#go")
    for tab, count in ((one, 4), (two, 8)):
        tab.wait_for_selector("#chart-1 svg")
        assert dots(tab) == count


@pytest.mark.parametrize(
    ("verdicts", "says"),
    [
        (["no visible source"], "No visible source"),
        (["silent", "silent"], "Silent"),
        (["silent", "silent", "no visible source"], "No visible source while something is heard"),
        (["visible source"] * 2 + ["no visible source"], "The source is in the picture most of the time"),
        (
            ["visible source"] * 2 + ["silent", "no visible source"],
            "The source is in the picture most of the time that something is heard",
        ),
    ],
)
def test_headline_is_true_of_the_time_it_names(quiet: Any, verdicts: list[str], says: str) -> None:
    items = [[k / 5, verdict, 0.5] for k, verdict in enumerate(verdicts)]
    assert quiet.evaluate("headline", items) == says


def test_shares_say_when_a_clip_went_on(quiet: Any) -> None:
    items = [[0.0, "visible source", 0.5]] * 3 + [[1.0, "silent", 0.5]]
    assert quiet.evaluate("items => sharesText(items, 0)", items) == "of the clip: visible source 75%, silent 25%"
    said = quiet.evaluate("items => sharesText(items, 60)", items)
    assert said.startswith("of its first 60 s, which is as long as a clip may be: visible source 75%")


@pytest.mark.parametrize("threshold", [0.5, None])
@pytest.mark.parametrize("count", [1, 2, 3000])
def test_results_are_drawn_with_a_dot_for_every_moment(quiet: Any, count: int, threshold: float | None) -> None:
    items = [[k * 0.2, "visible source", 0.4 + k / 9999] for k in range(count)]
    notes = ["the pictures end at 1.0 s <img src=x onerror=alert(1)>"]
    model = {"items": items, "threshold": threshold, "cut": 0, "notes": notes, "film": "/none.mp4", "timeline": "/x"}
    quiet.evaluate("model => { showResults([model], '<i>bell</i>'); step(99999); }", model)
    assert dots(quiet) == count
    assert quiet.locator("#chart-1 .limit").count() == (threshold is not None)
    assert "NaN" not in quiet.locator("#chart-1").inner_html()
    assert quiet.locator(".note").inner_text() == f"Note: {notes[0]}."
    assert quiet.locator(".with").inner_text() == "with <i>bell</i>"
    assert quiet.locator("#result-1 img").count() == 0
    quiet.wait_for_selector("#film-1 p:has-text('This film is no longer on the server.')")


@pytest.fixture
def quiet(look: Callable[..., Any]) -> Any:
    """An open page of which only functions are called."""
    return look()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1280])
def test_page_fits_a_phone_and_a_desktop(look: Callable[..., Any], width: int, scheme: str) -> None:
    tab = look(width, 844, scheme)
    pick(tab, 1)
    assert tab.evaluate("document.documentElement.scrollWidth") <= width
    for part in ("#go", "#film-1", "#chart-2", "#moment", "#film-2", "#json-1"):
        box = tab.locator(part).bounding_box()
        assert box["x"] >= 0, part
        assert box["x"] + box["width"] <= width, part
    ground = tab.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (int(ground.split("(")[1].split(",")[0]) < 50) == (scheme == "dark")


def test_everything_is_reached_by_keyboard(look: Callable[..., Any], clips: Path) -> None:
    tab = look()
    pick(tab, 1)
    tab.evaluate("document.activeElement.blur()")
    reached = set()
    for _ in range(40):
        tab.keyboard.press("Tab")
        reached.add(tab.evaluate("document.activeElement.id || document.activeElement.value"))
    assert {"clear", "record", "sample-5", "sound", "go", "moment", "after", "mp4-2", "json-2"} <= reached
    outline = "getComputedStyle(document.querySelector('#go')).outlineStyle"
    tab.focus("#sound")
    tab.keyboard.press("Tab")
    assert tab.evaluate(outline) == "solid"
    tab.keyboard.press("Enter")
    tab.wait_for_selector("#progress:not([hidden])")


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
            pick(tab, 0)
            tab.evaluate("step(37)")
            tab.mouse.move(2, 2)
            tab.wait_for_timeout(3000)
            tab.screenshot(path=str(folder / f"app-{name}.png"), full_page=True)
            tab.close()
