"""Media out: pictures, sound files, and videos that keep their original sound. A file appears whole or not at all."""

from __future__ import annotations

import math
import sys
import wave
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from fractions import Fraction
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self, cast

import numpy as np

from earsight.config import need
from earsight.errors import MediaError
from earsight.files import part_of
from earsight.media.accept import AnyPath
from earsight.media.planes import Planes, planes_of
from earsight.media.soundtrack import Soundtrack
from earsight.types import F32, U8

if TYPE_CHECKING:
    from av.video.frame import VideoFrame
    from av.video.stream import VideoStream

__all__ = ["LONGEST", "VideoWriter", "telling", "write_png", "write_wav"]

LONGEST = 16_384
"""Most pixels of a side of an H.264 picture."""
_BT709 = 1  # in all of FFmpeg's lists of colour spaces
_TICKS = {"libx264": 120_000, "mpeg4": 60_000}  # per second; the usual frame rates, also 24000/1001, are whole ticks


def write_png(path: AnyPath, rgb: U8) -> None:
    """Write uint8 (3, H, W) as a PNG file."""
    import av

    _check_picture(rgb)
    with _atomic(Path(path)) as part:
        codec = av.CodecContext.create("png", "w")
        codec.width, codec.height, codec.pix_fmt = rgb.shape[2], rgb.shape[1], "rgb24"
        codec.time_base = Fraction(1, 25)
        packets = [*codec.encode(_frame(rgb)), *codec.encode(None)]
        part.write_bytes(b"".join(bytes(packet) for packet in packets))


