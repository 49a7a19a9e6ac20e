"""The front end on a batch of waveforms against scipy clip by clip."""

from __future__ import annotations

import numpy as np
import torch

from benchmarks.measure import How, Result, compare, one_thread
from benchmarks.reference.spectrogram import F32, spectrogram
from earsight.config import Inputs
from earsight.encoders.frontend import Spectrogram


def run(how: How) -> Result:
    """On a CPU both sides have one core; on a GPU the waveforms are there already."""
    inputs = Inputs()
    count = how.count(64, 16)
    waves = np.random.default_rng(0).uniform(-0.5, 0.5, (count, inputs.samples)).astype(np.float32)
    front, batch = Spectrogram(inputs).to(how.device), torch.from_numpy(waves).to(how.device)

    def reference() -> list[F32]:
        return [spectrogram(wave, inputs.rate, inputs.window, inputs.hop) for wave in waves]

    with one_thread():
        seconds = compare(lambda: front(batch), reference, rounds=how.count(5, 2), device=how.device)
        apart = np.abs(front(batch)[:, 0].cpu().numpy() - np.stack(reference())).max()
    ours = "in one batch on the GPU" if how.gpu else "in one batch, one core"
    what = f"{count} clips of {inputs.seconds:g} s"
    reference_is = "scipy, one clip at a time, one core"
    return Result("spectrogram", what, ours, reference_is, count, "clips", *seconds, {"largest difference": apart})
