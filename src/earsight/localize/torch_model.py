"""A method that torch runs, behind arrays: the one of two ways to run a model that imports torch."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from earsight.checkpoint import Weights
from earsight.data.view import eval_picture
from earsight.judging import Found
from earsight.methods.base import Method
from earsight.types import F32, U8


class TorchModel:
    """A loaded method, in eval mode, and the device that it lies on."""

    def __init__(self, weights: Weights, device: str | torch.device = "cpu") -> None:
        # Convolutions run a third faster on a CPU, and no slower on a GPU, with a pixel's channels side by side.
        self.method: Method = weights.model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        self.inputs, self.name, self.device = weights.inputs, weights.name, torch.device(device)
        self.meta: dict[str, Any] = weights.meta

    def see(self, picture: U8) -> U8:
        """What the model sees of a picture (3, H, W): uint8 (3, S, S)."""
        seen: U8 = eval_picture(picture, self.inputs).numpy()
        return seen

    @torch.inference_mode()
    def localize(self, frames: U8, waveforms: F32) -> Found:
        """Answers for pictures uint8 (B, 3, S, S), each with its sound, float32 (B, N)."""
        given = (torch.from_numpy(np.ascontiguousarray(x)).to(self.device) for x in (frames, waveforms))
        maps = self.method.localize(*given)
        dense = _plain(maps.dense)
        native = dense if maps.native is maps.dense else _plain(maps.native)
        own = None if maps.confidence is None else _plain(maps.confidence)
        return Found(dense, native, maps.bounds, maps.native_bounds, own)


def _plain(x: Tensor) -> F32:
    array: F32 = x.float().cpu().numpy()
    return array
