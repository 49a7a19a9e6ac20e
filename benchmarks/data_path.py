"""Clips a second that one CPU core brings to the model: ours from a pack, the reference from JPEG and WAV files.

Two comparisons against the same reference: what a run on a GPU needs of the CPU, and what a run without one does.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from torch.utils.data import default_collate

from benchmarks.measure import How, Result, compare, one_thread
from benchmarks.media import Media, media
from benchmarks.reference.data import Clips
from earsight.config import Inputs
from earsight.data.items import Items, Loaded, Wanted, together
from earsight.data.loading import Loader, epoch_visits
from earsight.models.frontend import FrontEnd

BATCH = 32
REFERENCE = "PIL and scipy, one sample at a time, one core"


def run(how: How) -> Result:
    """What a GPU run needs of the CPU: pictures as the model sees them and 16-bit sound, in batches."""

    def ours(made: Media, inputs: Inputs) -> Callable[[], object]:
        items = Items(made.clips, inputs, Wanted(0))  # as a worker does it, in epochs after the first

        def epoch() -> None:
            for visits in epoch_visits(len(made.clips), 0, 0, batch_size=BATCH):
                _whole(together([items[visit] for visit in visits]))

        return epoch

    return _measured(how, "data_path", "pictures decoded and cut, and 16-bit sound, in batches; one core", ours)


def run_on_cpu(how: How) -> Result:
    """What a run without a GPU does: decode, resize, crop, mirror, normalise, spectrogram."""

    def ours(made: Media, inputs: Inputs) -> Callable[[], object]:
        loader, front = Loader(made.clips, inputs, Wanted(0)), FrontEnd(inputs)

        def epoch() -> None:
            for loaded in loader.feed(epoch_visits(len(made.clips), 0, 0, batch_size=BATCH)):
                batch = _whole(loaded)
                front.image(batch.frames), front.sound(batch.waveforms)

        return epoch

    return _measured(how, "data_path_cpu", "everything up to the encoders, from a pack; one core", ours)


def _whole(step: Loaded) -> Any:
    """A step's batch, from which nothing may be missing: what is left out costs no time."""
    if step.batch is None or step.failures:
        raise RuntimeError(f"Expected generated clips to be readable, but got {step.failures[:3]}.")
    return step.batch


def _measured(how: How, name: str, described: str, make: Callable[[Media, Inputs], Callable[[], object]]) -> Result:
    inputs, count = Inputs(), how.count(256, BATCH)
    with media(count) as made, one_thread():
        dataset = Clips(made.files, [row.id for row in made.clips.rows], inputs, train=True)

        def reference() -> None:
            random.seed(0)
            for at in range(0, count, BATCH):
                default_collate([dataset[i] for i in range(at, at + BATCH)])

        seconds = compare(make(made, inputs), reference, rounds=how.count(3, 1))
    what = f"{count} clips: pictures of 256 x 341 and the like, {inputs.seconds:g} s of sound; training"
    return Result(name, what, described, REFERENCE, count, "clips", *seconds)
