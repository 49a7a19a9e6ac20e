"""Named evaluation protocols: how a map becomes a mask, a confidence and a cIoU. Printed with every number."""

from __future__ import annotations

import hashlib
import json
import math
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal, get_args, get_origin, get_type_hints

from earsight import registry
from earsight.config import need
from earsight.errors import UsageError

CiouForm = Literal["union", "no_miss"]
MOST = 4096
"""Largest side of the square on which maps are scored; a slip of the finger would take all memory."""
_DENSE = ("map", "dense")


@dataclass(frozen=True)
class Protocol:
    """Every choice between a map and a number. Two protocols with the same `hash` do the same arithmetic.

    >>> get("official").confidence, get("paper").confidence
    ('top_quarter_mean', 'max')
    """

    name: str
    map: Literal["dense", "native"] = "dense"
    """Which of a method's maps is thresholded: the one without plateaus, or the one its paper draws. Where a native map
    has one value on more than half of its pixels, `top_half` keeps all of them."""
    size: int = 224
    """Side of the square at which masks meet the ground truth."""
    upsample: Literal["bicubic", "bilinear"] = "bicubic"
    align_corners: bool = False
    """False keeps each value at the centre of its cell; True stretches the outer cells to the picture's edge."""
    scaling: Literal["bounds", "minmax"] = "bounds"
    """What the pixel threshold sees: the score scaled by the method's bounds, or each map stretched to [0, 1]."""
    threshold: Literal["top_half", "adaptive", "absolute", "universal"] = "top_half"
    """Which pixels are kept. `top_half`: from the order statistic int(n * level) upward. `adaptive`: from the order
    statistic n - (pixels of the ground truth) upward, half where it has none; it looks at the truth, so it is no
    prediction but the best size's. `absolute`: from `level` upward. `universal`: as absolute, with one level for all
    clips that was estimated on the negatives of a validation list."""
    level: float = 0.5
    """Share of the pixels that `top_half` leaves out, or the score of `absolute` and `universal` (NaN: not given)."""
    strict: bool = False
    """Keep pixels above the threshold only, not those that equal it."""
    confidence: Literal["max", "peak", "top_quarter_mean", "native"] = "max"
    """Highest score of the method's own grid, or at `size`, where upsampling may overshoot; mean of the highest quarter
    at `size`; or the method's own number."""
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
        need(self.size <= MOST, f"a size of at most {MOST} pixels", self.size, "Maps have far fewer values than that.")
        need(0 <= self.gamma <= 1, "gamma between 0 and 1", self.gamma)
        for name, hint in get_type_hints(Protocol).items():
            if get_origin(hint) is Literal:
                value, known = getattr(self, name), get_args(hint)
                need(value in known, f"{name} {' or '.join(known)}", repr(value))
        if self.threshold == "top_half":
            need(0 <= self.level < 1, "a level of top_half from 0 up to, not including, 1", self.level)
        if self.threshold == "absolute":
            need(math.isfinite(self.level), "a level of absolute that is a number", self.level)

    @property
    def hash(self) -> str:
        """Short hash of everything but the name."""
        # The dense map is left out, so that protocols keep the hash they had before there was a choice.
        values = {key: value for key, value in asdict(self).items() if key != "name" and (key, value) != _DENSE}
        return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()[:8]

    @property
    def kept(self) -> int | None:
        """Pixels that the threshold keeps when no two are equal, or None when that depends on the map."""
        if self.threshold != "top_half":
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
    # As many pixels as the ground truth has, as some later papers report beside their main number ("Adap.").
    "adaptive": Protocol("adaptive", threshold="adaptive", strict=True),
    # One level for all clips: the third quartile of the highest score on validation negatives, at the size at which
    # pixels meet it. It has no level of its own; see `at_level`.
    "universal": Protocol("universal", threshold="universal", level=math.nan, confidence="peak"),
}


def get(spec: str) -> Protocol:
    """The protocol of that name, with changes behind a colon if there are any.

    >>> get("exact:threshold=absolute,level=0.4").level
    0.4
    """
    name, colon, changes = spec.partition(":")
    if name not in PROTOCOLS:
        raise registry.unknown("protocol", name, sorted(PROTOCOLS))
    need(
        not colon or bool(changes),
        f"settings behind '{spec}'",
        "none",
        f"Write {name}, or for example {_example('gamma')}.",
    )
    hints = get_type_hints(Protocol)
    values: dict[str, Any] = {}
    for change in changes.split(",") if changes else ():
        key, _, text = change.partition("=")
        if key not in hints or key == "name":
            raise registry.unknown("setting of a protocol", key, sorted(set(hints) - {"name"}))
        values[key] = _value(key, hints[key], text)
    return replace(PROTOCOLS[name], name=spec, **values) if values else PROTOCOLS[name]


def at_level(protocol: Protocol, level: float | None) -> Protocol:
    """The protocol with its universal level filled in; other protocols as they are."""
    if protocol.threshold != "universal" or not math.isnan(protocol.level):
        return protocol
    if level is None or not math.isfinite(level):
        raise UsageError(
            f"Expected a level for the protocol {protocol.name}, but got none. Pass --level SCORE, estimated on "
            "validation negatives; weights that were trained with a validation list of negatives carry one."
        )
    return replace(protocol, level=level)


def _value(key: str, hint: Any, text: str) -> Any:
    if get_origin(hint) is Literal:
        return text  # checked with the others
    try:
        if hint is bool:
            return {"true": True, "false": False}[text.lower()]
        return hint(text)
    except (KeyError, ValueError) as error:
        kind = "true or false" if hint is bool else "a number"
        raise UsageError(f"Expected {kind} for {key}, but got '{text}'. For example: {_example(key)}.") from error


def _example(key: str) -> str:
    """How a setting is written, with the value that it has anyway.

    >>> _example("strict")
    'exact:strict=false'
    """
    return f"exact:{key}={str(getattr(PROTOCOLS['exact'], key)).lower()}"
