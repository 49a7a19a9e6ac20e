"""The work on one clip, in a process that may die of it: check it, swap its sound, localize it."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from earsight.app.limits import PageLimits
from earsight.errors import MediaError
from earsight.files import write_text
from earsight.media.accept import Limits
from earsight.media.read import MediaInfo, iter_frames, probe, read_audio
from earsight.media.write import write_wav

if TYPE_CHECKING:
    from earsight.localize import Localizer

Progress = Callable[[float], None]
_RATE = 44100


def localize_clip(
    load: Sequence[Callable[[str], Localizer]],
    device: str,
    clip: Path,
    sound: Path | None,
    out: Path,
    scratch: Path,
    limits: PageLimits,
    progress: Progress,
) -> list[dict[str, Any]]:
    """Localize a video, or a photo with a sound, by every model; all files go into `out`.

    A clip that cannot be used is refused before the models are loaded.
    """
    info = check_clip(clip, sound is not None, limits)
    if sound is not None:
        check_sound(sound, limits)
    # A recording that does not say how long it is cannot be refused for its length.
    cut = limits.seconds if info.has_video and info.duration is None and goes_on(clip, limits) else 0.0
    localizers = [one(device) for one in load]
    if sound is not None and info.has_video:
        sound = repeated(sound, min(info.duration or limits.seconds, limits.seconds), scratch, limits)
    answers = []
    for at, localizer in enumerate(localizers):

        def tell(done: float, total: float, at: int = at) -> None:
            progress((at + min(1.0, done / max(total, 1e-9))) / len(localizers))

        answers.append({**_by(localizer, at + 1, clip, sound, info, out, scratch, limits, tell), "cut": cut})
    return answers


def check_clip(path: Path, has_sound: bool, limits: PageLimits) -> MediaInfo:
    """What a clip holds, or a MediaError when it is no video or photo, has no sound, or is over a limit."""
    info = probe(path, limits.media)
    if info.is_image:
        if not has_sound:
            raise MediaError(path, "is a picture, which has no sound.", "Choose a sound for it under “Swap the sound”.")
    elif not info.has_video:
        raise MediaError(path, "has no video track.", "Choose a video; a sound alone can go under “Swap the sound”.")
    elif not has_sound and not info.has_audio:
        raise MediaError(path, "has no sound.", "Choose a clip with sound, or give it one under “Swap the sound”.")
    return info


def check_sound(path: Path, limits: PageLimits) -> None:
    """Refuse a file without sound."""
    if not probe(path, limits.media).has_audio:
        raise MediaError(path, "has no sound.", "Choose another one under “Swap the sound”.")


def goes_on(clip: Path, limits: PageLimits) -> bool:
    """Whether a new picture comes after the longest time that a clip may take."""
    # The first is the one that is shown then, however long it has been there.
    late = islice(iter_frames(clip, start=limits.seconds, limits=_of_any_length(limits)), 2)
    return any(time >= limits.seconds for time, _ in late)


def repeated(sound: Path, seconds: float, scratch: Path, limits: PageLimits) -> Path:
    """A sound file of so many seconds, in which a shorter one is repeated."""
    wave = read_audio(sound, _RATE, 0.0, limits.seconds, _of_any_length(limits))
    if not len(wave):
        raise MediaError(sound, "holds no sound that can be decoded.", "Choose another one under “Swap the sound”.")
    path = scratch / "sound.wav"
    write_wav(path, np.resize(wave, max(1, round(seconds * _RATE))), _RATE)
    return path


def _of_any_length(limits: PageLimits) -> Limits:
    """For files that go on without having said so, of which not all is read."""
    return replace(limits.media, max_seconds=Limits().max_seconds)


def _by(
    localizer: Localizer,
    number: int,
    clip: Path,
    sound: Path | None,
    info: MediaInfo,
    out: Path,
    scratch: Path,
    limits: PageLimits,
    progress: Callable[[float, float], None],
) -> dict[str, Any]:
    """One model's answer: the film or picture and the timeline as files, the rest as plain values."""
    from earsight.localize import Settings, localize_pair, localize_video

    folder = scratch / f"answer-{number}"
    if info.has_video:
        settings = Settings(limits.every, end=limits.seconds, formats="mp4")
        timeline = localize_video(localizer, clip, folder, settings, sound=sound, progress=progress)
    else:
        timeline = localize_pair(localizer, clip, sound or clip, folder, Settings(formats="png"))
    for file in timeline.files:
        file.replace(out / f"earsight-{number}{file.suffix}")
    # A visitor learns nothing of where things are on this machine.
    public = replace(
        timeline, source="clip", sound="clip" if sound is None else "another file", weights=Path(timeline.weights).name
    )
    write_text(out / f"earsight-{number}.json", json.dumps(public.to_json(), indent=2, allow_nan=False) + "\n")
    return {
        "threshold": timeline.threshold,
        "notes": list(timeline.notes),
        "items": [[item.time, item.verdict, item.confidence] for item in timeline.items],
    }
