"""Named evaluation protocols: how a map becomes a mask, a confidence and a cIoU. Printed with every number."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass
from typing import Literal, get_args, get_origin, get_type_hints

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from earsight import registry
from earsight.config import need
from earsight.errors import DataError, UsageError
from earsight.types import Maps

CiouForm = Literal["union", "no_miss"]


@dataclass(frozen=True)
class Protocol:
    """Every choice between a map and a number. Two protocols with the same `hash` do the same arithmetic.

    >>> get("official").confidence, get("paper").confidence
    ('top_quarter_mean', 'max')
    """

    name: str
    size: int = 224
    """Side of the square at which masks meet the ground truth."""
    upsample: Literal["bicubic", "bilinear"] = "bicubic"
    align_corners: bool = False
    """False keeps each value at the centre of its cell; True stretches the outer cells to the picture's edge."""
    scaling: Literal["bounds", "minmax"] = "bounds"
    """What the pixel threshold sees: the score scaled by the method's bounds, or each map stretched to [0, 1]."""
    threshold: Literal["top_half", "absolute"] = "top_half"
    """`top_half` keeps the pixels from the order statistic int(n * level) upward; `absolute` those from `level`."""
    level: float = 0.5
    strict: bool = False
    """Keep pixels above the threshold only, not those that equal it."""
    confidence: Literal["max", "top_quarter_mean", "native"] = "max"
    """Highest score of the method's own grid; mean of the highest quarter at `size`; or the method's own number."""
    ciou: CiouForm = "union"
    """`union` counts missed ground truth; `no_miss` is the formula printed in the paper's appendix, which does not."""
    gamma: float = 0.5
    """cIoU that makes a hit."""
    strict_hits: bool = False
    """A hit must be above gamma, not equal to it."""
    average_precision: Literal["full", "official"] = "full"
    """Every threshold with recall from 0, or the published code's sub-sampled sum."""
    f1: Literal["all", "official"] = "all"
    """Every threshold, or the published code's ten or eleven."""

    def __post_init__(self) -> None:
        need(self.size >= 1, "a size of at least 1 pixel", self.size)
        need(0 <= self.gamma <= 1, "gamma between 0 and 1", self.gamma)
        for name, hint in get_type_hints(Protocol).items():
            if get_origin(hint) is Literal:
                value, known = getattr(self, name), get_args(hint)
                need(value in known, f"{name} {' or '.join(known)}", repr(value))
        if self.threshold == "top_half":
            need(0 <= self.level < 1, "a level of top_half from 0 up to, not including, 1", self.level)

    @property
    def hash(self) -> str:
        """Short hash of everything but the name."""
        values = {key: value for key, value in asdict(self).items() if key != "name"}
        return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()[:8]

    @property
    def kept(self) -> int | None:
        """Pixels that the threshold keeps when no two are equal, or None when that depends on the map."""
        if self.threshold == "absolute":
            return None
        n = self.size**2
        return n - int(n * self.level) - self.strict

    def __str__(self) -> str:
        return f"{self.name} ({self.hash})"


PROTOCOLS: dict[str, Protocol] = {
    # Ours. Cells keep their place (align_corners False), every threshold counts, recall starts at 0.
    "exact": Protocol("exact"),
    # The published evaluator on the same maps, with its relative prediction and its sub-sampled curves. Stretching each
    # map before the threshold changes no order, but its rounding can make two neighbours equal, so it is done here too.
    "official": Protocol(
        "official",
        align_corners=True,
        scaling="minmax",
        confidence="top_quarter_mean",
        average_precision="official",
        f1="official",
    ),
    # The paper's text: S > alpha, cIoU > gamma, confidence = max of the map, full curve without interpolation. It names
    # no interpolation (ours is used), and its tables follow the union cIoU: the appendix formula forgives every missed
    # pixel, so it is an option (`dataclasses.replace(get("paper"), ciou="no_miss")`), not the default.
    "paper": Protocol("paper", strict=True, strict_hits=True),
}


