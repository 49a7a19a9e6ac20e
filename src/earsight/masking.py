"""From torch's maps to masks and confidences, as a protocol says: judging.py's rule."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from earsight.judging import Found, judged, need_own, scaled
from earsight.protocols import Protocol
from earsight.types import Maps


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
    out = judged(arrays(maps), protocol, size)
    return Prediction(*map(torch.from_numpy, (out.score, out.mask, out.confidence)))


def arrays(maps: Maps) -> Found:
    """Maps as numpy has them, on the CPU."""
    maps = maps.each(lambda x: x.detach().float().cpu())
    own = None if maps.confidence is None else maps.confidence.numpy()
    return Found(maps.dense.numpy(), maps.native.numpy(), maps.bounds, maps.native_bounds, own)


def own_scores(maps: Maps, protocol: Protocol) -> Tensor:
    """The scores (B, h, w) that a protocol looks at, on the method's own grid."""
    return scaled(*maps.which(protocol.map))


def native_confidence(maps: Maps) -> Tensor:
    """The method's own confidence; refused where it has none."""
    return need_own(maps.confidence).float()
