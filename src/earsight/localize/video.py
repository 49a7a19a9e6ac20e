"""A video, localized: the model slides over it, and its answers come out as overlay video, contact sheet and timeline.

Memory does not grow with the video's length, size in bytes or number of frames: a frame, a minute of sound and a batch
at a time, and of each moment that has passed only its line in the timeline.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from typing import NamedTuple

from earsight.data.clips import fit_waveform
from earsight.errors import MediaError
from earsight.files import local_path
from earsight.localize.files import MapsFile, make_way, outputs, write_json
from earsight.localize.film import Film
from earsight.localize.inputs import AudioWindows, check_start, is_silent, track_notes
from earsight.localize.localizer import Localizer
from earsight.localize.settings import DEFAULT, Settings
from earsight.localize.sheet import TILE, Tiles, is_tile, stills, write_sheet
from earsight.localize.smoothing import Answer, smoothed
from earsight.localize.timeline import Moment, Timeline
from earsight.localize.view import View
from earsight.media.accept import AnyPath
from earsight.media.frames import CLOSE
from earsight.media.read import MediaInfo, iter_frames, pictures_missing, probe
from earsight.media.write import LONGEST
from earsight.overlay import scaled
from earsight.predict import predict
from earsight.prefetch import prefetch
from earsight.types import F32, U8

LARGEST = 64
"""Side of the maps that are handed on; those of methods with a finer grid are made this small."""
Progress = Callable[[float, float], None]
"""Called with the work done and the work there is, in seconds of video."""
Stop = Callable[[], bool]
"""Asked between frames, in any thread; once it says True, what is there is finished and written."""


class Waiting(NamedTuple):
    """A moment for the model: a picture of its size, the sound around it, and maybe a picture to show it in."""

    time: float
    frame: U8
    sound: F32
    picture: U8 | None = None


def never() -> bool:
    return False


def localize_video(
    localizer: Localizer,
    path: AnyPath,
    out: AnyPath,
    settings: Settings = DEFAULT,
    *,
    sound: AnyPath | None = None,
    progress: Progress | None = None,
    stop: Stop = never,
) -> Timeline:
    """Localize the sound of a video at `start`, `start + every`, ... and write the answers into the folder `out`.

    Each time is answered for the frame shown then and `window` seconds of sound around it (by default what the model
    hears; less is repeated to fill that). Maps, confidences and verdicts are smoothed over `smooth` seconds. The
    overlay video has every frame of the original between `start` and `end`, its size, its frame times and its sound;
    between two times the map moves smoothly from one to the other.

    Args:
        sound: another recording to hear in place of the video's own sound, both from their start on.
        progress: called with the seconds of video done, and all.
        stop: asked between frames; once it says True, what is there is finished, written and marked as partial.
    """
    path = local_path(path)
    files = outputs(Path(out), path.stem, settings.formats)
    other = None if sound is None else local_path(sound)
    return write_video(localizer, (path, other), files, settings, progress, stop)


def write_video(
    localizer: Localizer,
    inputs: tuple[Path, Path | None],
    files: dict[str, Path],
    settings: Settings,
    progress: Progress | None = None,
    stop: Stop = never,
) -> Timeline:
    """`localize_video` of a video and perhaps another sound, into files that are named already."""
    path, other = inputs
    seconds = settings.heard(localizer.inputs.seconds)
    info, notes = _checked(path, other, settings)
    sound = other or path
    make_way(files.values(), settings.force)
    report = _reporter(progress, info, settings)
    tiles, items, partial = Tiles(), list[Moment](), False

    def stopped() -> bool:
        nonlocal partial
        partial = partial or stop()
        return partial

    with ExitStack() as held:
        maps = held.enter_context(MapsFile(files["npz"])) if "npz" in files else None

        def followed() -> Generator[View, None, None]:
            """Moments to show, each kept for all that is written at the end."""
            found = answers(localizer, info, settings, sound, stopped)
            if "mp4" in files:  # the model works on the next moments while the film of these is drawn
                found = prefetch(found, 2 * settings.batch_size)
            for answer in smoothed(found, settings.smooth, localizer.threshold):
                view = View.of_answer(answer, localizer.protocol, info.height, info.width)
                tiles.add(len(items), view, answer.picture)
                items.append(view.moment)
                if maps is not None:
                    maps.add(view.score)
                yield view

        views = held.enter_context(closing(followed()))
        if "mp4" in files:
            film = Film(files["mp4"], info, sound, settings, localizer.notes)
            film.write(views, held, stopped, report)
        for view in views:  # all of them without a film, and after one what it did not need
            if "mp4" not in files:
                report(view.moment.time)
        if not items:  # stopped before the first answer: there is nothing but the timeline to say so
            files = {kind: file for kind, file in files.items() if kind == "json"}
        if not partial and items:
            notes = (*_cut_notes(info, settings, items[-1].time), *notes)
        pictures = tiles.drawn(settings)
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
            notes=(*localizer.notes, *notes),
            stills=stills(pictures),
        )
        if "json" in files:
            write_json(files["json"], timeline)
        if maps is not None and "npz" in files:
            maps.write(timeline)
        if "png" in files:
            write_sheet(files["png"], pictures, timeline)
    if not timeline.partial:
        report(None)
    return timeline


def answers(
    localizer: Localizer, info: MediaInfo, settings: Settings, sound: Path, stop: Stop
) -> Generator[Answer, None, None]:
    """The model's answer for each of the times that the settings ask for, not smoothed yet, as long as `stop` says no.

    The file `sound` is what is heard. Some answers have a picture to show them with.
    """
    inputs, batch = localizer.inputs, list[Waiting]()
    windows = AudioWindows(sound, inputs.rate, settings.heard(inputs.seconds), info.duration, settings.begin)
    frames = iter_frames(info.path, settings.every, settings.begin, settings.end)
    for index, (time, frame) in enumerate(frames):
        if stop():
            return
        shown = scaled(frame, TILE, info.aspect) if is_tile(index) else None
        batch.append(Waiting(round(time, 6), localizer.model.see(frame), windows.around(time), shown))
        if len(batch) == settings.batch_size:
            yield from answer_batch(localizer, batch)
            batch = []
    if batch and not stop():
        yield from answer_batch(localizer, batch)


def answer_batch(localizer: Localizer, batch: Sequence[Waiting]) -> list[Answer]:
    """What the model says of each moment alone."""
    samples = localizer.inputs.samples
    sounds = [fit_waveform(one.sound, localizer.inputs.rate, 0.0, samples) for one in batch]
    found = localizer.maps([one.frame for one in batch], sounds)
    own = (found.native if localizer.protocol.map == "native" else found.dense).shape
    small = predict(found, localizer.protocol, (min(own[1], LARGEST), min(own[2], LARGEST)))
    return [
        Answer(one.time, score, float(sure), float(sure), is_silent(one.sound), picture=one.picture)
        for one, score, sure in zip(batch, small.score, small.confidence, strict=True)
    ]


def _reporter(progress: Progress | None, info: MediaInfo, settings: Settings) -> Callable[[float | None], None]:
    """What passes on the time that the work has come to, and None at its end."""
    stop = min(settings.end or float("inf"), info.duration or float("inf"))
    total = max(stop - settings.begin, 1e-3) if stop < float("inf") else 1e-3

    def report(time: float | None) -> None:
        nonlocal total
        if progress is not None:
            done = total if time is None else time - settings.begin
            total = max(total, done)
            progress(done, total)

    return report


def _cut_notes(info: MediaInfo, settings: Settings, answered: float) -> tuple[str, ...]:
    """That the pictures end before they should, where they do; `answered` is the last time that they were seen."""
    declared_end = info.pictures_end or info.duration or 0.0
    wanted = min(settings.end or float("inf"), declared_end) - CLOSE
    missing = pictures_missing(info.path, answered) if answered < wanted else None
    if missing is None or missing[0] >= wanted:
        return ()
    until, declared = missing
    return (f"the pictures end at {until:.1f} s, but should go on until {declared:.1f} s: the file may be cut off",)


def _checked(path: Path, sound: Path | None, settings: Settings) -> tuple[MediaInfo, tuple[str, ...]]:
    """What is in a video that can be used, and what to note of its sound, or of that of another file."""
    info = probe(path)
    if not info.has_video:
        raise MediaError(path, "has no video track.", "Give a video, or a picture and a sound of the same name.")
    heard = info if sound is None else probe(sound)
    if not heard.has_audio:
        do = "There is nothing to localize without sound; give one with it."
        raise MediaError(heard.path, "has no audio track.", do)
    for one in (info, heard):
        if one.duration is not None:
            check_start(one.path, one.duration, settings.begin)
    if "mp4" in settings.formats and max(info.width, info.height) > LONGEST:
        reason = f"has pictures of {info.width} x {info.height}, and an mp4 film at most {LONGEST} on a side."
        raise MediaError(path, reason, "Use --format png,json.")
    return info, track_notes(heard)
