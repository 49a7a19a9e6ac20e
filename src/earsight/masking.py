"""From maps to masks and confidences, as a protocol says. Each map is treated alone, whatever else is in the batch."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from earsight import ranks
from earsight.errors import UsageError
from earsight.levels import levels as levels
from earsight.levels import need_finite as need_finite
from earsight.levels import needed as needed
from earsight.levels import order_statistic as order_statistic
from earsight.protocols import Protocol
from earsight.types import Maps


@dataclass(frozen=True)
class Prediction:
    """What a protocol makes of B maps.

    Args:
        score: float32 (B, H, W), (map - low) / (high - low), not clipped; the raw map when it has no bounds.
        mask: bool (B, H, W), the pixels that the protocol keeps.
        confidence: float32 (B,), the same whatever size was asked for.
    """

    score: Tensor
    mask: Tensor
    confidence: Tensor


def predict(maps: Maps, protocol: Protocol, size: tuple[int, int] | None = None) -> Prediction:
    """Turn maps into scores, masks and confidences at `size` (H, W), by default the protocol's own.

    The confidence always comes from the protocol's own size, so that a threshold calibrated there holds for pictures of
    any size. The policy `adaptive` needs a ground truth, which only `scoring.score` has.

    >>> maps = Maps(*[torch.tensor([[[0.0, 1.0], [2.0, 3.0]]])] * 2, bounds=(0.0, 4.0))
    >>> out = predict(maps, Protocol("tiny", size=2))
    >>> out.mask.tolist(), out.confidence.tolist()
    ([[[False, False], [True, True]]], [0.75])
    """
    raw, bounds = maps.which(protocol.map)
    raw = raw.detach().float()
    low, high = raw.flatten(1).aminmax(dim=1)
    need_finite((low.cpu().numpy(), high.cpu().numpy()))
    square = (protocol.size, protocol.size)
    score = scaled(resized(raw, size or square, protocol), bounds)
    flat = score.flatten(1)
    if flat.device.type == "cpu":
        ranked = ranks.Ranked(flat.numpy(), cuts=needed([protocol], flat.shape[1])[0])
        mask = torch.from_numpy(flat.numpy() >= levels(ranked, protocol)[:, None])
    else:
        mask = _mask(flat, protocol)
    measured = score if tuple(score.shape[1:]) == square else None
    if protocol.confidence == "native":
        confidence = native_confidence(maps)
    else:
        confidence = _confidence(raw, bounds, measured, protocol)
    return Prediction(score, mask.view_as(score), confidence)


def resized(raw: Tensor, size: tuple[int, int], protocol: Protocol) -> Tensor:
    """Maps (B, h, w) at `size` by the protocol's interpolation."""
    if tuple(raw.shape[1:]) == tuple(size):
        return raw
    four = raw.unsqueeze(1)
    return F.interpolate(four, size=size, mode=protocol.upsample, align_corners=protocol.align_corners).squeeze(1)


def scaled(x: Tensor, bounds: tuple[float, float] | None) -> Tensor:
    """Values as shares of their bounds."""
    return x if bounds is None else (x - bounds[0]) / (bounds[1] - bounds[0])


def _mask(flat: Tensor, protocol: Protocol) -> Tensor:
    """The same as `levels` say, written down as defined; for maps that lie on a GPU."""
    if protocol.threshold == "adaptive" or math.isnan(protocol.level):
        levels(ranks.Ranked(np.zeros((1, 1), np.float32)), protocol)  # tells what is wrong
    if protocol.scaling == "minmax":
        low, high = flat.aminmax(dim=1, keepdim=True)
        flat = torch.where(high > low, (flat - low) / (high - low), flat)
    if protocol.threshold == "top_half":
        at = flat.kthvalue(int(flat.shape[1] * protocol.level) + 1, dim=1, keepdim=True).values
    else:
        at = torch.full_like(flat[:, :1], protocol.level)
    return flat > at if protocol.strict else flat >= at


def native_confidence(maps: Maps) -> Tensor:
    """The method's own confidence; refused where it has none."""
    if maps.confidence is None:
        raise UsageError(
            "Expected a method with a confidence of its own, but got maps without one. "
            "Use a protocol with confidence 'max' or 'top_quarter_mean'."
        )
    return maps.confidence.float()


def _confidence(raw: Tensor, bounds: tuple[float, float] | None, score: Tensor | None, protocol: Protocol) -> Tensor:
    if protocol.confidence == "max":
        return scaled(raw.flatten(1).amax(1), bounds)
    if score is None:
        score = scaled(resized(raw, (protocol.size, protocol.size), protocol), bounds)
    flat = score.flatten(1)
    if protocol.confidence == "peak":
        return flat.amax(1)
    if flat.device.type == "cpu":
        return torch.from_numpy(ranks.Ranked(flat.numpy(), top=needed([protocol], flat.shape[1])[1]).top_mean)
    return flat.topk(max(flat.shape[1] // 4, 1), dim=1, sorted=False).values.mean(1, dtype=torch.float64).float()
