"""Where a protocol draws the line through each map: thresholds of many maps at once, in numpy alone."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from earsight import ranks
from earsight.errors import DataError, UsageError
from earsight.protocols import Protocol
from earsight.types import F32, I64


def need_finite(span: tuple[npt.NDArray[Any], npt.NDArray[Any]]) -> None:
    """Refuse maps with NaN or infinity, given the lowest and the highest value of each, (B,) and (B,)."""
    bad = np.flatnonzero(~(np.isfinite(span[0]) & np.isfinite(span[1])))
    if len(bad):
        raise DataError(
            f"Expected finite maps, but got NaN or infinity in {len(bad)} of {len(span[0])} maps (first at {bad[0]}). "
            "Check the weights: training may have diverged."
        )


def levels(ranked: ranks.Ranked, protocol: Protocol, support: I64 | None = None) -> F32:
    """For each map, the lowest score that the protocol keeps, (B,): its mask is score >= level, strict or not.

    `ranked` must hold what `needed` says. `support` counts the pixels of each ground truth, which `adaptive` needs.
    """
    n = ranked.pixels
    index = order_statistic(protocol, n)
    if index is not None:
        at = ranked.around[index].at
    elif protocol.threshold == "adaptive":
        if support is None:
            raise UsageError(
                "Expected a ground truth for the policy adaptive, but there is none here. Use another protocol."
            )
        at = ranked.statistics(n - np.where(support > 0, support, max(n // 2, 1)))
    else:
        if math.isnan(protocol.level):
            raise UsageError(
                f"Expected a level for the protocol {protocol.name}, but got none. Estimate it on validation negatives."
            )
        at = np.full(ranked.count, protocol.level, np.float32)
    if protocol.scaling == "minmax":
        return _stretched(ranked, at, protocol)
    return np.nextafter(at, np.float32(np.inf)) if protocol.strict else at


def order_statistic(protocol: Protocol, pixels: int) -> int | None:
    """The place of the threshold among the pixels in ascending order, where the policy says one."""
    return int(pixels * protocol.level) if protocol.threshold == "top_half" else None


def needed(protocols: Sequence[Protocol], pixels: int) -> tuple[list[int], int]:
    """The order statistics, and the number of highest scores, that the protocols will ask for."""
    halves = [at for at in (order_statistic(protocol, pixels) for protocol in protocols) if at is not None]
    quarter = max(pixels // 4, 1) if any(p.confidence == "top_quarter_mean" for p in protocols) else 0
    return list(dict.fromkeys(halves)), quarter


def _stretched(ranked: ranks.Ranked, at: F32, protocol: Protocol) -> F32:
    """The lowest score of each map that reaches the threshold `at` when the map is stretched to [0, 1], (B,).

    An order statistic parts a stretched map where it parts the map, unless another value became equal to it: only then,
    and where the threshold is no order statistic, the map itself is looked at.
    """
    level = np.nextafter(at, np.float32(np.inf)) if protocol.strict else at.copy()
    apart = np.zeros(len(at), np.bool_)
    index = order_statistic(protocol, ranked.pixels)
    if index is not None:
        low, around = ranked.lowest, ranked.around[index]
        under, over = (at, around.above) if protocol.strict else (around.below, at)
        width = np.maximum(ranked.highest - low, np.finfo(np.float32).tiny)
        apart = (under - low) / width < (over - low) / width
    given = protocol.threshold in ("absolute", "universal")  # the level is a stretched value already
    for i in np.flatnonzero(~apart).tolist():
        level[i] = ranks.lowest_kept(ranked.row(i), at[i], protocol.strict, stretched=given)
    return level
