"""Media in: a frame at a time, sound of a span, and both together. The one door to decoding.

Times are seconds from the start of the file's earliest stream, so pictures and sound of one file stay aligned.
Whatever is wrong with a file is told as a MediaError that names it; what can be decoded of a damaged file is used.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

from earsight.config import need
from earsight.media import frames, sound, upright
from earsight.media._open import opened
from earsight.media.accept import ACCEPTED, AnyPath, Limits
from earsight.types import F32, U8, Clip

__all__ = [
    "ACCEPTED",
    "Limits",
    "MediaInfo",
    "iter_frames",
    "pictures_missing",
    "probe",
    "read_audio",
    "read_clip",
    "read_frame",
    "read_image",
    "read_pair",
]

_DEFAULT = Limits()


@dataclass(frozen=True)
class MediaInfo:
    """What a media file holds, as its headers and its first frame say.

    Args:
        duration: playing time in seconds, or None when the file does not say (and for pictures).
        width: of the upright picture; 0 without pictures.
        height: of the upright picture; 0 without pictures.
        fps: average frames per second, or None without video.
        rate: sound samples per second, or None without sound.
        channels: sound channels; 0 without sound.
        rotation: degrees by which frames are turned clockwise to be upright (0, 90, 180 or 270).
        aspect: how many times as wide as high a pixel of the upright picture is shown; 1 but for anamorphic video.
        tracks: sound tracks, of which the first is heard.
        pictures_end: when the pictures end as their own track declares, or None when it does not.
    """

    path: Path
    has_video: bool
    has_audio: bool
    is_image: bool
    duration: float | None
    width: int
    height: int
    fps: Fraction | None
    rate: int | None
    channels: int
    rotation: int
    aspect: float = 1.0
    tracks: int = 0
    pictures_end: float | None = None


def probe(path: AnyPath, limits: Limits = _DEFAULT) -> MediaInfo:
    """What the file holds. Decodes the first frame, since only that tells which way up it is."""
    with opened(path, limits) as source:
        video, audio = source.video(), source.audio()
        if video is None and audio is None:
            raise source.error("has neither pictures nor sound.", f"Expected one of: {ACCEPTED}.")
        width = height = rotation = 0
        aspect = 1.0
        if video is not None:
            _, _, frame = next(frames.spans(source, 0.0))
            rotation = upright.CLOCKWISE[frames.orientation_of(source, frame)]
            width, height = frame.width, frame.height
            aspect = aspect if source.is_image else frames.aspect_of(video)
            if rotation in (90, 270):
                width, height, aspect = height, width, 1 / aspect
        return MediaInfo(
            path=source.path,
            has_video=video is not None and not source.is_image,
            has_audio=audio is not None,
            is_image=source.is_image,
            duration=source.duration,
            width=width,
            height=height,
            fps=frames.fps_of(video) if video is not None and not source.is_image else None,
            rate=audio.codec_context.sample_rate or None if audio is not None else None,
            channels=audio.codec_context.layout.nb_channels if audio is not None else 0,
            rotation=rotation,
            aspect=aspect,
            tracks=len(source.container.streams.audio),
            pictures_end=frames.declared_end(source, video) if video is not None and not source.is_image else None,
        )


def read_image(path: AnyPath, limits: Limits = _DEFAULT) -> U8:
    """A picture file as uint8 (3, H, W), upright.

    What is transparent lies on white. Of an animation, the first picture.
    """
    with opened(path, limits) as source:
        if not source.is_image:
            raise source.error("is not a picture.", "Expected jpg, png, webp, bmp or gif.")
        return frames.shown(source, 0.0)[0]


def read_frame(path: AnyPath, time: float, limits: Limits = _DEFAULT) -> tuple[U8, float]:
    """The frame shown at `time` as uint8 (3, H, W), upright, and its own time.

    That is the last frame that starts at or before `time`; before the first frame the first, after the end the last.
    A picture file is one frame at 0.
    """
    _check_time("time", time)
    with opened(path, limits) as source:
        return frames.shown(source, time)


def iter_frames(
    path: AnyPath, every: float | None = None, start: float = 0.0, end: float | None = None, limits: Limits = _DEFAULT
) -> Iterator[tuple[float, U8]]:
    """Frames as (time, uint8 (3, H, W)), one in memory at a time.

    Without `every`, each frame that is shown between `start` and `end`, with its own time. With it, the frame shown at
    `start`, `start + every`, ... before `end` or the end of the video, with that time.
    """
    _check_time("start", start)
    need(every is None or 0 < every < float("inf"), "every above 0", every)
    need(end is None or end > start, f"an end after the start ({start})", end)
    with opened(path, limits) as source:
        count = 0
        for begin, until, frame in frames.spans(source, start):
            if every is None:
                if end is not None and begin >= end - frames.SAME:
                    return
                yield begin, frames.rgb_of(source, frame)
                source.restart_clock()
                continue
            while (at := start + count * every) < until - frames.SAME:
                if end is not None and at >= end - frames.SAME:
                    return
                count += 1
                yield at, frames.rgb_of(source, frame)
                source.restart_clock()


def pictures_missing(path: AnyPath, after: float, limits: Limits = _DEFAULT) -> tuple[float, float] | None:
    """When a cut-off video's pictures end, and when they should as it says itself; None where none are missing.

    Reads from `after` to the end, so a late time makes it quick. An ordinary file whose sound is longer than its
    pictures misses none.
    """
    _check_time("time", after)
    with opened(path, limits) as source:
        video, until = source.need_video(), 0.0
        for span in frames.spans(source, after):
            until = span[1]
            source.restart_clock()
        declared = frames.missing_from(source, video, until)
        return None if declared is None else (until, declared)


def read_audio(
    path: AnyPath, rate: int, start: float = 0.0, seconds: float | None = None, limits: Limits = _DEFAULT
) -> F32:
    """Sound of a span, float32 (S,) in [-1, 1] at `rate` samples per second, mono (the mean of all channels).

    Sample k is at time (round(start * rate) + k) / rate. Without `seconds`, to the end. A span that reaches past the
    end comes back shorter, one that lies past it empty; sound that sets in late or has holes is zero there.
    """
    need(0 < rate <= limits.max_rate, f"a rate between 1 and {limits.max_rate}", rate)
    _check_time("start", start)
    need(seconds is None or 0 <= seconds < float("inf"), "seconds of at least 0", seconds)
    with opened(path, limits) as source:
        return sound.read(source, rate, start, seconds)


def read_clip(
    path: AnyPath, time: float | None, rate: int, seconds: float, id: str | None = None, limits: Limits = _DEFAULT
) -> Clip:
    """The frame a video shows at `time` and `seconds` of sound around it, moved inside the video at its two ends.

    Without a time, the middle of the video; where its length is not known, the middle of its first `seconds`.
    """
    _check_time("time", time or 0.0)
    need(0 < seconds < float("inf"), "seconds above 0", seconds)
    with opened(path, limits) as source:
        source.need_audio()
        time = (source.duration or seconds) / 2 if time is None else time
        frame, _ = frames.shown(source, time)
        latest = float("inf") if source.duration is None else max(0.0, source.duration - seconds)
        start = min(max(0.0, time - seconds / 2), latest)
    waveform = read_audio(path, rate, start, seconds, limits)
    return Clip(id or f"{Path(path).stem}@{time:g}", frame, waveform, rate, time - start)


def read_pair(
    image: AnyPath,
    audio: AnyPath,
    start: float,
    rate: int,
    seconds: float,
    id: str | None = None,
    limits: Limits = _DEFAULT,
) -> Clip:
    """A photo and `seconds` of a sound file from `start` on. Of a video, the frame in the middle of that span."""
    _check_time("start", start)
    need(0 < seconds < float("inf"), "seconds above 0", seconds)
    with opened(image, limits) as source:
        frame, _ = frames.shown(source, start + seconds / 2)
    waveform = read_audio(audio, rate, start, seconds, limits)
    name = id or f"{Path(image).stem}+{Path(audio).stem}@{start:g}"
    return Clip(name, frame, waveform, rate, len(waveform) / rate / 2)


def _check_time(name: str, value: float) -> None:
    need(0 <= value < float("inf"), f"a {name} of at least 0 seconds", value)