def get(name: str) -> Protocol:
    """The protocol of that name."""
    if name not in PROTOCOLS:
        raise registry.unknown("protocol", name, sorted(PROTOCOLS))
    return PROTOCOLS[name]


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

    Each map is treated alone, so the answer does not depend on what else is in the batch. The confidence always comes
    from the protocol's own size, so that a threshold calibrated there holds for pictures of any size.

    >>> maps = Maps(*[torch.tensor([[[0.0, 1.0], [2.0, 3.0]]])] * 2, bounds=(0.0, 4.0))
    >>> out = predict(maps, Protocol("tiny", size=2))
    >>> out.mask.tolist(), out.confidence.tolist()
    ([[[False, False], [True, True]]], [0.75])
    """
    dense = maps.dense.detach().float()
    if not bool(torch.isfinite(dense).all()):
        bad = (~torch.isfinite(dense).flatten(1).all(1)).nonzero().flatten().tolist()
        raise DataError(
            f"Expected finite maps, but got NaN or infinity in {len(bad)} of {len(dense)} maps (first at {bad[0]}). "
            "Check the weights: training may have diverged."
        )
    square = (protocol.size, protocol.size)
    score = _scaled(_resized(dense, size or square, protocol), maps.bounds)
    return Prediction(score, _mask(score, protocol), _confidence(maps, dense, score, square, protocol))


def ciou(mask: Tensor, truth: Tensor, form: CiouForm = "union") -> Tensor:
    """Consensus IoU of masks (B, H, W) with truth (B, H, W) in [0, 1], float64 (B,).

    union: sum(P g) / (sum(g) + #(P where g = 0)); no_miss: sum(P g) / (sum(P g) + #(P where g = 0)). 0/0 counts as 0.

    >>> g, p = torch.tensor([[[1, 1, 0.5, 0, 0]]]), torch.tensor([[[1, 0, 1, 1, 0]]]) > 0
    >>> round(ciou(p, g).item(), 6), round(ciou(p, g, "no_miss").item(), 6)
    (0.428571, 0.6)
    """
    g = truth.float()
    inside = _total(g * mask.float())
    outside = _total((mask & (g == 0)).float())
    below = (_total(g) if form == "union" else inside) + outside
    return torch.where(below > 0, inside / below.clamp(min=1e-12), torch.zeros_like(inside))


def _total(x: Tensor) -> Tensor:
    """Sum of each map, (B, H, W) -> float64 (B,). Rows first: exact for halves, and far faster than all in float64."""
    return x.sum(2).double().sum(1)


def _resized(dense: Tensor, size: tuple[int, int], protocol: Protocol) -> Tensor:
    if tuple(dense.shape[1:]) == tuple(size):
        return dense
    four = dense.unsqueeze(1)
    return F.interpolate(four, size=size, mode=protocol.upsample, align_corners=protocol.align_corners).squeeze(1)


def _scaled(x: Tensor, bounds: tuple[float, float] | None) -> Tensor:
    return x if bounds is None else (x - bounds[0]) / (bounds[1] - bounds[0])


def _mask(score: Tensor, protocol: Protocol) -> Tensor:
    flat = score.flatten(1)
    if protocol.scaling == "minmax":
        low, high = flat.aminmax(dim=1, keepdim=True)
        flat = torch.where(high > low, (flat - low) / (high - low), flat)
    if protocol.threshold == "top_half":
        at = _order_statistic(flat, int(flat.shape[1] * protocol.level))
    else:
        at = torch.full_like(flat[:, :1], protocol.level)
    return (flat > at if protocol.strict else flat >= at).view_as(score)


def _order_statistic(flat: Tensor, index: int) -> Tensor:
    """The value at `index` of each row in ascending order, (B, n) -> (B, 1)."""
    if flat.device.type == "cpu":  # several times faster than torch's there, and the same value
        return torch.from_numpy(np.partition(flat.numpy(), index, axis=1)[:, index : index + 1])
    return flat.kthvalue(index + 1, dim=1, keepdim=True).values


def _confidence(maps: Maps, dense: Tensor, score: Tensor, square: tuple[int, int], protocol: Protocol) -> Tensor:
    if protocol.confidence == "native":
        if maps.confidence is None:
            raise UsageError(
                "Expected a method with a confidence of its own, but got maps without one. "
                "Use a protocol with confidence 'max' or 'top_quarter_mean'."
            )
        return maps.confidence.float()
    if protocol.confidence == "max":
        return _scaled(dense.flatten(1).amax(1), maps.bounds)
    if tuple(score.shape[1:]) != square:
        score = _scaled(_resized(dense, square, protocol), maps.bounds)
    flat = score.flatten(1)
    return flat.topk(max(flat.shape[1] // 4, 1), dim=1, sorted=False).values.mean(1, dtype=torch.float64).float()
