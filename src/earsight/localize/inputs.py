"""What people have, as what a model takes: pictures and sounds that are files, arrays or PIL images."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from os import PathLike
from typing import Any

import numpy as np

from earsight.config import Inputs, need
from earsight.data.clips import fit_waveform
from earsight.errors import MediaError
from earsight.localize.timeline import SILENCE_DB
from earsight.media.accept import AnyPath, Limits
from earsight.media.frames import CLOSE
from earsight.media.read import MediaInfo, probe, read_audio, read_image
from earsight.media.sound import resampled
from earsight.types import F32, U8

CHUNK = 60.0
"""Seconds of a file's sound that are in memory at a time."""
_LOUDEST = 2.0  # a float waveform may overshoot full scale a little; beyond this it was never scaled
_STEP = 0.1  # seconds between the stretches that are compared for loudness


def picture_of(image: Any) -> U8:
    """A path, PIL image, array or tensor, (H, W, 3) or (3, H, W) of uint8, as uint8 (3, H, W).

    >>> picture_of(np.zeros((4, 6, 3), np.uint8)).shape, picture_of(np.zeros((3, 4, 6), np.uint8)).shape
    ((3, 4, 6), (3, 4, 6))
    """
    if isinstance(image, str | PathLike):
        return read_image(image)
    if hasattr(image, "getexif"):  # a PIL image: upright and on white, as a picture file would be
        from PIL import ImageOps

        rgba = np.asarray(ImageOps.exif_transpose(image).convert("RGBA")).astype(np.uint16)
        alpha = rgba[:, :, 3:]
        image = ((rgba[:, :, :3] * alpha + 255 * (255 - alpha) + 127) // 255).astype(np.uint8)
    pixels = _array(image)
    good = pixels.dtype == np.uint8 and pixels.ndim == 3 and 3 in (pixels.shape[0], pixels.shape[2]) and pixels.size > 0
    need(
        good,
        "a picture as a file, a PIL image, or uint8 (H, W, 3) or (3, H, W)",
        f"{pixels.dtype} {pixels.shape}",
        "Scale values to 0..255, convert them to uint8 and give all three colours.",
    )
    return np.ascontiguousarray(pixels if pixels.shape[0] == 3 else pixels.transpose(2, 0, 1))


def sound_of(waveform: Any, rate: int | None, inputs: Inputs, time: float | None = None) -> F32:
    """A path, array or tensor, (S,) or (channels, S) at `rate`, as the float32 (N,) that a model hears around `time`.

    `rate` is for arrays; a file says its own. A `time` past the end of the sound is refused. Without one, and when
    there is more sound than the model hears, it hears a loud stretch: of those within a twentieth of the loudest one's
    energy, the one nearest to the middle.

    >>> sound_of(np.zeros(100, np.int16), 8000, Inputs(rate=8000)).shape
    (24000,)
    """
    need(time is None or 0 <= time < float("inf"), "a time of at least 0 seconds", time)
    if isinstance(waveform, str | PathLike):
        return _file_sound(waveform, inputs, time)
    need(
        rate is not None and 0 < rate <= Limits().max_rate,
        "the rate of the waveform in samples per second",
        rate,
        "Give it beside the waveform.",
    )
    mono = np.clip(_samples(waveform).mean(axis=0), -1, 1)
    heard = np.clip(resampled(mono, int(rate or 0), inputs.rate), -1, 1)
    if time is None:
        time = loud_time(_energies([heard], inputs.rate), inputs.seconds)
    else:
        check_start("the waveform", len(mono) / int(rate or 1), time)
    return fit_waveform(heard, inputs.rate, time, inputs.samples)


def check_start(name: AnyPath, seconds: float, start: float) -> None:
    """Refuse a start past the end of a sound or a video that plays for so many seconds."""
    if start > 0 and start >= seconds:
        raise MediaError(name, f"plays for {seconds:g} s, but the start is at {start:g} s.", "Start earlier.")


def track_notes(info: MediaInfo) -> tuple[str, ...]:
    """What there is to know about the sound of a file: that it has more of it than was heard."""
    return (f"there are {info.tracks} sound tracks, of which the first was heard",) if info.tracks > 1 else ()


class AudioWindows:
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
    if last - first > CLOSE * rate:
        for at in range(first, last, round(CHUNK * rate)):
            yield np.zeros(min(last - at, round(CHUNK * rate)), np.float32)


def sound_chunks(path: AnyPath, rate: int, start: float = 0.0) -> Iterator[F32]:
    """A file's sound from `start` on in pieces that follow each other without a gap, one in memory at a time."""
    while len(chunk := read_audio(path, rate, start, CHUNK)):
        yield chunk
        if len(chunk) < round(CHUNK * rate):
            return
        start += CHUNK


def loud_time(energies: F32, seconds: float) -> float:
    """The middle of a loud stretch of `seconds`, given the energy of every tenth of a second.

    >>> loud_time(np.array([0, 0, 0, 0, 5, 5, 0, 0], np.float32), 0.2)
    0.5
    >>> loud_time(np.ones(11, np.float32), 0.2)
    0.6
    """
    count = max(1, round(seconds / _STEP))
    if len(energies) <= count:
        return len(energies) * _STEP / 2
    total = np.concatenate([[0.0], np.cumsum(energies, dtype=np.float64)])
    window = total[count:] - total[:-count]
    loud = np.nonzero(window >= 0.95 * window.max())[0]
    at = loud[np.argmin(np.abs(loud - (len(window) - 1) / 2 - 1e-6))]
    return round(float(at + count / 2) * _STEP, 6)


def is_silent(waveform: F32) -> bool:
    """Whether a sound (S,) stays below the level of silence throughout."""
    return len(waveform) == 0 or float(np.abs(waveform).max()) < 10 ** (SILENCE_DB / 20)


def loud_time_of(path: AnyPath, inputs: Inputs) -> float:
    """The middle of a loud stretch of a sound file, as long as the model hears; of a shorter one, its middle."""
    samples = 0

    def counted() -> Iterator[F32]:
        nonlocal samples
        for chunk in sound_chunks(path, inputs.rate):
            samples += len(chunk)
            yield chunk

    loud = loud_time(_energies(counted(), inputs.rate), inputs.seconds)
    return loud if samples > inputs.samples else round(samples / inputs.rate / 2, 6)


def _file_sound(path: AnyPath, inputs: Inputs, time: float | None) -> F32:
    info = probe(path)
    if time is None:
        time = loud_time_of(path, inputs)
    latest = float("inf") if info.duration is None else max(0.0, info.duration - inputs.seconds)
    start = min(max(0.0, time - inputs.seconds / 2), latest)
    heard = read_audio(path, inputs.rate, start, inputs.seconds)
    if info.duration is not None:
        check_start(path, info.duration, time)
    elif start + len(heard) / inputs.rate <= time:  # the file does not say how long it is
        check_start(path, sum(map(len, sound_chunks(path, inputs.rate))) / inputs.rate, time)
    return fit_waveform(heard, inputs.rate, time - start, inputs.samples)


def _energies(pieces: Iterable[F32], rate: int) -> F32:
    """Energy of every tenth of a second of the pieces, (K,)."""
    step = max(1, round(_STEP * rate))
    sums = []
    for piece in pieces:
        square = np.pad(np.square(piece), (0, -len(piece) % step))
        sums.append(square.reshape(-1, step).sum(axis=1))
    return np.concatenate([np.zeros(0, np.float32), *sums])


def _samples(waveform: Any) -> F32:
    """Scaled samples (channels, S)."""
    data = np.atleast_2d(_array(waveform))
    channels = data.shape[0]
    need(
        data.ndim == 2 and (channels <= Limits().max_channels) and channels > 0,
        "a waveform (S,) or (channels, S)",
        data.shape,
        "Transpose it when samples come first.",
    )
    need(
        data.dtype == np.int16 or np.issubdtype(data.dtype, np.floating),
        "a waveform of floats in [-1, 1] or of int16",
        str(data.dtype),
        "Divide integers by their full scale.",
    )
    need(bool(np.isfinite(data).all()), "a waveform of finite numbers", "NaN or infinity")
    samples: F32 = data.astype(np.float32)
    if data.dtype == np.int16:
        return samples * np.float32(2.0**-15)
    peak = float(np.abs(samples).max(initial=0.0))
    need(
        peak <= _LOUDEST,
        "a float waveform in [-1, 1]",
        f"a peak of {peak:g}",
        "Divide it by its full scale (32768 for 16-bit sound), or give it as int16.",
    )
    return samples


def _array(value: Any) -> Any:
    """A numpy array of an array, a list, or a tensor on any device."""
    return np.asarray(value.detach().cpu() if hasattr(value, "detach") else value)
