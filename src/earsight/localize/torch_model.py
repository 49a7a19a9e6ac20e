"""A method that torch runs, behind arrays: the one of two ways to run a model that imports torch."""

from __future__ import annotations

from typing import Any

import numpy.typing as npt
import torch

from earsight.checkpoint import Weights
from earsight.data.view import eval_picture
from earsight.localize.once import Asked, Made, asking
from earsight.methods.base import Method
from earsight.predict import pairs
from earsight.types import F32, U8, MapArrays


class TorchModel:
    """A loaded method, in eval mode, and the device that it lies on."""

    def __init__(self, weights: Weights, device: str | torch.device = "cpu") -> None:
        # Convolutions run a third faster on a CPU, and no slower on a GPU, with a pixel's channels side by side.
        self.method: Method = weights.model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        self.inputs, self.name, self.device = weights.inputs, weights.name, torch.device(device)
        self.meta: dict[str, Any] = weights.meta
        self._last: tuple[bytes, Made] = b"", {}
        """The picture of the last question that had only one, and what was made of it."""

    def see(self, picture: U8) -> U8:
        """What the model sees of a picture (3, H, W): uint8 (3, S, S)."""
        seen: U8 = eval_picture(picture, self.inputs).numpy()
        return seen

    @torch.inference_mode()
    def localize(
        self, frames: U8, waveforms: F32, picture: npt.ArrayLike | None = None, sound: npt.ArrayLike | None = None
    ) -> MapArrays:
        """Answers for pictures uint8 (P, 3, S, S) and sounds float32 (M, N).

        Each picture goes with the sound at its place, unless `picture` (B,) and `sound` (B,) say which goes with which.
        """
        whose, whom = pairs(len(frames), len(waveforms), picture, sound)
        asked = Asked(whose, self.device, self._known(frames) if len(frames) == 1 else None)
        given = (torch.from_numpy(x).to(self.device) for x in (frames[whose], waveforms[whom]))
        with asking(self.method, asked):
            maps = self.method.localize(*given)
        return maps.arrays()

    def _known(self, frames: U8) -> Made:
        """What was made of this one picture before, to be added to."""
        seen = frames.tobytes()
        if self._last[0] != seen:
            self._last = seen, {}
        return self._last[1]
