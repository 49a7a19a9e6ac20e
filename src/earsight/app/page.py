"""The page itself, in Gradio: what is where, and what happens when it is touched."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import Any

import gradio as gr
from gradio.data_classes import FileData

from earsight.app import words
from earsight.app.answer import Answer
from earsight.app.limits import PageLimits
from earsight.app.visit import OTHER, OWN, Desk
from earsight.app.worker import WorkError

ABOUT = (
    '<div id="es-head"><h1>earsight</h1>'
    "<p>Where in the picture does the sound come from? And is it in the picture at all?</p></div>"
)
EMPTY = '<div class="es-empty">Drop a clip, record one, or pick a sample.</div>'

CAMERA = {"video": {"width": {"ideal": 1280}, "height": {"ideal": 720}}}
"""What a camera is asked for; without it, browsers record in the largest size that it has."""


def _untouched(component: Any) -> Any:
    """A component whose files this process never looks into: they go to the worker, and to the browser, as they are.

    Gradio would open videos with FFmpeg. Its methods are replaced, because it writes a file beside the code of every
    class that is made of one of its own.
    """

    def given(payload: Any) -> str | None:
        path = getattr(payload, "path", None)
        return str(path) if path else None

    def shown(value: Any) -> FileData | None:
        return FileData(path=str(value), orig_name=Path(value).name) if value else None

    component.preprocess, component.postprocess = given, shown
    return component


def build(desk: Desk, titles: Sequence[str], limits: PageLimits) -> gr.Blocks:
    """The page for models of these titles."""
    page = gr.Blocks(title="earsight", analytics_enabled=False)
    with page:
        held = gr.State(())
        gr.HTML(ABOUT)
        with gr.Row(equal_height=False):
            with gr.Column(scale=5, min_width=300):
                clip = gr.Video(
                    label=f"Clip, up to {limits.seconds:g} s and {limits.megabytes:g} MB",
                    sources=["upload", "webcam"],
                    include_audio=True,
                    webcam_options=gr.WebcamOptions(mirror=False, constraints=CAMERA),
                    elem_id="es-clip",
                )
                _untouched(clip)
                gr.HTML('<div class="es-or">or pick a sample</div>')
                gallery = gr.Gallery(
                    [(str(sample.picture), sample.title) for sample in desk.samples],
                    label="Samples",
                    show_label=False,
                    columns=3,
                    object_fit="cover",
                    allow_preview=False,
                    height="auto",
                    buttons=[],
                    interactive=False,
                    elem_id="es-samples",
                )
                heard = gr.Dropdown(desk.sounds, value=OWN, label="Swap the sound: hear", elem_id="es-heard")
                other = gr.File(label="File to hear", visible=False, height=120, elem_id="es-other")
                _untouched(other)
                go = gr.Button("Localize", variant="primary", elem_id="es-go")
            with gr.Column(scale=7, min_width=300):
                notice = gr.HTML("", elem_id="es-message")
                with gr.Column(visible=True) as empty:
                    gr.HTML(EMPTY)
                with gr.Column(visible=False, elem_id="es-results") as results:
                    shown = _films(titles)
                    slider = gr.Slider(0, 1, 0, step=1, label="Moment", elem_id="es-slider", buttons=[])
                    shown = [(*one, frame) for one, frame in zip(shown, _pictures(titles), strict=True)]
        heard.change(lambda name: gr.update(visible=name == OTHER), heard, other, queue=False, api_visibility="private")
        outputs = [held, notice, empty, results, slider, *(part for one in shown for part in one)]

        def localize(
            clip: str | None,
            heard: str,
            other: str | None,
            request: gr.Request,
            progress: gr.Progress = gr.Progress(),  # noqa: B008
        ) -> list[Any]:
            """Localize a clip with a sound: its state, a message when it was refused, and all that is shown."""
            progress(0.0, desc="waiting for the model")
            try:
                found = desk.localize(
                    request.session_hash or "", clip, heard, other, lambda share: progress(share, desc="localizing")
                )
            except WorkError as error:
                return [(), words.message(str(error)), gr.update(), gr.update(visible=False), gr.update()] + [
                    gr.update() for one in shown for _ in one
                ]
            name = "" if heard == OWN else heard
            most = len(found[0].points) - 1
            parts = [part for answer in found for part in _values(answer, name)]
            return [
                found,
                "",
                gr.update(visible=False),
                gr.update(visible=True),
                gr.update(maximum=max(1, most), value=0, interactive=most > 0),
                *parts,
            ]

        see = "() => document.querySelector('#es-message').scrollIntoView({behavior: 'smooth', block: 'center'})"
        asked = go.click(localize, [clip, heard, other], outputs, concurrency_limit=1, concurrency_id="work",
                         api_name="localize", show_progress_on=notice)  # fmt: skip
        asked.then(None, js=see)

        def pick(event: gr.SelectData) -> str:
            """The clip of a sample."""
            return str(desk.samples[event.index].clip)

        chosen = gallery.select(pick, None, clip, queue=False, api_visibility="private")
        picked = chosen.then(localize, [clip, heard, other], outputs, concurrency_limit=1, concurrency_id="work",
                             api_visibility="private", show_progress_on=notice)  # fmt: skip
        picked.then(None, js=see)
        frames = [part for _, plot, _, _, _, frame in shown for part in (plot, frame)]

        def show(found: tuple[Answer, ...], at: float) -> list[str]:
            """The moment that the slider points at."""
            if not found:
                return [gr.skip()] * len(frames)
            return [part for one in found for part in (words.plot(one, int(at)), words.picture(one, int(at)))]

        slider.change(show, [held, slider], frames, queue=False, show_progress="hidden", api_name="show",
                      trigger_mode="always_last")  # fmt: skip

        def leave(request: gr.Request) -> None:
            desk.shelf.leave(request.session_hash or "")

        page.unload(leave)
    return page


def _films(titles: Sequence[str]) -> list[tuple[Any, ...]]:
    """For each model headline, plot, film and two downloads; side by side where there is room."""
    made = []
    with gr.Row(equal_height=False):
        for at, title in enumerate(titles, 1):
            with gr.Column(min_width=280, elem_classes="es-two" if len(titles) > 1 else None):
                if len(titles) > 1:
                    gr.HTML(f'<div class="es-model">{escape(title)}</div>')
                headline = gr.HTML(elem_id=f"es-verdict-{at}")
                film = gr.Video(
                    show_label=False,
                    label="Overlay",
                    interactive=False,
                    height=360,
                    elem_id=f"es-film-{at}",
                    buttons=[],
                )
                _untouched(film)
                with gr.Row():
                    mp4 = gr.DownloadButton("Video (mp4)", elem_id=f"es-mp4-{at}", size="sm", min_width=100)
                    table = gr.DownloadButton("Timeline (JSON)", elem_id=f"es-json-{at}", size="sm", min_width=100)
                plot = gr.HTML(elem_id=f"es-plot-{at}")
                made.append((headline, plot, film, mp4, table))
    return made


def _pictures(titles: Sequence[str]) -> list[Any]:
    """For each model the moment that the slider points at."""
    made = []
    with gr.Row(equal_height=False):
        for at in range(1, len(titles) + 1):
            with gr.Column(min_width=280):
                made.append(gr.HTML(elem_id=f"es-picture-{at}"))
    return made


def _values(answer: Answer, heard: str) -> list[Any]:
    film, table = str(answer.film), str(answer.timeline)
    return [words.headline(answer, heard), words.plot(answer), film, film, table, words.picture(answer, 0)]
