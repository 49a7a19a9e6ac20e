"""What a video file tells of itself: whether its pictures move, and whether pictures and sound are equally long."""

from __future__ import annotations

import numpy as np

from earsight.media.read import MediaInfo, read_audio, read_frame
from earsight.types import F32, U8

LATE = 0.5
"""Seconds by which pictures and sound of one video may differ in length."""
_TILES = 8
_LEVELS = 4.0  # of 255: encoders change a tile of a photo by up to 3 (mp4, webm, avi), small moving things by over 10
_SAMPLES = (0.1, 0.3, 0.5, 0.7, 0.9)
_TAIL = 30.0
_RATE = 8000


def still(info: MediaInfo) -> bool:
    """Whether five frames spread over the video all look the same, tile by tile."""
    length = info.duration or 10.0
    first, *others = (tiles(read_frame(info.path, share * length)[0]) for share in _SAMPLES)
    return all(other.shape == first.shape and float(np.abs(other - first).max()) < _LEVELS for other in others)


def tiles(frame: U8) -> F32:
    """Mean colours of about 8 x 8 tiles of a frame (3, H, W); a smaller frame as it is.

    >>> tiles(np.full((3, 64, 96), 7, np.uint8)).shape
    (3, 8, 8)
    """
    _, height, width = frame.shape
    down, across = max(1, height // _TILES), max(1, width // _TILES)
    rows, columns = height // down, width // across
    cut = frame[:, : rows * down, : columns * across].reshape(3, rows, down, columns, across)
    mean: F32 = cut.mean(axis=(2, 4), dtype=np.float32)
    return mean


def mistimed(info: MediaInfo) -> str:
    """How pictures and sound of a video differ in length, in words; empty when they do not, or nothing is known."""
    if info.duration is None:
        return ""
    _, last = read_frame(info.path, info.duration)
    shown = last + float(1 / info.fps if info.fps else 0)
    # Only the end is decoded: a sound that is over before it ends far too early anyway.
    start = max(0.0, info.duration - _TAIL)
    tail = len(read_audio(info.path, _RATE, start)) / _RATE
    if abs(shown - start - tail) <= LATE:
        return ""
    most = "at most " if start and not tail else ""
    return f"shows {shown:.2f} s of pictures with {most}{start + tail:.2f} s of sound"
