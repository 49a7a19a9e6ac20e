"""A method that torch runs, behind arrays: the one of two ways to run a model that imports torch."""

from __future__ import annotations

from typing import Any

import numpy.typing as npt
import torch

from earsight.checkpoint import Weights
from earsight.data.view import eval_picture
from earsight.methods.base import Features, Method, TwoTower, choose
from earsight.predict import pairs
from earsight.types import F32, U8, MapArrays


class TorchModel:
    """A loaded method, in eval mode, and the device that it lies on."""

    def __init__(self, weights: Weights, device: str | torch.device = "cpu") -> None:
        # Convolutions run a third faster on a CPU, and no slower on a GPU, with a pixel's channels side by side.
        self.method: Method = weights.model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        self.inputs, self.name, self.device = weights.inputs, weights.name, torch.device(device)
        self.meta: dict[str, Any] = weights.meta
        self._last: tuple[tuple[bytes, int], Features] | None = None
        """The picture of the last call that had only one, with the age of the weights, and its features."""

    def see(self, picture: U8) -> U8:
        """What the model sees of a picture (3, H, W): uint8 (3, S, S)."""
        seen: U8 = eval_picture(picture, self.inputs).numpy()
        return seen

    @torch.inference_mode()
    def localize(
        self, frames: U8, waveforms: F32, picture: npt.ArrayLike | None = None, sound: npt.ArrayLike | None = None
    ) -> MapArrays:
        """Answers for pictures uint8 (P, 3, S, S) and sounds float32 (M, N).

        Each picture goes with the sound at its place, unless `picture` (B,) and `sound` (B,) say which goes with which:
        one picture with a hundred sounds is then encoded once, and not again when the last call was about it too.
        """
        pairing = pairs(len(frames), len(waveforms), picture, sound)
        of_picture, of_sound = (torch.from_numpy(x).to(self.device) for x in pairing)
        sounds = torch.from_numpy(waveforms).to(self.device)
        if isinstance(self.method, TwoTower):
            image, audio = self._embedded(self.method, frames), self.method.embed_sounds(sounds)
            if picture is not None and sound is not None:
                image, audio = choose(image, of_picture), choose(audio, of_sound)
            return self.method.compare(image, audio).arrays()
        pictures = torch.from_numpy(frames).to(self.device)
        return self.method.localize(pictures[of_picture], sounds[of_sound]).arrays()

    def _embedded(self, method: TwoTower, frames: U8) -> Features:
        """The features of these pictures; those of a picture that comes alone are kept for the next call."""
        pictures = torch.from_numpy(frames).to(self.device)
        if len(frames) != 1:
            return method.embed_images(pictures)
        key = frames.tobytes(), sum(one._version for one in (*method.parameters(), *method.buffers()))
        if self._last is None or self._last[0] != key:
            self._last = key, method.embed_images(pictures)
        return self._last[1]
