"""What a shard holds of a clip: its picture made small and JPEG, its sound 16-bit, or why it could not be read."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from earsight.data.clips import ClipSet, sound_window
from earsight.data.jpeg import encode_jpeg
from earsight.data.manifest import Settings
from earsight.data.pack import LONGEST
from earsight.data.shard import LETTERS, Stored, sound_row
from earsight.data.view import resized
from earsight.errors import DataError, MediaError
from earsight.types import floats

LONGEST_NAME = LETTERS // 4
"""Letters of a name, or of why a clip failed; in UTF-8 each takes up to four bytes."""


class Source(NamedTuple):
    """The clips to pack, and how."""

    clip_set: ClipSet
    settings: Settings


def store(source: Source, index: int) -> Stored:
    """Read one clip and make of it what a shard holds."""
    settings = source.settings
    try:
        clip = source.clip_set.read(index, settings.rate, settings.seconds)
        if clip.rate != settings.rate:
            raise DataError(
                f"Expected {clip.id} at {settings.rate} samples per second, but its set gave {clip.rate}. "
                "Let its read() give what it is asked for."
            )
        _, height, width = clip.frame.shape
        scale = min(1.0, settings.size / min(height, width))
        height, width = max(1, round(height * scale)), max(1, round(width * scale))
        if max(height, width) > LONGEST:
            raise MediaError(
                clip.id, f"has a picture of {width} x {height}, and JPEG ends at {LONGEST}.", "Cut the picture."
            )
    except MediaError as error:
        return Stored(np.zeros(0, np.uint8), 0, 0, np.zeros(0, np.int16), 0.0, _text(str(error))[:LONGEST_NAME])
    frame = np.frombuffer(encode_jpeg(resized(clip.frame, height, width).numpy(), settings.quality), np.uint8)
    start, stop, moment = sound_window(len(clip.waveform), clip.time, settings.rate, settings.seconds)
    scaled = np.round(np.nan_to_num(floats(clip.waveform[start:stop]), posinf=1, neginf=-1) * 32768)
    return Stored(frame, height, width, np.clip(scaled, -32768, 32767).astype("<i2"), float(moment))


def _text(text: str) -> str:
    """Text that UTF-8 can hold; names of files may be of other bytes."""
    return text.encode("utf-8", "backslashreplace").decode()


def need_packable(clip_set: ClipSet) -> None:
    """Refuse rows that would not come back from a pack as the same list."""
    if len(clip_set) == 0:
        raise DataError(f"Expected clips in {clip_set.name}, but got none. Name another split.")
    for row in clip_set.rows:
        names = (row.id, row.label, row.kind, row.picture, row.sound)
        texts = all(len(name) <= LONGEST_NAME and name == _text(name) for name in names)
        floats = all(isinstance(value, float) for box in row.boxes for value in box)
        if not (texts and floats and len(row.boxes) <= LONGEST_NAME and sound_row(row)):
            raise DataError(
                f"Expected names in Unicode of at most {LONGEST_NAME} letters, boxes of finite floats and a consensus "
                f"of at least 1 in {clip_set.name}, but got another row for {_text(row.id)[:80]}. Correct the list."
            )
