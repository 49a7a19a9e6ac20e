"""Sound out of an open media file: blocks without holes, mixed to mono, resampled exactly onto a grid of times."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator
from fractions import Fraction
from typing import TYPE_CHECKING, cast

import numpy as np

from earsight.media._open import DAMAGED, Source
from earsight.types import F32

if TYPE_CHECKING:
    from av.audio.frame import AudioFrame
    from av.audio.stream import AudioStream

Block = tuple[int, int, F32]
"""Sound: index of the first sample since the file's start, samples per second, float32 (C, S)."""

_LEAD_IN = 1.0  # seconds decoded before the wanted span: codecs need some sound before theirs is right
_HOLE = 0.05  # seconds a timestamp may be off before it counts as a hole and not as rounding of the container
_SCALE = {"u8": 2.0**-7, "s16": 2.0**-15, "s32": 2.0**-31, "s64": 2.0**-63, "flt": 1.0, "dbl": 1.0}


def samples_of(source: Source, frame: AudioFrame) -> F32:
    """A decoded frame as float32 (C, S), full scale at 1."""
    channels = frame.layout.nb_channels
    limits = source.limits
    if not 0 < channels <= limits.max_channels:
        raise source.error(f"has {channels} sound channels, over the limit of {limits.max_channels}.", "Mix it down.")
    if not 0 < frame.sample_rate <= limits.max_rate:
        raise source.error(f"has {frame.sample_rate} sound samples per second.", f"The most is {limits.max_rate}.")
    if frame.format.is_planar and channels >= 8:
        frame = _packed(frame)
    name = frame.format.name
    data = frame.to_ndarray()
    data = data.reshape(channels, -1) if frame.format.is_planar else data.reshape(-1, channels).T
    out = data.astype(np.float32) * np.float32(_SCALE[name.removesuffix("p")])
    if name.startswith("u8"):
        out -= 1
    return out


def _packed(frame: AudioFrame) -> AudioFrame:
    """The same sound with its channels interleaved: PyAV crashes when it lists eight planes or more (7.1 AAC)."""
    from av.audio.resampler import AudioResampler

    packer = AudioResampler("flt", frame.layout, frame.sample_rate)
    return (packer.resample(frame) + packer.resample(None))[0]


def blocks(source: Source, stream: AudioStream, start: float, end: float, grid: int) -> Iterator[Block]:
    """Sound from `start` to about `end`, each block right after the last.

    What the file leaves out, before its first sound or in the middle, comes as zeros. The first index falls on a whole
    sample at `grid` samples per second too; for that it may lie up to a second before `start`.
    """
    rate = 0
    latest = (source.duration or math.inf) + 1
    clock = out = 0  # index of the next decoded sample, and of the next one to hand out
    for frame in _from(source, stream, start):
        data = samples_of(source, frame)
        when = source.time_of(frame)
        if frame.sample_rate != rate:
            if rate:  # a stream may change its rate on the way
                clock, out = (math.ceil(Fraction(n * frame.sample_rate, rate)) for n in (clock, out))
            else:
                step = frame.sample_rate // math.gcd(frame.sample_rate, grid)
                out = int(start * frame.sample_rate) // step * step
                clock = out if when is None else round(when * frame.sample_rate)
            rate = frame.sample_rate
        # Only a jump forward inside the file is a hole; otherwise the clock is wrong and the sound goes on.
        if when is not None and when * rate - clock > _HOLE * rate and when < latest:
            clock = round(when * rate)
        source.check_length(min(clock / rate, end))
        while out < min(clock, end * rate):
            zeros = np.zeros((data.shape[0], min(clock - out, rate)), np.float32)
            yield out, rate, zeros
            out += zeros.shape[1]
        if clock >= end * rate:
            return
        fresh = data[:, out - clock :]
        if fresh.size:
            yield out, rate, fresh
            out += fresh.shape[1]
        clock += data.shape[1]


def read(source: Source, rate: int, start: float, seconds: float | None) -> F32:
    """Mono sound (S,) of a span at `rate` samples per second; sample k is at time (round(start * rate) + k) / rate."""
    stream = source.need_audio()
    first = round(start * rate)
    last = None if seconds is None else first + round(seconds * rate)
    parts: list[F32] = [np.zeros(0, np.float32)]
    heard = False
    # A tenth of a second more on both sides keeps the resampler's ends out of the span.
    end = math.inf if seconds is None else start + seconds + 0.1
    for at, part in _resampled(source, blocks(source, stream, max(0.0, start - 0.1), end, rate), rate):
        heard = True
        parts.append(part[max(0, first - at) : None if last is None else max(0, last - at)])
    if not heard and not (start > 0 and source.rewind() and next(source.frames(stream), None)):
        raise source.error("holds no sound that can be decoded.", DAMAGED)
    return np.clip(np.concatenate(parts), -1, 1)


