"""Run all comparisons and print them: `make bench`, or `python -m benchmarks`."""

from __future__ import annotations

import numpy as np
import torch

from benchmarks import reference
from benchmarks.measure import Ratio, compare
from benchmarks.scoring import scoring
from earsight.config import Inputs
from earsight.models.frontend import FrontEnd


def spectrogram() -> Ratio:
    """The front end on a batch against scipy clip by clip."""
    inputs = Inputs()
    front = FrontEnd(inputs)
    waves = np.random.default_rng(0).uniform(-0.5, 0.5, (64, inputs.samples)).astype(np.float32)
    batch = torch.from_numpy(waves)
    return compare(
        "spectrogram, 64 clips of 3 s",
        64,
        lambda: front.sound(batch),
        lambda: reference.spectrograms(waves, inputs.rate),
        "scipy, one clip at a time",
    )


def main() -> None:
    print(f"{torch.get_num_threads()} threads, torch {torch.__version__}")
    ratio, about = scoring()
    for r, more in ((spectrogram(), ""), (ratio, about)):
        print(f"{r.name}: {r.times:.1f} times as fast as {r.reference}" + (f" ({more})" if more else ""))


if __name__ == "__main__":
    main()
