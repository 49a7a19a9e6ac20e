"""Whether an exported file answers as torch does, for made-up pictures and sounds of every kind."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch

from earsight.config import Inputs
from earsight.export.parts import answers
from earsight.methods.base import Method
from earsight.onnxfile import OnnxModel
from earsight.types import F32, U8

PAIRS = (((0,), (0,)), ((0, 0, 0, 0, 0, 0), (0, 1, 2, 3, 4, 5)), ((0, 1, 2, 1, 0), (5, 4, 3, 2, 2)))
"""Which pictures are asked about which sounds: one pair alone, one picture with all sounds, and some of each."""


def pictures(side: int) -> U8:
    """Noise, a flat grey and a soft gradient with a bright square, uint8 (3, 3, side, side)."""
    random = np.random.default_rng(0)
    noise = random.integers(0, 256, (3, side, side), dtype=np.uint8)
    slope = np.broadcast_to(np.linspace(0, 200, side, dtype=np.float32), (3, side, side)).astype(np.uint8)
    slope[:, side // 4 : side // 2, side // 4 : side // 2] = 255
    return np.stack([noise, np.full_like(noise, 128), slope])


def sounds(inputs: Inputs) -> F32:
    """Noise, quiet noise, a tone, a loud tone with an offset, clicks and silence, float32 (6, samples)."""
    random, at = np.random.default_rng(1), np.arange(inputs.samples) / inputs.rate
    noise = 0.2 * random.standard_normal(inputs.samples)
    tone = np.sin(2 * np.pi * 440 * at)
    clicks = (np.arange(inputs.samples) % (inputs.rate // 8) == 0).astype(np.float64)
    every = np.stack([noise, 1e-3 * noise, 0.5 * tone, 1.2 * tone + 0.3, clicks, np.zeros_like(tone)])
    return every.astype(np.float32)


def remembers(inputs: Inputs, path: Path) -> bool:
    """Whether a file answers about a picture that it is told of alone; some layers of a runtime need a new one."""
    model = OnnxModel(path, "cpu")
    seen, heard = pictures(inputs.image_size)[:1], sounds(inputs)[:1]
    model.localize(seen, heard)
    try:
        model.localize(seen, heard)
    except Exception:  # onnxruntime's errors have no common class
        return False
    return True


@torch.inference_mode()
def difference(model: Method, path: Path) -> float:
    """The largest difference between the answers of a file and of the method that it was made of.

    It is a share of the largest value where that is above 1, as for maps that are distances.
    """
    exported = OnnxModel(path, "cpu")
    seen, heard = pictures(model.inputs.image_size), sounds(model.inputs)
    largest = 0.0
    for which in PAIRS:
        picture, sound = (np.array(one) for one in which)
        found = exported.localize(seen[: picture.max() + 1], heard, picture, sound)
        maps = model.localize(torch.from_numpy(seen[picture]), torch.from_numpy(heard[sound]))
        for name, wanted in answers(maps).items():
            got, value = getattr(found, name), wanted.numpy()
            if got is None or got.shape != value.shape:
                return float("inf")
            apart = np.abs(got - value).max() / max(1.0, float(np.abs(value).max()))
            largest = max(largest, float(np.nan_to_num(apart, nan=np.inf)))
    return largest
