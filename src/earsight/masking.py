"""From torch's maps to masks and confidences, as a protocol says: judging.py's rule, on maps that torch enlarges."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from earsight.judging import judge, need_own, scaled
from earsight.protocols import Protocol
from earsight.types import F32, Maps


@dataclass(frozen=True)
class Prediction:
    """Scores float32 (B, H, W), masks bool (B, H, W) and confidences float32 (B,), as `judging.Judged` has them."""

    score: Tensor
    mask: Tensor
    confidence: Tensor


def predict(maps: Maps, protocol: Protocol, size: tuple[int, int] | None = None) -> Prediction:
    """Turn maps into scores, masks and confidences at `size` (H, W), by default the protocol's own; on the CPU.

    >>> maps = Maps(*[torch.tensor([[[0.0, 1.0], [2.0, 3.0]]])] * 2, bounds=(0.0, 4.0))
    >>> out = predict(maps, Protocol("tiny", size=2))
    >>> out.mask.tolist(), out.confidence.tolist()
    ([[[False, False], [True, True]]], [0.75])
    """
    raw, bounds = maps.which(protocol.map)
    raw = raw.detach().float().cpu()
    own = None if maps.confidence is None else maps.confidence.detach().float().cpu().numpy()

    def at(size: tuple[int, int]) -> F32:
        scores: F32 = scaled(resized(raw, size, protocol), bounds).numpy()
        return scores

    out = judge(raw.numpy(), bounds, own, protocol, size, at)
    return Prediction(*map(torch.from_numpy, (out.score, out.mask, out.confidence)))


def own_scores(maps: Maps, protocol: Protocol) -> Tensor:
    """The scores (B, h, w) that a protocol looks at, on the method's own grid."""
    return scaled(*maps.which(protocol.map))


def resized(raw: Tensor, size: tuple[int, int], protocol: Protocol) -> Tensor:
    """Maps (B, h, w) at `size` by the protocol's interpolation."""
    if tuple(raw.shape[1:]) == tuple(size):
        return raw
    four = raw.unsqueeze(1)
    return F.interpolate(four, size=size, mode=protocol.upsample, align_corners=protocol.align_corners).squeeze(1)


def native_confidence(maps: Maps) -> Tensor:
    """The method's own confidence; refused where it has none."""
    return need_own(maps.confidence).float()
