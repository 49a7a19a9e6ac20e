"""The localizer: a trained method that takes what people have and answers in their picture's own pixels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from earsight import protocols
from earsight.checkpoint import Weights, load_weights
from earsight.config import need
from earsight.data.loading import eval_picture
from earsight.device import pick_device
from earsight.localize.given import picture_of, sound_of
from earsight.masking import predict
from earsight.object_prior import ObjectPrior
from earsight.regions import boxes_of
from earsight.types import F32, Localization, Maps, Mask


class Localizer:
    """Finds where in a picture a sound comes from, under the protocol and the threshold that the weights carry.

    Args:
        weights: a loaded method, in eval mode.
        device: where the method lies.
        name: what to call the weights in results.
    """

    def __init__(self, weights: Weights, device: str | torch.device = "cpu", name: str = "") -> None:
        self.model, self.inputs, self.meta = weights.model, weights.inputs, weights.meta
        self.device, self.name = torch.device(device), name or weights.name
        self.protocol = protocols.get(self.meta.get("protocol", "exact"))
        calibration = self.meta.get("calibration")
        self.threshold: float | None = float(calibration["threshold"]) if calibration else None
        """Confidence from which on a source is called visible, or None when the weights are not calibrated."""

    @classmethod
    def load(cls, path: str | Path, device: str = "auto", prior: ObjectPrior | None = None) -> Localizer:
        """Load a weights file or a run's folder; "auto" takes the GPU when there is one.

        With `prior`, objects are added to the maps. The threshold of the weights is then left out, because it is of the
        method's own scores.
        """
        where = pick_device(device)
        loaded = load_weights(path, where)
        if prior is None:
            return cls(loaded, where, str(path))
        found = cls(prior.added_to(loaded), where, f"{path} + {prior.name}")
        if prior.fusion == "ezvsl" and prior.alpha < 1:  # its maps all have the same highest score
            found.protocol = replace(found.protocol, confidence="native")
        return found

    def localize(
        self, image: Any, waveform: Any, rate: int | None = None, *, time: float | None = None
    ) -> Localization:
        """Where in `image` the sound comes from, in the image's own pixels.

        Args:
            image: a file, a PIL image, or uint8 (H, W, 3) or (3, H, W).
            waveform: a file, or (S,) or (channels, S) of floats in [-1, 1] or of int16.
            rate: samples per second of a waveform that is not a file; any rate will do.
            time: where in the sound the picture belongs, in seconds; by default in a loud stretch near the middle.
        """
        return self.localize_many([image], [waveform], rate, times=None if time is None else [time])[0]

    def localize_many(
        self,
        images: Sequence[Any],
        waveforms: Sequence[Any],
        rate: int | None = None,
        *,
        times: Sequence[float] | None = None,
        batch_size: int = 16,
    ) -> list[Localization]:
        """Answers for pairs, each as `localize` gives it alone; pictures may differ in size."""
        need(len(images) == len(waveforms), "as many sounds as pictures", f"{len(waveforms)} for {len(images)}")
        need(times is None or len(times) == len(images), "as many times as pictures", times)
        need(batch_size >= 1, "a batch_size of at least 1", batch_size)
        answers: list[Localization] = []
        for first in range(0, len(images), batch_size):
            batch = range(first, min(first + batch_size, len(images)))
            pictures = [picture_of(images[i]) for i in batch]
            sounds = [sound_of(waveforms[i], rate, self.inputs, times[i] if times else None) for i in batch]
            maps = self.maps([eval_picture(picture, self.inputs) for picture in pictures], sounds)
            answers += [self.answer(one, p.shape[1], p.shape[2]) for one, p in zip(maps, pictures, strict=True)]
        return answers

    @torch.inference_mode()
    def maps(self, frames: Sequence[Tensor], waveforms: Sequence[F32]) -> list[Maps]:
        """Maps (1, h, w) on the CPU, one for each pair of a picture uint8 (3, S, S) and a waveform (N,)."""
        heard = torch.from_numpy(np.stack(waveforms))
        found = self.model.localize(torch.stack(list(frames)).to(self.device), heard.to(self.device))
        out = found.each(lambda x: x.float().cpu())
        return [out.each(lambda x, i=i: x[i : i + 1]) for i in range(len(out.dense))]  # type: ignore[misc]

    @torch.inference_mode()
    def answer(self, maps: Maps, height: int, width: int) -> Localization:
        """One map (1, h, w) as an answer for a picture of that size.

        The confidence, and so the verdict, comes from the protocol's own resolution: it is the number that evaluation
        gives for the same clip, whatever the size of the picture.
        """
        prediction = predict(maps, self.protocol, (height, width))
        score: F32 = prediction.score[0].numpy()
        confidence = float(prediction.confidence[0])
        visible = None if self.threshold is None else confidence >= self.threshold
        boxes = () if visible is False else boxes_of(region(score), score)
        return Localization(score, prediction.mask[0].numpy(), boxes, confidence, visible)


def spread(score: F32) -> tuple[float, float]:
    """The median and the maximum of a map (H, W): what is nowhere special, and the most special place."""
    return float(np.median(score)), float(score.max())


def region(score: F32) -> Mask:
    """The part of a map (H, W) that boxes go around: pixels above the middle between its median and its maximum.

    A protocol's mask answers to its ground truth: that of `top_half` always covers half of the picture, wherever the
    source is and however large. This rule follows the map's own peak instead. A flat map has no region.

    >>> region(np.array([[0, 0, 0, 0.4], [0, 0, 0.6, 1]], np.float32)).astype(int).tolist()
    [[0, 0, 0, 0], [0, 0, 1, 1]]
    """
    low, high = spread(score)
    above: Mask = score > (low + high) / 2
    return above
