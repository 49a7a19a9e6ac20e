"""The sound of one file as a track of another: copied where any player of mp4 can play it, else encoded as AAC."""

from __future__ import annotations

import math
from collections.abc import Generator, Iterator
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from earsight.media import sound
from earsight.media._open import Source, opened
from earsight.media.accept import Limits

if TYPE_CHECKING:
    from av.audio.stream import AudioStream
    from av.container import OutputContainer
    from av.packet import Packet

_AAC_RATES = (96000, 88200, 64000, 48000, 44100, 32000, 24000, 22050, 16000, 12000, 11025, 8000, 7350)


class Soundtrack:
    """Adds a track to `out` and fills it bit by bit, so that sound and pictures lie side by side in the file.

    Args:
        path: the file to take sound from.
        out: the mp4 being written, before its first packet.
        start: time in `path` that becomes 0.
        end: time in `path` where the sound stops, or None.
    """

    def __init__(self, path: Path, out: OutputContainer, start: float, end: float | None) -> None:
        self._out = out
        self._packets = _packets(path, out, start, math.inf if end is None else end)
        self._next = next(self._packets, None)

    def mux_until(self, time: float) -> None:
        """Write the packets up to a time of the output."""
        while self._next is not None and self._next[0] <= time:
            self._out.mux(self._next[1])
            self._next = next(self._packets, None)

    def close(self) -> None:
        self._packets.close()


def _packets(
    path: Path, out: OutputContainer, start: float, end: float
) -> Generator[tuple[float, Packet[Any]], None, None]:
    """Sound packets with their times in the output. The first `next` adds the track."""
    # One generator holds the open source, so that its failures are told as those of `path` and never of the output.
    with opened(path, Limits()) as source:
        stream = source.need_audio()
        codec = stream.codec_context
        # AAC out of broadcast streams carries its setup in each packet, which mp4 does not take.
        copy = codec.name.startswith("mp3") or (codec.name == "aac" and bool(codec.extradata))
        for packet in (_copied if copy else _encoded)(source, stream, out, start, end):
            if packet.pts is not None and packet.time_base:
                yield float(packet.pts * packet.time_base), packet
            source.restart_clock()


def _copied(
    source: Source, stream: AudioStream, out: OutputContainer, start: float, end: float
) -> Iterator[Packet[Any]]:
    track = out.add_stream_from_template(stream)
    if start > 0 and not source.seek_before(start, stream):
        source.rewind()
    last = -math.inf
    for packet in source.packets(stream):
        if packet.pts is None or packet.dts is None or not packet.time_base or not packet.size:
            continue
        # A damaged file may go back in time, or stand still for a sample, which an mp4 cannot hold.
        sample = round(packet.dts * packet.time_base * stream.codec_context.sample_rate)
        if sample <= last:
            continue
        when = packet.pts * packet.time_base - source.origin
        if when >= end:
            return
        # Packets before 0 prime the decoder and players drop what they hold; others before the start are not wanted.
        if start > 0 and when < start:
            continue
        last = sample
        shift = round(Fraction(source.origin + start) / packet.time_base)
        packet.pts, packet.dts = packet.pts - shift, packet.dts - shift
        packet.stream = track
        yield packet


def _encoded(
    source: Source, stream: AudioStream, out: OutputContainer, start: float, end: float
) -> Iterator[Packet[Any]]:
    track: AudioStream | None = None
    rate = channels = 0
    for index, block_rate, data in sound.blocks(source, stream, start, end, 1):
        if track is None:
            # More than two channels become one: which loudspeaker each was for is often not known.
            rate, channels = block_rate, 2 if len(data) == 2 else 1
            encoder_rate = rate if rate in _AAC_RATES else 48000
            track = out.add_stream("aac", rate=encoder_rate)
            track.codec_context.layout = "stereo" if channels == 2 else "mono"
        if block_rate != rate:  # a broadcast that changes its sound on the way: one track holds one rate
            break
        first, last = round(start * rate), math.inf if end == math.inf else round(end * rate)
        data = data[:, max(0, first - index) : int(min(data.shape[1], max(0, last - index)))]
        if data.shape[1]:
            mixed = data if len(data) == channels else np.repeat(data.mean(axis=0, keepdims=True), channels, axis=0)
            frame = sound.frame_of(np.clip(np.nan_to_num(mixed), -1, 1), rate)
            frame.pts, frame.time_base = max(index, first) - first, Fraction(1, rate)
            yield from track.encode(frame)
    if track is not None:
        yield from track.encode(None)
