"""Clips a second that one CPU core brings to the model: ours from a pack, the reference from JPEG and WAV files.

Two comparisons against the same reference: what a run on a GPU needs of the CPU, and what a run without one does.
"""

from __future__ import annotations

import random
from collections.abc import Callable

from torch.utils.data import default_collate

from benchmarks.measure import How, Result, compare, one_thread
from benchmarks.media import Media, media
from benchmarks.reference.data import Clips
from earsight.config import Inputs
from earsight.data.loading import Loader
from earsight.data.reader import Reader, SampleSpec
from earsight.data.sampler import BatchSampler
from earsight.encoders.frontend import Pixels, Spectrogram
from earsight.types import Batch

BATCH = 32
REFERENCE = "PIL and scipy, one sample at a time, one core"


def run(how: How) -> Result:
    """What a GPU run needs of the CPU: pictures as the model sees them and 16-bit sound, in batches."""

    def ours(made: Media, inputs: Inputs) -> Callable[[], object]:
        reader, batches = Reader(made.clips, inputs, SampleSpec(0)), BatchSampler(made.clips.rows, BATCH)

        def epoch() -> None:  # as a worker does it, in epochs after the first
            for requests in batches.batches(0):
                _whole(reader[requests])

        return epoch

    return _measured(how, "data_path", "pictures decoded and cut, and 16-bit sound, in batches; one core", ours)


def run_on_cpu(how: How) -> Result:
    """What a run without a GPU does: decode, resize, crop, mirror, normalise, spectrogram."""

    def ours(made: Media, inputs: Inputs) -> Callable[[], object]:
        loader, pixels, spectrogram = Loader(made.clips, inputs, SampleSpec(0)), Pixels(), Spectrogram(inputs)
        batches = BatchSampler(made.clips.rows, BATCH)

        def epoch() -> None:
            for batch in map(_whole, loader.prefetch(batches.batches(0))):
                pixels(batch.frames), spectrogram(batch.waveforms)

        return epoch

    return _measured(how, "data_path_cpu", "everything up to the encoders, from a pack; one core", ours)


def _whole(batch: Batch) -> Batch:
    """A batch from which nothing may be missing: what is left out costs no time."""
    if batch.failures:
        raise RuntimeError(f"Expected generated clips to be readable, but got {batch.failures[:3]}.")
    return batch


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
