"""Pictures out of an open media file: the frame shown at a time, for how long it is shown, and its upright pixels."""

from __future__ import annotations

import itertools
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
    # The last frame lasts as long as the one before it, and is also what is shown past the end.
    yield held[0], max(held[0] + (gap or 0.04), start + 2 * SAME), held[1]


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
