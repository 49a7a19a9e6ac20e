"""Where objects are, added to where a method hears them: any method with OGL's map, in either published fusion."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Literal

import torch
from torch import Tensor
from torch.nn import functional as F

from earsight.checkpoint import Weights
from earsight.config import check_choices, need
from earsight.errors import TrainingError, UsageError
from earsight.header import find_weights
from earsight.methods import ogl
from earsight.methods.base import Features, Method, Stage, TwoTower
from earsight.protocols import Protocol
from earsight.resampling import scaled
from earsight.types import Batch, Maps, Step

Bounds = tuple[float, float] | None


@dataclass(frozen=True)
class ObjectPrior:
    """What is added to a method's maps."""

    alpha: float
    """Share of the method's own map: 1 leaves it as it is, 0 leaves the objects alone. Published: SLAVC 0.9 (its
    scripts; 0.4 in its code), EZ-VSL 0.4."""
    fusion: Literal["slavc", "ezvsl"] = "slavc"
    """`slavc`: alpha * map scaled by its bounds + (1 - alpha) * activation / 2.5, as it comes out. `ezvsl`: both maps
    and their weighted mean each stretched to [0, 1] for every picture."""
    weights: str = "imagenet"
    """The network that sees objects: "imagenet", a file with weights of a ResNet-18, or a run of the method ogl."""

    def __post_init__(self) -> None:
        check_choices(self)
        need(
            math.isfinite(self.alpha) and 0 <= self.alpha <= 1,
            "an object prior with alpha between 0 and 1",
            self.alpha,
            "It is the share of the method's own map, for example --object-prior 0.9",
        )

    @classmethod
    def asked(cls, alpha: float | None, fusion: str, weights: str) -> ObjectPrior | None:
        """The prior that flags ask for, or None; refuses flags that would have no effect."""
        if alpha is not None:
            return cls(alpha, fusion, weights)  # type: ignore[arg-type]  # checked on construction
        for flag, given, default in (("fusion", fusion, cls.fusion), ("weights", weights, cls.weights)):
            need(
                given == default,
                f"--object-prior ALPHA with --object-{flag}",
                f"--object-{flag} alone",
                "For example: --object-prior 0.9",
            )
        return None

    @property
    def name(self) -> str:
        """What tables add to the method's name.

        >>> ObjectPrior(0.9).name, ObjectPrior(0.4, "ezvsl").name
        ('OGL 0.9', 'OGL 0.4 ezvsl')
        """
        return f"OGL {self.alpha:g}" + (f" {self.fusion}" if self.fusion != "slavc" else "")

    @property
    def flags(self) -> list[str]:
        """What to type for it."""
        words = ["--object-prior", str(self.alpha)]
        words += ["--object-fusion", self.fusion] if self.fusion != "slavc" else []
        return words + (["--object-weights", self.weights] if self.weights != "imagenet" else [])

    def warnings(self, protocols: Sequence[Protocol]) -> tuple[str, ...]:
        """What a reader of numbers under these protocols should know."""
        flat = [one.name for one in protocols if one.confidence in ("max", "peak")]
        if self.fusion != "ezvsl" or self.alpha == 1 or not flat:
            return ()
        told = (
            f"The object prior's fusion ezvsl makes the highest score of every map 1, so confidences under {flat[0]} "
            "are nearly all the same: read LocAcc, or use a protocol with confidence=native, which is the method's own."
        )
        return (told,)

    def added_to(self, weights: Weights) -> Weights:
        """The weights with the prior in their maps, on the device they lie on.

        Thresholds that were calibrated on the method's own scores are left out where the scores are others.
        """
        if self.alpha == 1:
            return weights
        on = next(chain(weights.model.parameters(), weights.model.buffers()), torch.empty(0)).device
        network = str(find_weights(self.weights)) if Path(self.weights).is_dir() else self.weights
        objects = ogl.Model(ogl.Config(weights=network), weights.inputs)
        model = Fused(weights.model, objects.to(on), self).eval()
        meta = {key: value for key, value in weights.meta.items() if key not in ("calibration", "universal_level")}
        return replace(weights, model=model, meta=meta)


