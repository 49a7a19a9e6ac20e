"""Pictures out of an open media file: the frame shown at a time, for how long it is shown, and its upright pixels."""

from __future__ import annotations

import itertools
import math
import struct
from collections.abc import Iterator
from fractions import Fraction
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from earsight.media import upright
from earsight.media._open import DAMAGED, Source
from earsight.types import U8

if TYPE_CHECKING:
    from av.frame import Frame
    from av.video.frame import VideoFrame
    from av.video.stream import VideoStream

SAME = 1e-6  # seconds; a time that went through a float still means its own frame
CLOSE = 0.5
"""Seconds by which the ends of pictures and sound may differ in a whole file."""
_DECLARING = ("mov", "avi", "matroska", "flv", "asf")  # whose headers say how long they play; others are guessed at


def shown(source: Source, time: float) -> tuple[U8, float]:
    begin, _, frame = next(spans(source, time))
    return rgb_of(source, frame), begin


def spans(source: Source, start: float) -> Iterator[tuple[float, float, VideoFrame]]:
    """Frames as (shown from, shown until, frame), from the one shown at `start` on; always at least one."""
    video = source.need_video()
    held: tuple[float, VideoFrame] | None = None
    gap = 0.0
    for when, frame in timed(source, video, start):
        if held is not None:
            gap = when - held[0]
            if when > start + SAME:
                yield held[0], when, held[1]
        held = when, frame
    if held is None:
        raise source.error("holds no picture that can be decoded.", DAMAGED)
    # The last frame is also what is shown past the end.
    yield held[0], max(_last_until(source, video, *held, gap), start + 2 * SAME), held[1]


def _last_until(source: Source, video: VideoStream, begin: float, frame: VideoFrame, gap: float) -> float:
    """How long the last frame is shown: at least as long as the one before it.

    Longer where the frame says so, and where the stream says so and the file's sound goes on until then: without that
    the file is cut off, and nobody knows what came next. Never longer than the file plays.
    """
    until = begin + (gap or 0.04)
    if source.is_image:
        return until
    latest = source.duration or math.inf
    if frame.duration and frame.time_base:
        until = max(until, min(begin + float(frame.duration * frame.time_base), latest))
    declared = declared_end(source, video)
    if declared is not None and source.heard_until > declared - CLOSE and source.last_picture < begin + SAME:
        until = max(until, min(declared, latest))
    source.check_length(until)
    return until


def declared_end(source: Source, video: VideoStream) -> float | None:
    """When the pictures end as their own stream says, or None where it says nothing."""
    if source.counts_from_zero:  # FFmpeg's number is that of the whole file there
        end = _seconds(video.metadata.get("DURATION", ""))
    elif video.duration and video.time_base:
        begin = source.origin if video.start_time is None else float(video.start_time * video.time_base)
        end = begin + float(video.duration * video.time_base)
    else:
        end = None
    fps = fps_of(video)
    if source.container.format.name == "avi" and video.frames and fps:  # FFmpeg's is shortened for a cut file
        end = max(end or 0.0, float(video.frames / fps))
    return None if end is None else end - source.origin


def missing_from(source: Source, video: VideoStream, until: float) -> float | None:
    """When the pictures should end, where they clearly end before it, at `until`; None where nothing is missing.

    To be asked once the pictures were read to their end. A file whose sound alone goes on misses nothing.
    """
    if source.duration is None or not any(kind in source.container.format.name for kind in _DECLARING):
        return None
    declared = declared_end(source, video)
    if declared is None:
        if source.heard_until > source.duration - CLOSE:
            return None
        # Of other kinds some files count from 0, others from their start.
        declared = source.duration - (0 if source.counts_from_zero else source.origin)
    return declared if until < declared - CLOSE else None


def _seconds(clock: str) -> float | None:
    """The seconds of a time as Matroska writes it.

    >>> _seconds("00:01:05.250000000"), _seconds("")
    (65.25, None)
    """
    try:
        hours, minutes, seconds = map(float, clock.split(":"))
    except ValueError:
        return None
    total = 3600 * hours + 60 * minutes + seconds
    return total if math.isfinite(total) else None


def timed(source: Source, video: VideoStream, start: float = 0.0) -> Iterator[tuple[float, VideoFrame]]:
    """Decoded frames with their times, which only go up; the first is at or before `start` where there is one."""
    last = -1.0
    for decoded in _from(source, video, start):
        frame = cast("VideoFrame", decoded)
        when = source.time_of(frame)
        if when is None:  # some containers give no times: then frames follow each other evenly
            when = max(last, 0.0) + 1 / float(fps_of(video) or 25)
        source.check_length(when)
        if when > last:
            yield when, frame
            last = when


def _from(source: Source, video: VideoStream, start: float) -> Iterator[Frame]:
    """Decoded frames from a key frame at or before `start`; containers that overshoot are asked again, further back."""
    if source.is_image or start < 1:
        return source.frames(video)
    for back in (0, 1, 5, 30, 180):
        if back > start or not source.seek_before(start - back, video):
            break
        frames = source.frames(video)
        first = next(frames, None)
        when = source.time_of(first) if first is not None else None
        if first is not None and when is not None and when <= start + SAME:
            return itertools.chain([first], frames)
    source.rewind()
    return source.frames(video)


def fps_of(video: VideoStream) -> Fraction | None:
    rate = video.average_rate or video.guessed_rate
    return Fraction(rate) if rate and 0 < rate <= 10_000 else None


def aspect_of(video: VideoStream) -> float:
    """Width over height of a stored pixel as it is shown; senseless ones count as square."""
    aspect = float(video.sample_aspect_ratio or 1)
    return aspect if 0.1 <= aspect <= 10 else 1.0


def orientation_of(source: Source, frame: VideoFrame) -> int:
    """How the pictures of a file are stored, as EXIF counts it.

    Only the first frame is asked, since PyAV keeps whom it asks in memory until Python looks for cycles.
    """
    if source.orientation is None:
        source.orientation = source.exif_orientation() if source.is_image else _orientation(frame)
    return source.orientation


def _orientation(frame: VideoFrame) -> int:
    try:
        matrix: Any = frame.side_data.get("DISPLAYMATRIX")
    except ValueError:  # PyAV refuses the whole list when FFmpeg adds a kind it does not know yet
        return {-90: 6, 90: 8, 180: 3, -180: 3}.get(frame.rotation, 1)
    if matrix is None:
        return 1
    a, b, _, c, d = struct.unpack_from("=5i", bytes(matrix))
    return upright.from_matrix(a, b, c, d)


def rgb_of(source: Source, frame: VideoFrame) -> U8:
    """A decoded frame as contiguous uint8 (3, H, W), upright, what is transparent laid on white."""
    clear = frame.format.name == "pal8" or any(part.is_alpha for part in frame.format.components)
    # A JPEG of four inks looks to FFmpeg as if it had transparency.
    if clear and source.container.format.name != "jpeg_pipe":
        rgba = source.pixels_of(frame, "rgba")
        pixels = np.empty((*rgba.shape[:2], 3), np.uint8)
        for row, out in zip(rgba, pixels, strict=True):  # by rows: wider numbers take room
            alpha = row[:, 3:].astype(np.uint16)
            out[:] = (row[:, :3] * alpha + 255 * (255 - alpha) + 127) // 255
    else:
        pixels = source.pixels_of(frame, "rgb24")
    return np.ascontiguousarray(upright.turn(pixels.transpose(2, 0, 1), orientation_of(source, frame)))
