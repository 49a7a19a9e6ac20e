"""Frames of a film as they are stored, without a turn through red, green and blue."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from earsight.media import frames
from earsight.media._open import opened
from earsight.media.accept import Limits
from earsight.media.upright import turn
from earsight.types import U8

if TYPE_CHECKING:
    from av.video.frame import VideoFrame
    from av.video.reformatter import VideoReformatter

Planes = tuple[U8, U8, U8]
"""A frame: brightness (H, W) and two of colour (H / 2, W / 2), H and W even."""
_BT601, _BT709, _UNKNOWN = 5, 1, 2  # in FFmpeg's list of colour spaces
_NARROW = 1  # black is 16 and white 235, in its list of ranges
STILL = 0.5
"""Seconds after which a picture that has not changed counts as a still."""
_CLOSING = 3  # frames at the end of a still


def iter_planes(
    path: Path,
    height: int,
    width: int,
    start: float = 0.0,
    end: float | None = None,
    again: float | None = None,
    last: float = 0.04,
) -> Iterator[tuple[float, Planes]]:
    """Each frame that is shown between `start` and `end`, with its own time, upright and (height, width) large.

    With `again`, a still comes again every so many seconds, and at the end some times `last` seconds apart, so that
    what is drawn over it can move on and its film lasts as long as it does. An odd size gets one more row or column.
    The planes are only good until the next frame.
    """
    from av.video.reformatter import VideoReformatter

    with opened(path, Limits()) as source:
        converter = VideoReformatter()
        for begin, until, frame in frames.spans(source, start):
            if end is not None and begin >= end - frames.SAME:
                return
            source.check_pixels(frame.width * frame.height)
            planes = _upright(converter, frame, frames.orientation_of(source, frame), height, width)
            yield begin, planes
            source.restart_clock()
            if again is not None:
                for time in _repeats(max(begin, start), until if end is None else min(until, end), again, last):
                    yield time, planes
                    source.restart_clock()


def _repeats(begin: float, until: float, again: float, last: float) -> Iterator[float]:
    """When a frame comes again that is shown from `begin` on; never for one that soon goes.

    >>> list(_repeats(1.0, 2.0, 0.25, 0.0625)), list(_repeats(1.0, 1.5, 0.25, 0.0625))
    ([1.25, 1.5, 1.75, 1.8125, 1.875, 1.9375], [])
    """
    if until - begin <= STILL + frames.SAME:
        return
    # An encoder hands out frames in another order than they are shown in. A film's length is right when the last few,
    # which that is about, follow each other as evenly as all others do.
    closing = [until - last * k for k in range(_CLOSING, 0, -1) if until - last * k > begin + frames.SAME]
    count = 1
    while (time := begin + count * again) < closing[0] - frames.SAME:
        yield time
        count += 1
    yield from closing


def _upright(converter: VideoReformatter, frame: VideoFrame, way: int, height: int, width: int) -> Planes:
    """The planes of a frame that is stored as EXIF's orientation `way` says."""
    if way >= 5:
        height, width = width, height
    # Files that do not say their colour space mean what players take them for: by the size.
    known = frame.colorspace if frame.colorspace != _UNKNOWN else (_BT709 if frame.height >= 720 else _BT601)
    plain = converter.reformat(
        frame, width, height, "yuv420p", known, _BT709, dst_color_range=_NARROW, threads=1
    )  # the frame itself where it is so already, and of the size that a stream may change on the way
    luma, *chroma = (turn(plane[None], way)[0] for plane in planes_of(plain))
    rows, columns = luma.shape[0] % 2, luma.shape[1] % 2
    if rows or columns:
        luma = np.pad(luma, ((0, rows), (0, columns)), mode="edge")
    return luma, chroma[0], chroma[1]


def planes_of(frame: VideoFrame) -> Planes:
    """The samples of a frame in yuv420p, where they lie."""

    def plane(i: int) -> U8:
        one = frame.planes[i]
        return np.frombuffer(memoryview(one), np.uint8).reshape(one.height, one.line_size)[:, : one.width]

    return plane(0), plane(1), plane(2)