class Fused(TwoTower):
    """A method whose maps have an object prior in them, for inference only.

    The objects of a picture are found once for all its sounds; so are the features of a `TwoTower`'s picture. Any other
    method gets its pictures and sounds as they are.
    """

    def __init__(self, method: Method, objects: Method, prior: ObjectPrior) -> None:
        super().__init__(method.inputs)
        self.method, self.objects, self.prior, self.note = method, objects, prior, method.note

    def stages(self, epochs: int) -> tuple[Stage, ...]:
        return ()

    def loss(self, batch: Batch, counts: list[int]) -> Step:
        raise TrainingError(
            "Expected a method to train, but got one with an object prior. Train the method, then add the prior."
        )

    def embed_images(self, pictures: Tensor) -> Features:
        method = self.method
        own = method.embed_images(pictures) if isinstance(method, TwoTower) else {"pictures": pictures}
        if self.prior.alpha == 1:
            return own
        objects = self.objects.localize(pictures, pictures.new_zeros((len(pictures), 0)))  # which sound plays no part
        return {**own, "object_map": objects.dense, "object_score": scaled(objects.dense, objects.bounds)}

    def embed_sounds(self, sounds: Tensor) -> Features:
        return self.method.embed_sounds(sounds) if isinstance(self.method, TwoTower) else {"sounds": sounds}

    def compare(self, image: Features, audio: Features) -> Maps:
        if isinstance(self.method, TwoTower):
            maps = self.method.compare(image, audio)
        else:
            maps = self.method.localize(image["pictures"], audio["sounds"])
        return maps if self.prior.alpha == 1 else self.fused(maps, image["object_map"], image["object_score"])

    def fused(self, maps: Maps, objects: Tensor, score: Tensor) -> Maps:
        """The method's maps with the map of objects (B, h, w), of which `score` is scaled by its bounds."""
        alpha, size = self.prior.alpha, (self.inputs.image_size, self.inputs.image_size)
        if self.prior.fusion == "ezvsl":
            dense = ezvsl(maps.dense, objects, alpha, size)
            native = dense if maps.native is maps.dense else ezvsl(maps.native, objects, alpha, size)
            # The highest value of such a map is always 1, so what is known about visibility is the method's alone.
            sure = maps.confidence
            if sure is None:
                sure = scaled(maps.dense.flatten(1).amax(1), maps.bounds)
            return Maps(native, dense, (0.0, 1.0), sure, (0.0, 1.0))
        dense = slavc(_within_bounds(maps.dense, maps.bounds), score, alpha, size)
        native = dense
        if maps.native is not maps.dense:
            # NOTE: published maps all have bounds. A native map without any is stretched to [0, 1] like EZ-VSL's.
            own = scaled(maps.native, maps.native_bounds) if maps.native_bounds else stretched(maps.native)
            native = slavc(own, score, alpha, size)
        return Maps(native, dense, (0.0, 1.0), maps.confidence, (0.0, 1.0))


def slavc(own: Tensor, objects: Tensor, alpha: float, size: tuple[int, int]) -> Tensor:
    """The weighted mean of scores (B, h, w), neither clipped nor stretched afterwards.

    On one grid this is the published fusion whatever the upsampling, which is linear. NOTE: grids that differ, which no
    published number has, meet at `size` with every cell in its place, as the protocol `exact` has it.

    >>> slavc(torch.tensor([[[0.5]]]), torch.tensor([[[1.2]]]), 0.9, (1, 1)).item()
    0.5699999928474426
    """
    if own.shape[1:] != objects.shape[1:]:
        own, objects = (_upsampled(x, size, "bicubic", corners=False) for x in (own, objects))
    return alpha * own + (1 - alpha) * objects


def ezvsl(own: Tensor, objects: Tensor, alpha: float, size: tuple[int, int]) -> Tensor:
    """The weighted mean of maps (B, h, w) stretched at `size`, stretched again.

    >>> own, objects = torch.tensor([[[0.0, 2.0, 4.0]]]), torch.tensor([[[1.0, 1.5, 1.0]]])
    >>> [round(value, 4) for value in ezvsl(own, objects, 0.4, (1, 3)).flatten().tolist()]
    [0.0, 1.0, 0.5]
    """
    own, objects = (stretched(_upsampled(x, size, "bilinear", corners=True)) for x in (own, objects))
    return stretched(alpha * own + (1 - alpha) * objects)


def stretched(maps: Tensor) -> Tensor:
    """Each map (B, h, w) moved to [0, 1] by its own lowest and highest value; a flat one becomes 0."""
    low, high = maps.amin((1, 2), keepdim=True), maps.amax((1, 2), keepdim=True)
    return (maps - low) / torch.where(high > low, high - low, 1)


def _upsampled(maps: Tensor, size: tuple[int, int], how: str, *, corners: bool) -> Tensor:
    if tuple(maps.shape[1:]) == size:
        return maps
    return F.interpolate(maps.unsqueeze(1), size=size, mode=how, align_corners=corners).squeeze(1)


def _within_bounds(maps: Tensor, bounds: Bounds) -> Tensor:
    if bounds is None:
        raise UsageError(
            "Expected maps with bounds for the object prior's fusion slavc, which scales by them, but got a method "
            "without any. Use --object-fusion ezvsl, which stretches each map by its own values."
        )
    return scaled(maps, bounds)
