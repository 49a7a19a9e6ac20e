"""The model slides over a video: its answer at one time after another, in batches, with little in memory."""

from __future__ import annotations

from collections.abc import Callable, Generator
from pathlib import Path

from earsight.data.clips import fit_waveform
from earsight.judging import judged
from earsight.localize.given import silent
from earsight.localize.hearing import Hearing
from earsight.localize.localizer import Localizer
from earsight.localize.settings import Settings
from earsight.localize.steady import Glance
from earsight.media.read import MediaInfo, iter_frames
from earsight.types import F32, U8

LARGEST = 64
"""Side of the maps that are handed on; those of methods with a finer grid are made this small."""

Waiting = tuple[float, U8, F32]
"""A time, what the model sees of its picture, and the sound around it."""


def glances(
    localizer: Localizer,
    path: Path,
    info: MediaInfo,
    settings: Settings,
    *,
    sound: Path,
    stop: Callable[[], bool],
    offer: Callable[[U8], None],
) -> Generator[Glance, None, None]:
    """An answer for each of the times that the settings ask for, as long as `stop` says no.

    Each frame of those times is offered too, in the order of the answers. The file `sound` is what is heard.
    """
    inputs = localizer.inputs
    hearing = Hearing(sound, inputs.rate, settings.heard(inputs.seconds), info.duration, settings.start)
    batch: list[Waiting] = []
    for time, frame in iter_frames(path, settings.every, settings.start, settings.end):
        if stop():
            return
        offer(frame)
        batch.append((round(time, 6), localizer.model.see(frame), hearing.around(time)))
        if len(batch) == settings.batch_size:
            yield from answers(localizer, batch)
            batch = []
    if batch and not stop():
        yield from answers(localizer, batch)


def answers(localizer: Localizer, batch: list[Waiting]) -> list[Glance]:
    """What the model says of each, not steadied yet."""
    samples = localizer.inputs.samples
    heard = [fit_waveform(window, localizer.inputs.rate, 0.0, samples) for _, _, window in batch]
    found = localizer.maps([picture for _, picture, _ in batch], heard)
    own = (found.native if localizer.protocol.map == "native" else found.dense).shape
    small = judged(found, localizer.protocol, (min(own[1], LARGEST), min(own[2], LARGEST)))
    return [
        Glance(time, score, float(sure), float(sure), silent(window))
        for (time, _, window), score, sure in zip(batch, small.score, small.confidence, strict=True)
    ]
