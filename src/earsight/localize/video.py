"""A video, localized: the model slides over it, and its answers come out as overlay video, contact sheet and timeline.

Memory does not grow with the video's length, size in bytes or number of frames: a frame, a minute of sound and a batch
at a time, and of each moment that has passed only its line in the timeline.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack, closing
from pathlib import Path

from earsight.ahead import ahead
from earsight.errors import MediaError
from earsight.localize.files import USUAL, make_way, outputs, write_json
from earsight.localize.film import write_film
from earsight.localize.glances import glances
from earsight.localize.localizer import Localizer
from earsight.localize.mapsfile import MapsFile
from earsight.localize.notebook import strip
from earsight.localize.seen import Seen
from earsight.localize.settings import BOXES, OVERLAY, SMOOTH, Drawing, Settings
from earsight.localize.sheet import Tiles, write_sheet
from earsight.localize.steady import Glance, steadied
from earsight.localize.timeline import Moment, Timeline
from earsight.media.read import MediaInfo, probe

Progress = Callable[[float, float], None]
"""Called with the work done and the work there is, in seconds of video."""
Stop = Callable[[], bool]
"""Asked between frames, in any thread; once it says True, what is there is finished and written."""


def never() -> bool:
    return False


def localize_video(
    localizer: Localizer,
    path: Path,
    out: Path,
    *,
    every: float = 0.2,
    window: float | None = None,
    smooth: float = SMOOTH,
    start: float = 0.0,
    end: float | None = None,
    formats: tuple[str, ...] = USUAL,
    overlay: float = OVERLAY,
    boxes: int = BOXES,
    batch_size: int = 8,
    progress: Progress | None = None,
    stop: Stop = never,
    force: bool = False,
    name: str | None = None,
) -> Timeline:
    """Localize the sound of a video at `start`, `start + every`, ... and write the answers into the folder `out`.

    Each time is answered for the frame shown then and `window` seconds of sound around it (by default what the model
    hears; less is repeated to fill that). Maps, confidences and verdicts are steadied over `smooth` seconds. The
    overlay video has every frame of the original between `start` and `end`, its size, its frame times and its sound;
    between two times the map moves smoothly from one to the other.

    Args:
        formats: which of "mp4", "png" (contact sheet), "json" (timeline) and "npz" (maps) to write.
        overlay: how opaque the heat is where it is hottest, from 0 to 1.
        boxes: most boxes to draw; the timeline has all of them.
        batch_size: moments that go through the model together; it does not change the answers.
        stop: asked between frames; once it says True, what is there is finished, written and marked as partial.
        force: replace files that are there.
        name: what the outputs are called; by default like the video.
    """
    settings = Settings(every, window, smooth, start, end, formats, Drawing(overlay, boxes), batch_size)
    return localize_one(localizer, Path(path), Path(out), settings, progress, stop, force, name, look=True)


def localize_one(
    localizer: Localizer,
    path: Path,
    out: Path,
    settings: Settings,
    progress: Progress | None = None,
    stop: Stop = never,
    force: bool = False,
    name: str | None = None,
    look: bool = False,
) -> Timeline:
    """`localize_video` with its settings in one piece; with `look`, the answer has some pictures to show itself."""
    seconds = settings.heard(localizer.inputs.seconds)
    info = _need_video(path, settings.start)
    files = outputs(out, name or path.stem, settings.formats)
    make_way(files.values(), force)
    tell = _teller(progress, info, settings)
    tiles, items, partial = Tiles(), list[Moment](), False

    def stopped() -> bool:
        nonlocal partial
        partial = partial or stop()
        return partial

    with ExitStack() as held:
        maps = held.enter_context(MapsFile(files["npz"])) if "npz" in files else None

        def followed() -> Generator[Seen, None, None]:
            """What is seen, kept for all that is written at the end."""
            offer = tiles.offer if "png" in files or look else lambda frame: None
            looking = glances(localizer, path, info, settings, stop=stopped, offer=offer)
            # The model looks at the next moments while the film of these is drawn.
            found: Iterator[Glance] = ahead(looking, 2 * settings.batch_size) if "mp4" in files else looking
            for glance in steadied(found, settings.smooth, localizer.threshold):
                seen = Seen.of(glance, localizer.protocol, info.height, info.width)
                items.append(seen.moment)
                tiles.follow(seen)
                if maps is not None:
                    maps.add(seen.score)
                yield seen

        seen = held.enter_context(closing(followed()))
        if "mp4" in files:
            write_film(files["mp4"], path, info, seen, localizer.protocol, settings, stop=stopped, tell=tell)
        for one in seen:  # all of it without a film, and after one what it did not need
            if "mp4" not in files:
                tell(one.moment.time)
        if not items:  # stopped before the first answer: there is nothing but the timeline to say so
            files = {kind: file for kind, file in files.items() if kind == "json"}
        drawn = tiles.drawn(localizer.protocol, settings.drawing)
        timeline = Timeline(
            source=str(path),
            sound=str(path),
            weights=localizer.name,
            protocol=localizer.protocol.name,
            threshold=localizer.threshold,
            every=settings.every,
            window=seconds,
            smooth=settings.smooth,
            width=info.width,
            height=info.height,
            items=tuple(items),
            files=tuple(files.values()),
            partial=partial,
            strip=strip(drawn) if look else (),
        )
        if "json" in files:
            write_json(files["json"], timeline.to_json())
        if maps is not None and "npz" in files:
            maps.write(timeline)
        if "png" in files:
            write_sheet(files["png"], drawn, timeline)
    if not timeline.partial:
        tell(None)
    return timeline


def _teller(progress: Progress | None, info: MediaInfo, settings: Settings) -> Callable[[float | None], None]:
    """What is told the time that the work has come to, and None at its end."""
    stop = min(settings.end or float("inf"), info.duration or float("inf"))
    total = max(stop - settings.start, 1e-3) if stop < float("inf") else 1e-3

    def tell(time: float | None) -> None:
        nonlocal total
        if progress is not None:
            done = total if time is None else time - settings.start
            total = max(total, done)
            progress(done, total)

    return tell


def _need_video(path: Path, start: float) -> MediaInfo:
    info = probe(path)
    if not info.has_video:
        raise MediaError(path, "has no video track.", "Give a video, or a picture and a sound of the same name.")
    if not info.has_audio:
        raise MediaError(path, "has no audio track.", "There is nothing to localize without sound; give one with it.")
    if info.duration is not None and start >= info.duration:
        raise MediaError(path, f"plays for {info.duration:g} s, but the start is at {start:g} s.", "Start earlier.")
    return info
