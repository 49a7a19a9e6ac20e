"""Pictures a second that one CPU core decodes from a pack's JPEG bytes, by Pillow and by torchvision."""

from __future__ import annotations

import warnings

import numpy as np
import torch
from torchvision.io import ImageReadMode
from torchvision.io import decode_jpeg as by_torchvision

from benchmarks.measure import How, Result, compare, one_thread
from benchmarks.media import media
from earsight.data.pack import decode_jpeg


def run(how: How) -> Result:
    count = how.count(256, 32)
    with media(count) as made, one_thread(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # from 0.29 on torchvision says at each call that these functions will go
        files = [made.clips.stored(i) for i in range(count)]

        def ours() -> None:
            for file in files:
                decode_jpeg(file.frame, (file.height, file.width))

        def reference() -> None:
            for file in files:
                by_torchvision(torch.from_numpy(file.frame.copy()), mode=ImageReadMode.RGB)

        pairs = [
            (
                decode_jpeg(file.frame, (file.height, file.width)),
                by_torchvision(torch.from_numpy(file.frame.copy()), mode=ImageReadMode.RGB),
            )
            for file in files
        ]
        difference = max(int(np.abs(one.astype(int) - two.numpy()).max()) for one, two in pairs)
        seconds = compare(ours, reference, rounds=how.count(5, 1))
    what = f"{count} pictures of 256 x 341 and the like"
    extra = {"largest difference in levels": difference}
    return Result("jpeg", what, "Pillow", "torchvision's decode_jpeg", count, "pictures", *seconds, extra)