def write_wav(path: AnyPath, waveform: F32, rate: int) -> None:
    """Write float32 (S,) as a mono 16-bit WAV file; what lies outside [-1, 1] is clipped."""
    need(waveform.ndim == 1, "a waveform (S,)", waveform.shape)
    need(rate > 0, "a rate above 0", rate)
    samples = np.round(np.clip(np.nan_to_num(waveform), -1, 1) * 32767).astype("<i2")
    with _atomic(Path(path)) as part, part.open("wb") as raw, wave.open(raw, "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(rate)
        file.writeframes(samples.tobytes())


class VideoWriter:
    """Writes an H.264 mp4 file frame by frame, with the sound of another file.

    Each frame is shown from its own time on, so a variable frame rate is kept. The output starts at `start`: a frame at
    that time, and the sound of that time, come out at 0. AAC and MP3 sound is copied as it is; other sound becomes AAC.

    Args:
        path: the file to write; its name must end in .mp4.
        width: of the frames; an odd one gets one more column, since H.264 pictures are even.
        height: of the frames; likewise.
        fps: frames per second, as a hint for the encoder and for how long the last frame lasts.
        sound_from: the file whose sound to take, or None for a silent video.
        start: time in seconds, on the clock of the frames and of `sound_from`, at which the output starts.
        end: time at which the sound stops, or None for its end.
        aspect: how many times as wide as high a player shows a pixel.
        even: whether frames follow each other about evenly. Where they do not, they are encoded in the order in which
            they are shown, which takes a fifth more room, so that the film ends when it should.
    """

    def __init__(
        self,
        path: AnyPath,
        width: int,
        height: int,
        fps: Fraction,
        sound_from: Path | None = None,
        start: float = 0.0,
        end: float | None = None,
        aspect: float = 1.0,
        even: bool = True,
    ) -> None:
        self.path = Path(path)
        need(self.path.suffix.lower() == ".mp4", "a video name that ends in .mp4", self.path)
        right = 0 < width <= LONGEST and 0 < height <= LONGEST
        need(right, f"a width and height of 1 to {LONGEST}", (width, height))
        need(0 < fps <= 1000, "fps above 0 and at most 1000", fps)
        need(start >= 0 and (end is None or end > start), "a start of at least 0 and an end after it", (start, end))
        self.width, self.height, self.fps = width, height, Fraction(fps).limit_denominator(60_000)
        self._sound_from, self._start, self._end = sound_from, start, end
        self._aspect, self._even = aspect, even
        self._last = -1
        self._finished = False
        self._part = part_of(self.path)
        self._sound: Soundtrack | None = None

    def __enter__(self) -> Self:
        import av
        from av.video.reformatter import VideoReformatter

        self._converter = VideoReformatter()
        with telling(self.path), ExitStack() as undo:
            undo.callback(self._part.unlink, missing_ok=True)
            # The index goes to the front so that a browser can play before it has all.
            self._out = av.open(str(self._part), "w", format="mp4", options={"movflags": "faststart"})
            undo.callback(self._out.close)
            codec = "libx264" if "libx264" in av.codecs_available else "mpeg4"
            options = {"crf": "20", "preset": "veryfast"} if codec == "libx264" else {"q": "3"}
            options |= {} if self._even else {"bf": "0"}
            self._tick = Fraction(1, _TICKS[codec])
            video = cast("VideoStream", self._out.add_stream(codec, rate=self.fps, options=options))
            video.width, video.height = self.width + self.width % 2, self.height + self.height % 2
            video.pix_fmt = "yuv420p"
            context = video.codec_context
            context.time_base = self._tick
            context.sample_aspect_ratio = Fraction(self._aspect).limit_denominator(6000)  # which every player reads
            # Without saying that colours are BT.709, players guess by size and small videos look wrong.
            context.colorspace = context.color_primaries = context.color_trc = _BT709
            context.color_range = 1  # black is 16, white 235
            self._video = video
            if self._sound_from is not None:
                self._sound = Soundtrack(self._sound_from, self._out, self._start, self._end)
            undo.pop_all()
        return self

    def write(self, rgb: U8, time: float) -> None:
        """Show uint8 (3, height, width) from `time` on; times must go up."""
        _check_picture(rgb)
        need(rgb.shape[1:] == (self.height, self.width), f"frames (3, {self.height}, {self.width})", rgb.shape)
        padding = ((0, 0), (0, self.height % 2), (0, self.width % 2))
        frame = _frame(np.pad(rgb, padding, mode="edge"))
        self._show(self._converter.reformat(frame, format="yuv420p", dst_colorspace=_BT709, threads=1), time)

    def fill(self, paint: Callable[[Planes], None], time: float) -> None:
        """Show a frame whose planes `paint` writes, in BT.709 with black at 16, from `time` on; times must go up."""
        from av.video.frame import VideoFrame

        frame = VideoFrame(self.width + self.width % 2, self.height + self.height % 2, "yuv420p")
        paint(planes_of(frame))
        self._show(frame, time)

    def cut(self) -> None:
        """No more sound after the last frame."""
        if self._sound is not None:
            self._sound.close()
            self._sound = None

    def finish(self) -> None:
        """Write all that is left; nothing can follow, and the file appears at the end of the block."""
        need(self._last >= 0, "at least one frame", "none")
        with telling(self.path):
            self._out.mux(self._video.encode(None))
            if self._sound is not None:
                self._sound.mux_until(math.inf)
            self._out.close()
        self._finished = True

    def _show(self, frame: VideoFrame, time: float) -> None:
        pts = round(max(0.0, time - self._start) / self._tick)
        need(pts > self._last, f"a time after that of the last frame ({float(self._last * self._tick):g})", time)
        self._last = pts
        frame.pts, frame.time_base = pts, self._tick
        with telling(self.path):
            self._out.mux(self._video.encode(frame))
            if self._sound is not None:
                self._sound.mux_until(float(pts * self._tick))

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with telling(self.path), ExitStack() as always:
            always.callback(self._part.unlink, missing_ok=True)
            always.callback(self._out.close)
            if self._sound is not None:
                always.callback(self._sound.close)
            if error is not None:
                return
            if not self._finished:
                self.finish()
            self._part.replace(self.path)


def _check_picture(rgb: U8) -> None:
    good = rgb.dtype == np.uint8 and rgb.ndim == 3 and rgb.shape[0] == 3 and rgb.size > 0
    need(good, "a picture uint8 (3, H, W)", (str(rgb.dtype), rgb.shape))


def _frame(rgb: U8) -> VideoFrame:
    from av.video.frame import VideoFrame

    return VideoFrame.from_ndarray(np.ascontiguousarray(rgb.transpose(1, 2, 0)), format="rgb24")


@contextmanager
def telling(path: Path) -> Iterator[None]:
    """Failures to write are told as a MediaError of `path`."""
    av = sys.modules.get("av")  # a WAV file is written without it
    kinds: tuple[type[Exception], ...] = (OSError, wave.Error)
    if av is not None:
        av.logging.set_level(None)
        kinds = (*kinds, av.error.FFmpegError)
    try:
        yield
    except kinds as error:
        reason = f"cannot be written ({getattr(error, 'strerror', None) or error})."
        raise MediaError(path, reason, "Check that its folder exists, may be written to and has room.") from error


@contextmanager
def _atomic(path: Path) -> Iterator[Path]:
    """A temporary name beside the target, moved there at the end of the block and removed when it fails."""
    part = part_of(path)
    with telling(path):
        try:
            yield part
            part.replace(path)
        finally:
            part.unlink(missing_ok=True)
