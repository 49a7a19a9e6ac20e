"""The localizer: a trained method that takes what people have and answers in their picture's own pixels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import numpy.typing as npt

from earsight import protocols
from earsight.config import Inputs, need
from earsight.files import local_path
from earsight.localize.inputs import is_silent, picture_of, sound_of
from earsight.localize.regions import source_boxes, spread
from earsight.localize.timeline import NOT_CALIBRATED, VISIBLE, verdict_of
from earsight.onnxfile import OnnxModel, is_export
from earsight.overlay import PixelBox
from earsight.predict import predict
from earsight.types import F32, U8, MapArrays, Mask

if TYPE_CHECKING:  # torch is imported when there are weights for it, and not for an exported model
    import torch

    from earsight.checkpoint import Weights
    from earsight.object_prior import ObjectPrior

_LONGEST = 200  # letters of what weights say that they know


@dataclass(frozen=True, repr=False)
class Localization:
    """The answer for one picture and one sound, in the picture's own pixels. A notebook shows it as a picture.

    Args:
        map: float32 (H, W), scaled by the method's bounds so that 1 is the best score there can be.
        mask: bool (H, W), the pixels that the protocol selects.
        boxes: pixel boxes (x0, y0, x1, y1) around the parts of the source, largest first; empty when not visible.
        confidence: higher means surer that the source is visible.
        threshold: confidence from which on a source is called visible, or None when the weights are not calibrated.
        silent: nothing is heard, so the map means nothing.
        picture: uint8 (3, H, W), what the answer is about.
    """

    map: F32
    mask: Mask
    boxes: tuple[PixelBox, ...]
    confidence: float
    threshold: float | None
    silent: bool
    picture: U8 = field(kw_only=True)

    @property
    def visible(self) -> bool | None:
        """The verdict, or None when the weights carry no calibrated threshold; False when nothing is heard."""
        return None if self.verdict == NOT_CALIBRATED else self.verdict == VISIBLE

    @property
    def verdict(self) -> str:
        return verdict_of(self.confidence, self.threshold, self.silent)

    def __repr__(self) -> str:
        height, width = self.map.shape
        more = "" if self.silent else f", confidence {self.confidence:.3f}, boxes {self.boxes}"
        return f"Localization({self.verdict}{more}, {width} x {height} pixels)"

    def _repr_html_(self) -> str:
        from earsight.localize.notebook import localization_html

        return localization_html(self)


class Model(Protocol):
    """What runs: a method of torch's (torch_model.py) or an exported one (onnxfile.py)."""

    inputs: Inputs
    name: str
    meta: dict[str, Any]

    def see(self, picture: U8) -> U8:
        """What the model sees of a picture (3, H, W): uint8 (3, S, S)."""

    def localize(
        self, frames: U8, waveforms: F32, picture: npt.ArrayLike | None = None, sound: npt.ArrayLike | None = None
    ) -> MapArrays:
        """Answers for pictures uint8 (P, 3, S, S) and sounds float32 (M, N), each with the one at its place.

        `picture` (B,) and `sound` (B,) say otherwise which goes with which. A picture is looked at once, and not again
        when the last question was about it too.
        """


class Localizer:
    """Finds where in a picture a sound comes from, under the protocol and the threshold that the weights carry.

    Args:
        weights: a loaded method, in eval mode, or an exported model.
        device: where the method lies.
        name: what to call the weights in results.
    """

    def __init__(self, weights: Weights | OnnxModel, device: str | torch.device = "cpu", name: str = "") -> None:
        self.model = _running(weights, device)
        self.inputs, self.meta, self.name = self.model.inputs, self.model.meta, name or self.model.name
        self.protocol = protocols.get(self.meta.get("protocol", "exact"))
        calibration = self.meta.get("calibration")
        self.threshold: float | None = float(calibration["threshold"]) if calibration else None
        """Confidence from which on a source is called visible, or None when the weights are not calibrated."""
        knows = " ".join(self.meta.get("knows", "").split())[:_LONGEST]
        self.notes: tuple[str, ...] = (f"these weights know {knows}",) if knows else ()
        """What there is to know about the weights, in plain words, as notes of every answer that is written."""

    @classmethod
    def load(cls, path: str | Path, device: str = "auto", prior: ObjectPrior | None = None) -> Localizer:
        """Load a weights file, a run's folder or an exported folder; "auto" takes the GPU when there is one.

        An exported model imports no torch. With `prior`, objects are added to the maps, and there is no threshold: that
        of the weights is of the method's own scores.
        """
        if is_export(path):
            do = "Give the weights that it was exported from."
            need(prior is None, "weights of torch's with an object prior", path, do)
            return cls(OnnxModel(local_path(path), device), name=str(path))
        from earsight.checkpoint import load_weights
        from earsight.device import pick_device

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
            found = self.maps([self.model.see(picture) for picture in pictures], sounds)
            answers += [
                self.answer(found.one(i), picture, is_silent(sound))
                for i, (picture, sound) in enumerate(zip(pictures, sounds, strict=True))
            ]
        return answers

    def __repr__(self) -> str:
        limit = "none" if self.threshold is None else f"{self.threshold:.3f}"
        return f"Localizer({self.model.name} from {self.name!r}, protocol {self.protocol}, threshold {limit})"

    def _repr_html_(self) -> str:
        from earsight.localize.notebook import localizer_html

        return localizer_html(self)

    def maps(self, frames: Sequence[U8], waveforms: Sequence[F32]) -> MapArrays:
        """Answers for pairs of a picture as the model sees it, uint8 (3, S, S), and a waveform (N,).

        The same picture with several sounds is looked at once.
        """
        places: dict[bytes, int] = {}
        picture = [places.setdefault(frame.tobytes(), len(places)) for frame in frames]
        first = [picture.index(i) for i in range(len(places))]
        return self.model.localize(
            np.stack([frames[i] for i in first]), np.stack(waveforms), picture, range(len(frames))
        )

    def answer(self, found: MapArrays, picture: U8, silent: bool = False) -> Localization:
        """What was found for one pair as an answer for its picture; nothing is there when nothing is heard.

        The confidence, and so the verdict, comes from the protocol's own resolution: it is the number that evaluation
        gives for the same clip, whatever the size of the picture. So does the level that boxes are drawn at.
        """
        here = predict(found, self.protocol, (picture.shape[1], picture.shape[2]))
        score, confidence = here.score[0], float(here.confidence[0])
        answer = Localization(score, here.mask[0], (), confidence, self.threshold, silent, picture=picture.copy())
        low, high = spread(predict(found, self.protocol).score[0])
        return answer if answer.visible is False else replace(answer, boxes=source_boxes(score, low, high))


def _running(weights: Weights | OnnxModel, device: str | torch.device) -> Model:
    if isinstance(weights, OnnxModel):
        return weights
    from earsight.localize.torch_model import TorchModel

    return TorchModel(weights, device)
