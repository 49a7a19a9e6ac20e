"""A video, localized: the model slides over it, and its answers come out as overlay video, contact sheet and timeline.

Memory does not grow with the video's length, size in bytes or number of frames: a frame, a minute of sound and a batch
at a time, and of each moment that has passed only its line in the timeline.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import ExitStack, closing
from pathlib import Path

from earsight.ahead import ahead
from earsight.errors import MediaError
from earsight.files import local_path
from earsight.localize.files import USUAL, check_formats, make_way, outputs, write_json
from earsight.localize.film import write_film
from earsight.localize.given import check_start, track_notes
from earsight.localize.glances import glances
from earsight.localize.localizer import Localizer
from earsight.localize.mapsfile import MapsFile
from earsight.localize.notebook import strip
from earsight.localize.seen import Seen
from earsight.localize.settings import BOXES, OVERLAY, SMOOTH, Drawing, Settings
from earsight.localize.sheet import Tiles, write_sheet
from earsight.localize.steady import Glance, steadied
from earsight.localize.timeline import Moment, Timeline
from earsight.media.accept import AnyPath
from earsight.media.frames import CLOSE
from earsight.media.read import MediaInfo, pictures_missing, probe
from earsight.media.write import LONGEST

Progress = Callable[[float, float], None]
"""Called with the work done and the work there is, in seconds of video."""
Stop = Callable[[], bool]
"""Asked between frames, in any thread; once it says True, what is there is finished and written."""


def never() -> bool:
    return False


def localize_video(
    localizer: Localizer,
    path: AnyPath,
    out: AnyPath,
    *,
    sound: AnyPath | None = None,
    every: float = 0.2,
    window: float | None = None,
    smooth: float = SMOOTH,
    start: float = 0.0,
    end: float | None = None,
    formats: str | Sequence[str] = USUAL,
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
        sound: another recording to hear in place of the video's own sound, both from their start on.
        formats: which of "mp4", "png" (contact sheet), "json" (timeline) and "npz" (maps) to write, also as one text
            ("mp4,json").
        overlay: how opaque the heat is where it is hottest, from 0 to 1.
        boxes: most boxes to draw; the timeline has all of them.
        batch_size: moments that go through the model together; it does not change the answers.
        stop: asked between frames; once it says True, what is there is finished, written and marked as partial.
        force: replace files that are there.
        name: what the outputs are called; by default like the video.
    """
    chosen = check_formats(formats)
    settings = Settings(every, window, smooth, start, end, chosen, Drawing(overlay, boxes), batch_size)
    other = None if sound is None else local_path(sound)
    return localize_one(localizer, local_path(path), Path(out), settings, progress, stop, force, name, True, other)


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
    sound: Path | None = None,
) -> Timeline:
    """`localize_video` with its settings in one piece; with `look`, the answer has some pictures to show itself."""
    seconds = settings.heard(localizer.inputs.seconds)
    info = _need_video(path, settings.start, sound)
    notes = track_notes(info if sound is None else probe(sound))
    sound = sound or path
    if "mp4" in settings.formats and max(info.width, info.height) > LONGEST:
        reason = f"has pictures of {info.width} x {info.height}, and an mp4 film at most {LONGEST} on a side."
        raise MediaError(path, reason, "Use --format png,json.")
    files = outputs(out, name or path.stem, settings.formats)
    make_way(files.values(), force)
    tell = _teller(progress, info, settings)
    tiles, items, partial = Tiles(info.aspect), list[Moment](), False

    def stopped() -> bool:
        nonlocal partial
        partial = partial or stop()
        return partial

    with ExitStack() as held:
        maps = held.enter_context(MapsFile(files["npz"])) if "npz" in files else None

        def followed() -> Generator[Seen, None, None]:
            """What is seen, kept for all that is written at the end."""
            offer = tiles.offer if "png" in files or look else lambda frame: None
            looking = glances(localizer, path, info, settings, sound=sound, stop=stopped, offer=offer)
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
            about = files["mp4"], path, info, seen, localizer.protocol, settings
            write_film(*about, sound=sound, held=held, stop=stopped, tell=tell)
        for one in seen:  # all of it without a film, and after one what it did not need
            if "mp4" not in files:
                tell(one.moment.time)
        if not items:  # stopped before the first answer: there is nothing but the timeline to say so
            files = {kind: file for kind, file in files.items() if kind == "json"}
        if not partial and items:
            notes = (*_cut_notes(path, info, settings, items[-1].time), *notes)
        notes = (*localizer.notes, *notes)
        drawn = tiles.drawn(localizer.protocol, settings.drawing)
        timeline = Timeline(
            source=str(path),
            sound=str(sound),
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
            notes=notes,
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


def _cut_notes(path: Path, info: MediaInfo, settings: Settings, answered: float) -> tuple[str, ...]:
    """That the pictures end before they should, where they do; `answered` is the last time that they were seen."""
    declared_end = info.pictures_end or info.duration or 0.0
    wanted = min(settings.end or float("inf"), declared_end) - CLOSE
    missing = pictures_missing(path, answered) if answered < wanted else None
    if missing is None or missing[0] >= wanted:
        return ()
    until, declared = missing
    return (f"the pictures end at {until:.1f} s, but should go on until {declared:.1f} s: the file may be cut off",)


def _need_video(path: Path, start: float, sound: Path | None = None) -> MediaInfo:
    """What is in a video that can be used, heard with the sound of another file where there is one."""
    info = probe(path)
    if not info.has_video:
        raise MediaError(path, "has no video track.", "Give a video, or a picture and a sound of the same name.")
    heard = info if sound is None else probe(sound)
    if not heard.has_audio:
        do = "There is nothing to localize without sound; give one with it."
        raise MediaError(heard.path, "has no audio track.", do)
    for one in (info, heard):
        if one.duration is not None:
            check_start(one.path, one.duration, start)
    return info
