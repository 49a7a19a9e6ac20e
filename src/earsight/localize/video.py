"""A video, localized: the model slides over it, and its answers come out as overlay video, contact sheet and timeline.

Memory does not grow with the video's length or number of frames: one frame, one minute of sound and one batch at a
time, and of each moment only the method's own small map.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from torch import Tensor

from earsight.config import need
from earsight.data.clips import fit_waveform
from earsight.data.loading import eval_picture, resized
from earsight.errors import MediaError
from earsight.localize.files import FORMATS, check_formats, make_way, outputs, write_json
from earsight.localize.film import Seen, write_film
from earsight.localize.given import silent
from earsight.localize.hearing import Hearing
from earsight.localize.localizer import Localizer, spread
from earsight.localize.sheet import TILES, Thinned, write_sheet
from earsight.localize.timeline import Moment, Timeline
from earsight.masking import predict
from earsight.media.read import MediaInfo, iter_frames, probe
from earsight.types import F32, U8

Progress = Callable[[float, float], None]
"""Called with the work done and the work there is, in seconds of video (each is passed over twice for an mp4)."""
LARGEST = 32
"""Side of the maps that are kept for every moment."""
_THUMB = 360  # pixels of a contact sheet picture's longer side


def localize_video(
    localizer: Localizer,
    path: Path,
    out: Path,
    *,
    every: float = 0.2,
    window: float | None = None,
    start: float = 0.0,
    end: float | None = None,
    formats: tuple[str, ...] = FORMATS,
    batch_size: int = 16,
    progress: Progress | None = None,
    force: bool = False,
    name: str | None = None,
) -> Timeline:
    """Localize the sound of a video at `start`, `start + every`, ... and write the answers into the folder `out`.

    Each time is answered for the frame shown then and `window` seconds of sound around it (by default what the model
    hears; less is repeated to fill that). The overlay video has every frame of the original between `start` and `end`,
    its size, its frame times and its sound; between two times the map moves smoothly from one to the other.

    Args:
        formats: which of "mp4", "png" (contact sheet) and "json" (timeline) to write.
        batch_size: moments that go through the model together; it does not change the answers.
        force: replace files that are there.
        name: what the outputs are called; by default like the video.
    """
    path, formats = Path(path), check_formats(formats)
    check_steps(localizer, every, window, start, end, batch_size)
    info = _need_video(path, start)
    files = outputs(Path(out), name or path.stem, formats)
    make_way(files.values(), force)
    stop = min(end if end is not None else float("inf"), info.duration or float("inf"))
    passes = 2 if "mp4" in formats else 1

    def tell(done: float, before: int) -> None:
        if progress is not None:
            span = max(stop if stop < float("inf") else done, done) - start
            progress(before * span + done - start, passes * span)

    seconds = localizer.inputs.seconds if window is None else window
    hearing = Hearing(path, localizer.inputs.rate, seconds, info.duration, start)
    seen: list[Seen] = []
    thumbs = Thinned[tuple[int, U8]](TILES)
    batch: list[tuple[float, Tensor, F32]] = []
    for time, frame in iter_frames(path, every, start, end):
        heard = hearing.around(time)
        batch.append((round(time, 6), eval_picture(frame, localizer.inputs), heard))
        if "png" in formats and thumbs.wants():
            thumbs.keep((len(seen) + len(batch) - 1, _thumb(frame)))
        thumbs.step()
        if len(batch) == batch_size:
            seen += _answers(localizer, batch, info)
            batch = []
            tell(time, 0)
    if batch:
        seen += _answers(localizer, batch, info)
    timeline = Timeline(
        source=str(path),
        sound=str(path),
        weights=localizer.name,
        protocol=localizer.protocol.name,
        threshold=localizer.threshold,
        every=every,
        window=seconds,
        width=info.width,
        height=info.height,
        items=tuple(one.moment for one in seen),
        files=tuple(files.values()),
    )
    if "json" in files:
        write_json(files["json"], timeline.to_json())
    if "png" in files:
        tiles = [(seen[i].moment, seen[i].draw(thumb, localizer.protocol)) for i, thumb in thumbs.spaced()]
        write_sheet(files["png"], tiles, timeline)
    if "mp4" in files:
        write_film(
            files["mp4"],
            path,
            info,
            seen,
            localizer.protocol,
            every=every,
            start=start,
            end=end,
            tell=lambda done: tell(done, 1),
        )
    if progress is not None:
        progress(1.0, 1.0)
    return timeline


def check_steps(
    localizer: Localizer, every: float, window: float | None, start: float, end: float | None, batch_size: int
) -> None:
    """Refuse settings that make no sense for any video."""
    most = localizer.inputs.seconds
    need(0.01 <= every < float("inf"), "every of at least 0.01 seconds", every)
    need(window is None or 0.05 <= window <= most, f"a window from 0.05 up to the {most:g} s the model hears", window)
    need(0 <= start < float("inf"), "a start of at least 0 seconds", start)
    need(end is None or end > start, f"an end after the start ({start:g} s)", end)
    need(batch_size >= 1, "a batch_size of at least 1", batch_size)


def _need_video(path: Path, start: float) -> MediaInfo:
    info = probe(path)
    if not info.has_video:
        raise MediaError(path, "has no video track.", "Give a video, or a picture and a sound of the same name.")
    if not info.has_audio:
        raise MediaError(path, "has no audio track.", "There is nothing to localize without sound; give one with it.")
    if info.duration is not None and start >= info.duration:
        raise MediaError(path, f"plays for {info.duration:g} s, but the start is at {start:g} s.", "Start earlier.")
    return info


def _answers(localizer: Localizer, batch: list[tuple[float, Tensor, F32]], info: MediaInfo) -> list[Seen]:
    """Answers for (time, picture, window of sound) in the video's own pixels."""
    samples = localizer.inputs.samples
    heard = [fit_waveform(window, localizer.inputs.rate, 0.0, samples) for _, _, window in batch]
    seen = []
    for (time, _, window), maps in zip(batch, localizer.maps([picture for _, picture, _ in batch], heard), strict=True):
        answer = localizer.answer(maps, info.height, info.width)
        moment = Moment.of(time, answer, silent(window))
        # One is kept for every moment of the film, so it must stay small even where the method's own grid is not.
        grid = (min(maps.dense.shape[1], LARGEST), min(maps.dense.shape[2], LARGEST))
        small = predict(maps, localizer.protocol, grid).score[0]
        seen.append(Seen.of(moment, small, *spread(answer.map)))
    return seen


def _thumb(frame: U8) -> U8:
    _, height, width = frame.shape
    share = min(1.0, _THUMB / max(height, width))
    small: U8 = resized(frame, max(1, round(height * share)), max(1, round(width * share))).numpy()
    return small
