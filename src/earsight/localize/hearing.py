"""The sound of a video around one time after another, read once and forgotten behind."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from earsight.data.clips import fit_waveform
from earsight.localize.given import CHUNK, sound_chunks
from earsight.media.accept import AnyPath
from earsight.types import F32

_CLOSE = 0.5  # seconds by which sound may end before the pictures and still count as lasting to their end


class Hearing:
    """Windows of a file's sound at times that go up, in constant memory.

    A window is centred on its time and moved inside the file at both ends; sound shorter than the window is repeated.
    Sound that ends well before the pictures is followed by silence.

    Args:
        path: the file.
        rate: samples per second.
        window: seconds in a window.
        duration: playing time of the file, or None when unknown.
        start: the first time that will be asked for.
    """

    def __init__(
        self, path: AnyPath, rate: int, window: float, duration: float | None = None, start: float = 0.0
    ) -> None:
        self.rate, self.count = rate, round(window * rate)
        begin = int(max(0.0, start - window))  # a window earlier, since windows move back at the end of the file
        self._first = begin * rate  # index of the first held sample
        self._held = np.zeros(0, np.float32)
        self._chunks = _lasting(sound_chunks(path, rate, begin), self._first, round((duration or 0.0) * rate), rate)
        self._ended = False

    def around(self, time: float) -> F32:
        """The window (count,) around `time`; times must go up."""
        start = max(self._first, round(time * self.rate - self.count / 2))
        while not self._ended and self._first + len(self._held) < start + self.count:
            chunk = next(self._chunks, None)
            self._ended = chunk is None
            if chunk is not None:
                drop = min(len(self._held), max(0, start - self.count - self._first))
                self._held = np.concatenate([self._held[drop:], chunk])
                self._first += drop
        if self._ended:
            start = max(self._first, min(start, self._first + len(self._held) - self.count))
        part = self._held[start - self._first : start - self._first + self.count]
        return fit_waveform(part, self.rate, 0.0, self.count)


def _lasting(chunks: Iterator[F32], first: int, last: int, rate: int) -> Iterator[F32]:
    """The chunks, which begin at sample `first`, followed by zeros up to `last` when they end well before it."""
    for chunk in chunks:
        first += len(chunk)
        yield chunk
    if last - first > _CLOSE * rate:
        for at in range(first, last, round(CHUNK * rate)):
            yield np.zeros(min(last - at, round(CHUNK * rate)), np.float32)