def _from(source: Source, stream: AudioStream, start: float) -> Iterator[AudioFrame]:
    """Decoded frames from a little before `start`, or from the beginning where the container cannot seek that well."""
    if start > _LEAD_IN:
        frames = source.frames(stream)
        first = next(frames, None) if source.seek_before(start - _LEAD_IN, stream) else None
        when = source.time_of(first) if first else None
        if when is not None and when <= start:
            return cast("Iterator[AudioFrame]", itertools.chain([first], frames))
        source.rewind()
    return cast("Iterator[AudioFrame]", source.frames(stream))


def _resampled(source: Source, parts: Iterator[Block], rate: int) -> Iterator[tuple[int, F32]]:
    """Mono sound at `rate` as (index of first sample, float32 (S,)), in pieces of about a second."""
    at = 0
    first = True
    for source_rate, group in itertools.groupby(parts, key=lambda part: part[1]):
        resampler, fed, made = _Resampler(source_rate, rate), 0, 0
        for index, mono in _seconds(source, group):
            if first:
                at, first = index * rate // source_rate, False
            fed += len(mono)
            piece = resampler.push(mono)
            yield at + made, piece
            made += len(piece)
        # The resampler's end may be some samples short or long: the sound lasts as long as it did.
        tail = resampler.finish()
        length = max(0, math.ceil(Fraction(fed * rate, source_rate)) - made)
        yield at + made, np.pad(tail[:length], (0, length - len(tail[:length])))
        at += made + length


def resampled(mono: F32, source_rate: int, rate: int) -> F32:
    """Sound (S,) at another rate, through the resampler that files go through, so that both are heard alike.

    >>> len(resampled(np.zeros(44100, np.float32), 44100, 8000))
    8000
    """
    if source_rate == rate or len(mono) == 0:
        return mono
    resampler = _Resampler(source_rate, rate)
    parts = [resampler.push(mono[at : at + source_rate]) for at in range(0, len(mono), source_rate)]  # each a second
    out = np.concatenate([*parts, resampler.finish()])
    length = math.ceil(Fraction(len(mono) * rate, source_rate))
    return np.pad(out[:length], (0, max(0, length - len(out))))


def _seconds(source: Source, parts: Iterable[Block]) -> Iterator[tuple[int, F32]]:
    """Blocks joined to about a second each and mixed to mono: thousands of tiny ones would be slow."""
    pending: list[F32] = []
    start = count = 0
    for index, rate, data in parts:
        if pending and (count >= rate or len(data) != len(pending[0])):
            yield start, _mono(source, pending)
            pending, count = [], 0
        if not pending:
            start = index
        pending.append(data)
        count += data.shape[1]
    if pending:
        yield start, _mono(source, pending)


def _mono(source: Source, parts: list[F32]) -> F32:
    mono: F32 = np.concatenate(parts, axis=1).mean(axis=0)
    if not np.isfinite(mono).all():
        raise source.error("holds sound samples that are not numbers.", "Write the sound again, for example as 16-bit.")
    return np.clip(mono, -1, 1)


class _Resampler:
    """FFmpeg's resampler on mono arrays; equal rates pass through untouched."""

    def __init__(self, source_rate: int, rate: int) -> None:
        from av.audio.resampler import AudioResampler

        self._from = source_rate
        self._resampler = None if source_rate == rate else AudioResampler("flt", "mono", rate)

    def push(self, mono: F32) -> F32:
        if self._resampler is None:
            return mono
        return _join(self._resampler.resample(frame_of(mono[None], self._from)))

    def finish(self) -> F32:
        return np.zeros(0, np.float32) if self._resampler is None else _join(self._resampler.resample(None))


def frame_of(data: F32, rate: int) -> AudioFrame:
    """An FFmpeg frame of float32 (1, S) or (2, S)."""
    from av.audio.frame import AudioFrame

    frame = AudioFrame.from_ndarray(np.ascontiguousarray(data), "fltp", "mono" if len(data) == 1 else "stereo")
    frame.sample_rate = rate
    return frame


def _join(frames: list[AudioFrame]) -> F32:
    return np.concatenate([np.zeros(0, np.float32), *(frame.to_ndarray()[0].astype(np.float32) for frame in frames)])
