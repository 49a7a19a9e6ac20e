"""Opening a media file safely: what is accepted, how much of it, for how long, and how failures are told.

FFmpeg is given the bytes of one regular file and nothing else: no file name (so no sequences and no guessing by
extension), no protocols, and only the containers named here (so no playlists and no references to other files).
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, cast

from earsight.errors import MediaError
from earsight.files import local_path
from earsight.media.accept import DEMUXERS, AnyPath, Limits, not_opened, open_file
from earsight.media.upright import from_exif
from earsight.types import U8

if TYPE_CHECKING:
    from av.audio.stream import AudioStream
    from av.container import InputContainer
    from av.frame import Frame
    from av.packet import Packet
    from av.video.frame import VideoFrame
    from av.video.stream import VideoStream

DAMAGED = "The file may be damaged; convert it or get it again."


class TookTooLongError(Exception):
    """The deadline of a call has passed; turned into a MediaError before it leaves this package."""


def _metadata_errors(version: str) -> dict[str, Any]:
    """Words that are no UTF-8 in what a file says of itself are no error. PyAV 19 has no option for that: it never is.

    >>> _metadata_errors("18.1.0"), _metadata_errors("19.0.2")
    ({'metadata_errors': 'surrogateescape'}, {})
    """
    return {"metadata_errors": "surrogateescape"} if int(version.partition(".")[0]) < 19 else {}


class Source:
    """One open media file. Times are seconds from the start of the file's earliest stream."""

    def __init__(self, path: Path, file: BinaryIO, limits: Limits) -> None:
        import av
        from av.video.reformatter import VideoReformatter

        self.path, self.limits, self._file = path, limits, file
        self.restart_clock()
        self.container: InputContainer = av.open(
            self,
            "r",
            **_metadata_errors(av.__version__),
            options={"max_pixels": str(limits.max_pixels)},
            container_options={"format_whitelist": DEMUXERS, "protocol_whitelist": "none"},
        )
        # One converter on one thread for all frames: by default PyAV starts threads for each, 80 times slower.
        self._converter = VideoReformatter()
        self.orientation: int | None = None
        """How the pictures of the file are stored, once one of them was asked (`frames.orientation_of`)."""
        start = self.container.start_time
        # A start before 0 is an encoder's lead-in that decoders drop; the file's clock still begins at 0.
        self.origin = max(0, start or 0) / 1_000_000
        self.heard_until = 0.0
        """How far the sound goes that passed by while pictures were read: whether the file itself goes on."""
        self.last_picture = -1.0
        """When the latest picture begins that passed by, whether it could be decoded or not."""

    def restart_clock(self) -> None:
        self._deadline = time.monotonic() + self.limits.max_decode_seconds

    def check_clock(self) -> None:
        if time.monotonic() > self._deadline:
            raise TookTooLongError

    # What FFmpeg calls for bytes. Also stops a demuxer that keeps on searching.
    def read(self, count: int) -> bytes:
        self.check_clock()
        return self._file.read(count)

    def seek(self, offset: int, whence: int = 0) -> int:
        return self._file.seek(offset, whence)

    def tell(self) -> int:
        return self._file.tell()

    @property
    def is_image(self) -> bool:
        """Whether this is a picture file (an animated one counts, by its first picture)."""
        name = self.container.format.name
        return name.endswith("_pipe") or name in ("gif", "apng")

    @property
    def counts_from_zero(self) -> bool:
        """Whether the length that the file declares is when it ends, though it may begin late."""
        return "matroska" in self.container.format.name

    @property
    def duration(self) -> float | None:
        """Playing time as the file declares it."""
        if self.is_image:
            return None
        declared = (self.container.duration or 0) / 1_000_000
        if self.counts_from_zero and declared > self.origin:
            declared -= self.origin
        if declared > 0:
            return declared
        known = [float(s.duration * s.time_base) for s in self.container.streams if s.duration and s.time_base]
        return max(known, default=0.0) or None

    def video(self) -> VideoStream | None:
        """The first stream of moving pictures; the cover picture of a song is none."""
        from av.stream import Disposition

        for stream in self.container.streams.video:
            if stream.codec_context and not stream.disposition & Disposition.attached_pic:
                size = stream.codec_context.width * stream.codec_context.height
                self.check_pixels(size)
                options = {"max_pixels": str(self.limits.max_pixels)}
                if self.container.format.name == "jpeg_pipe":
                    options["err_detect"] = "explode"  # else what was cut off would be seen as a flat colour
                stream.codec_context.options = options
                stream.codec_context.thread_count = 1
                return stream
        return None

    def audio(self) -> AudioStream | None:
        for stream in self.container.streams.audio:
            if stream.codec_context:
                # No decoder may hand out more than ten seconds of sound for one packet.
                stream.codec_context.options = {"max_samples": str(10 * self.limits.max_rate)}
                stream.codec_context.thread_count = 1
                return stream
        return None

    def need_video(self) -> VideoStream:
        stream = self.video()
        if stream is None:
            raise self.error("has no video track.", "Give a file with pictures, or a photo beside the sound.")
        return stream

    def need_audio(self) -> AudioStream:
        stream = self.audio()
        if stream is None:
            raise self.error("has no audio track.", "Give a file with sound, or a sound file beside the picture.")
        return stream

    def check_pixels(self, count: int) -> None:
        most = self.limits.max_pixels
        if count > most:
            raise self.error(f"has frames of {count:,} pixels, over the limit of {most:,}.", "Scale it down first.")

    def check_length(self, seconds: float | None) -> None:
        most = self.limits.max_seconds
        if seconds is not None and seconds > most:
            raise self.error(f"plays for {seconds:,.0f} s, over the limit of {most:,.0f} s.", "Cut it first.")

    def packets(self, stream: VideoStream | AudioStream) -> Iterator[Packet[Any]]:
        """Packets from here to the end, the last one empty to flush the decoder."""
        from av.error import FFmpegError

        beside = self.container.streams.audio if stream.type == "video" else ()
        packets = iter(self.container.demux(stream, *beside))
        while True:
            self.check_clock()
            try:
                packet = next(packets, None)
            except FFmpegError:  # the container is broken from here on: what came before is usable
                return
            if packet is None:
                return
            if stream.type == "video":
                self._note(packet)
            if packet.stream.index == stream.index:
                yield packet

    def _note(self, packet: Packet[Any]) -> None:
        """Remember how far pictures and sound go."""
        if packet.pts is None or not packet.time_base or not packet.size or packet.is_discard:
            return
        begin = float(packet.pts * packet.time_base) - self.origin
        if packet.stream.type == "video":
            self.last_picture = max(self.last_picture, begin)
        else:
            self.heard_until = max(self.heard_until, begin + float((packet.duration or 0) * packet.time_base))

    def frames(self, stream: VideoStream | AudioStream) -> Iterator[Frame]:
        """Decoded frames from here to the end. Damaged packets are passed over."""
        from av.error import FFmpegError

        for packet in self.packets(stream):
            try:
                decoded = packet.decode()
            except FFmpegError:
                continue
            yield from decoded

    def seek_before(self, seconds: float, stream: VideoStream | AudioStream) -> bool:
        """Go to a key frame at or before a time; False where the container cannot."""
        from av.error import FFmpegError

        if not stream.time_base:
            return False
        try:
            self.container.seek(int(Fraction(seconds + self.origin) / stream.time_base), stream=stream)
        except (FFmpegError, OverflowError):
            return False
        return True

    def time_of(self, frame: Frame) -> float | None:
        """When a frame begins, or None where the file does not say."""
        return None if frame.pts is None or frame.time is None else frame.time - self.origin

    def pixels_of(self, frame: VideoFrame, layout: str) -> U8:
        """A decoded frame as uint8 (H, W, 3) for layout "rgb24", (H, W, 4) for "rgba"."""
        self.check_pixels(frame.width * frame.height)
        return cast(U8, self._converter.reformat(frame, format=layout, threads=1).to_ndarray())

    def exif_orientation(self) -> int:
        """Which way up a picture file says it is, as EXIF numbers it."""
        here = self._file.tell()
        found = from_exif(self._file)
        self._file.seek(here)
        return found

    def rewind(self) -> bool:
        """Go back to the start of the file; False where the container cannot."""
        from av.error import FFmpegError

        # From 0 it is found also where the first key frame comes after the start (broadcast streams).
        for start in (0, max(0, self.container.start_time or 0)):
            try:
                self.container.seek(start)
            except FFmpegError:
                continue
            return True
        return False

    def error(self, reason: str, advice: str = "") -> MediaError:
        return MediaError(self.path, reason, advice)


@contextmanager
def opened(path: AnyPath, limits: Limits) -> Iterator[Source]:
    """Open a media file; whatever goes wrong inside the block, short of a programming error, is a MediaError."""
    import av

    av.logging.set_level(None)
    path = local_path(path)
    try:
        with open_file(path, limits) as file:
            head = file.read(16)
            file.seek(0)
            try:
                source = Source(path, file, limits)
            except (av.error.FFmpegError, UnicodeError) as error:
                raise not_opened(path, head) from error
            with source.container:
                if not source.container.streams:
                    raise source.error("holds no streams.", "The file may be cut off; get it again.")
                source.check_length(source.duration)
                yield source
    except TookTooLongError as error:
        most = f"{limits.max_decode_seconds:g} s"
        raise MediaError(path, f"takes longer than {most} to decode.", "Convert it, or allow more time.") from error
    except (
        av.error.FFmpegError,
        OSError,
        ValueError,
        LookupError,
        ArithmeticError,
        MemoryError,
        RuntimeError,
    ) as error:
        # All that FFmpeg, PyAV and the file system raise on damaged input.
        raise MediaError(path, f"cannot be read ({error}).", DAMAGED) from error
