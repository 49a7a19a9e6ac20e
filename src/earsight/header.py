"""What weights and exported models say of themselves: plain JSON, out of a file that may be a stranger's."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

_NUMBER = (int, float)
_TEXT = (str,)
_PART = (dict,)
_NONE = type(None)

_OPTIONAL: dict[str, tuple[type, ...]] = {
    "protocol": _TEXT,
    "universal_level": (*_NUMBER, _NONE),
    "calibration": (*_PART, _NONE),
    "uncalibrated": _TEXT,
    "calibration.threshold": _NUMBER,
    "calibration.recall": _NUMBER,
    "calibration.false_alarm": _NUMBER,
    "calibration.negatives": _NUMBER,
    "metrics": _PART,
    "imported": _PART,
    "knows": _TEXT,
    "training": _PART,
    "training.job": _PART,
    "training.job.on": _TEXT,
    "training.job.val": _TEXT,
    "training.job.data": (*_TEXT, _NONE),
    "training.job.optim": _PART,
    "training.job.supervision": _PART,
    "training.job.supervision.weight": _NUMBER,
}
"""What may be missing from weights and exported models, but is read where it is there."""
_NOT_WITHOUT = ("calibration.threshold",)
"""What the part around it has to have."""


def unusable(
    header: dict[str, Any], needed: Mapping[str, type], optional: Mapping[str, tuple[type, ...]] = _OPTIONAL
) -> list[str]:
    """Names of what is missing or of another kind than it has to be, so that nobody who reads it looks again.

    >>> unusable({"method": 3, "calibration": {"threshold": "high"}}, {"method": str})
    ['method', 'calibration.threshold']
    >>> unusable({"method": "slavc", "calibration": {}}, {"method": str})
    ['calibration.threshold']
    """
    wrong = [key for key, kind in needed.items() if not isinstance(header.get(key), kind)]
    for key, kinds in optional.items():
        *above, last = key.split(".")
        part: Any = header
        for name in above:
            part = part.get(name) if isinstance(part, dict) else None
        if isinstance(part, dict) and (last in part or key in _NOT_WITHOUT) and not _is_one(part.get(last), kinds):
            wrong.append(key)
    return wrong


def _is_one(value: Any, kinds: tuple[type, ...]) -> bool:
    if isinstance(value, float) and not math.isfinite(value):
        return False
    return isinstance(value, kinds) and not isinstance(value, bool)
