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


def iter_planes(
    path: Path, height: int, width: int, start: float = 0.0, end: float | None = None
) -> Iterator[tuple[float, Planes]]:
    """Each frame that is shown between `start` and `end`, with its own time, upright and (height, width) large.

    An odd size gets one more row or column. The planes are only good until the next frame.
    """
    from av.video.reformatter import VideoReformatter

    with opened(path, Limits()) as source:
        converter = VideoReformatter()
        for begin, _, frame in frames.spans(source, start):
            if end is not None and begin >= end - frames.SAME:
                return
            source.check_pixels(frame.width * frame.height)
            yield begin, _upright(converter, frame, frames.orientation_of(source, frame), height, width)
            source.restart_clock()


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
