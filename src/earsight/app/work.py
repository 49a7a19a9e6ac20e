"""The work on one clip, done in a process that may die of it: check, swap the sound, localize, draw."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from earsight.app.limits import PageLimits
from earsight.errors import MediaError
from earsight.files import write_text
from earsight.localize.timeline import Timeline
from earsight.media.accept import Limits
from earsight.media.read import MediaInfo, iter_frames, probe, read_audio
from earsight.media.write import VideoWriter, write_wav

if TYPE_CHECKING:
    from earsight.localize import Localizer

Tell = Callable[[float], None]
SIDE = 640
"""Longer side of the slider's pictures."""
_RATE = 44100
_QUALITY = 85
_SOONEST = 1e-3  # seconds between two frames; broken files have closer ones, which no video can hold


def film_name(model: int) -> str:
    return f"earsight-{model + 1}.mp4"


def timeline_name(model: int) -> str:
    return f"earsight-{model + 1}.json"


def frame_name(model: int, moment: int) -> str:
    """File of a slider's picture.

    >>> frame_name(0, 7)
    'frame-1-0007.jpg'
    """
    return f"frame-{model + 1}-{moment:04d}.jpg"


def work(
    load: Callable[[], Sequence[Localizer]],
    clip: Path,
    sound: Path | None,
    out: Path,
    scratch: Path,
    limits: PageLimits,
    tell: Tell,
) -> list[dict[str, Any]]:
    """Localize `clip`, with the sound of `sound` when there is one, by every localizer; all files go into `out`.

    A clip that cannot be used is refused before the localizers are loaded.
    """
    info = checked(clip, limits, needs_sound=sound is None)
    # A recording that does not say how long it is cannot be refused for its length.
    cut = limits.seconds if info.duration is None and goes_on(clip, limits) else 0.0
    localizers = load()
    if sound is not None:
        clip = swapped(clip, info, sound, scratch / "swapped.mp4", limits)
        tell(0.1)
    begin = 0.1 if sound is not None else 0.0
    answers = []
    for at, localizer in enumerate(localizers):
        low, high = (begin + (1 - begin) * (at + part) / len(localizers) for part in (0.0, 1.0))

        def told(done: float, total: float, low: float = low, high: float = high) -> None:
            tell(low + (high - low) * min(1.0, done / max(total, 1e-9)))

        heard = "clip" if sound is None else "another file"
        answers.append(_by(localizer, at, clip, info.aspect, heard, out, scratch, limits, told))
        answers[-1]["cut"] = cut
    return answers


def goes_on(clip: Path, limits: PageLimits) -> bool:
    """Whether a new picture comes after the longest time that a clip may take."""
    # The first is the one that is shown then, however long it has been there.
    late = islice(iter_frames(clip, start=limits.seconds, limits=_of_any_length(limits)), 2)
    return any(time >= limits.seconds for time, _ in late)


def _of_any_length(limits: PageLimits) -> Limits:
    """For files that go on without having said so, of which not all is read."""
    return replace(limits.media, max_seconds=Limits().max_seconds)


def checked(path: Path, limits: PageLimits, needs_sound: bool = True) -> MediaInfo:
    """What a clip holds, or a MediaError when it is no video, has no sound, or is over a limit."""
    info = probe(path, limits.media)
    if not info.has_video:
        kind = "is a picture, which does not move." if info.is_image else "has no video track."
        raise MediaError(path, kind, "Choose a video; a sound alone can go under “Swap the sound”.")
    if needs_sound and not info.has_audio:
        raise MediaError(path, "has no sound.", "Choose a clip with sound, or give it one under “Swap the sound”.")
    return info


def swapped(clip: Path, info: MediaInfo, sound: Path, to: Path, limits: PageLimits) -> Path:
    """Write the pictures of `clip` with the sound of another file, repeated until the pictures end."""
    if not probe(sound, limits.media).has_audio:
        raise MediaError(sound, "has no sound.", "Choose another one under “Swap the sound”.")
    heard = read_audio(sound, _RATE, 0.0, limits.seconds, _of_any_length(limits))
    if not len(heard):
        raise MediaError(sound, "holds no sound that can be decoded.", "Choose another one under “Swap the sound”.")
    seconds = min(info.duration or limits.seconds, limits.seconds)
    wav = to.with_suffix(".wav")
    write_wav(wav, np.resize(heard, max(1, round(seconds * _RATE))), _RATE)
    fps = min(info.fps or Fraction(25), Fraction(1000))
    with VideoWriter(to, info.width, info.height, fps, wav, aspect=info.aspect) as film:
        last = -1.0
        for time, frame in iter_frames(clip, end=limits.seconds, limits=_of_any_length(limits)):
            if time > last + _SOONEST and frame.shape[1:] == (info.height, info.width):
                film.write(frame, time)
                last = time
    return to


def _by(
    localizer: Localizer,
    model: int,
    clip: Path,
    aspect: float,
    heard: str,
    out: Path,
    scratch: Path,
    limits: PageLimits,
    progress: Callable[[float, float], None],
) -> dict[str, Any]:
    """One localizer's answer: the film, the timeline and the slider's pictures as files, the rest as plain values."""
    from earsight.localize import Settings, localize_video

    settings = Settings(limits.every, end=limits.seconds, formats=("mp4", "npz"), force=True)
    timeline = localize_video(localizer, clip, scratch / f"answer-{model}", settings, progress=progress)
    film, maps = timeline.files
    film.replace(out / film_name(model))
    # A visitor learns nothing of where things lie on this machine.
    public = replace(timeline, source="clip", sound=heard, weights=Path(timeline.weights).name)
    write_text(out / timeline_name(model), json.dumps(public.to_json(), indent=2, allow_nan=False) + "\n")
    _frames(localizer, model, clip, aspect, timeline, maps, out, limits)
    return {
        "threshold": timeline.threshold,
        "notes": list(timeline.notes),
        "items": [[item.time, item.verdict, item.confidence, item.momentary] for item in timeline.items],
    }


def _frames(
    localizer: Localizer,
    model: int,
    clip: Path,
    aspect: float,
    timeline: Timeline,
    maps: Path,
    out: Path,
    limits: PageLimits,
) -> None:
    """The slider's pictures: each moment's frame with its map, boxes and verdict."""
    from earsight.data.jpeg import encode_jpeg
    from earsight.localize.view import View, drawn
    from earsight.overlay import scaled

    with np.load(maps) as held:
        scores = held["maps"]
    frames = iter_frames(clip, limits.every, end=limits.seconds)
    for at, (moment, score, (_, frame)) in enumerate(zip(timeline.items, scores, frames, strict=False)):
        view = View.of(moment, score, localizer.protocol)
        picture = drawn(scaled(frame, SIDE, aspect), view, caption=())
        (out / frame_name(model, at)).write_bytes(encode_jpeg(picture, _QUALITY))
