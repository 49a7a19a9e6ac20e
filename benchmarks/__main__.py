"""Run all comparisons and print them: `make bench`, or `python -m benchmarks`."""

from __future__ import annotations

import numpy as np
import torch

from benchmarks import reference
from benchmarks.measure import Ratio, compare
from earsight.config import Inputs
from earsight.models.frontend import FrontEnd
from earsight.protocols import ciou, get, predict
from earsight.types import Maps


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


def scoring() -> Ratio:
    """Masks and cIoU of a batch of maps against numpy map by map."""
    random = np.random.default_rng(0)
    maps = random.standard_normal((64, 224, 224)).astype(np.float32)
    truths = np.zeros_like(maps)
    truths[:, 40:180, 30:200] = 1
    protocol = get("official")
    ready = Maps(torch.from_numpy(maps), torch.from_numpy(maps), (-5.0, 5.0))

    def ours() -> object:
        found = predict(ready, protocol)
        return (ciou(found.mask, torch.from_numpy(truths)) >= 0.5).float().mean(), found.confidence.mean()

    plain = "numpy, one map at a time"
    return compare("mask, cIoU and confidence of 64 maps", 64, ours, lambda: reference.score_maps(maps, truths), plain)


def main() -> None:
    print(f"{torch.get_num_threads()} threads, torch {torch.__version__}")
    for bench in (spectrogram, scoring):
        r = bench()
        print(f"{r.name}: {r.times:.1f} times as fast as {r.reference}")


if __name__ == "__main__":
    main()
