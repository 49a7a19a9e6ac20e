"""Numbers and reasons as text."""

from __future__ import annotations

import math
import re

from earsight.escape import visible


def percent(fraction: float) -> str:
    """A fraction as percent with two decimals, or a dash.

    >>> percent(0.34161), percent(float("nan"))
    ('34.16', '-')
    """
    return "-" if math.isnan(fraction) else f"{100 * fraction:.2f}"


def points(fraction: float) -> str:
    """A difference of fractions as percentage points with their sign, or a dash.

    >>> points(0.1234), points(-0.00001), points(float("nan"))
    ('+12.34', '+0.00', '-')
    """
    return "-" if math.isnan(fraction) else f"{round(100 * fraction, 2) + 0.0:+.2f}"


def span(interval: tuple[float, float], signed: bool = False) -> str:
    """An interval of fractions in percent, or a dash.

    >>> span((0.1, 0.254)), span((-0.01, 0.02), signed=True)
    ('10.00 to 25.40', '-1.00 to +2.00')
    """
    if any(math.isnan(end) for end in interval):
        return "-"
    low, high = (points(end) if signed else percent(end) for end in interval)
    return f"{low} to {high}"


def shareable(reason: str) -> str:
    """A reason without the folders of this computer: a report is passed on, and is the same wherever it was made.

    >>> shareable("/home/me/data/frames/a.jpg: ends too early.")
    'a.jpg: ends too early.'
    """
    return re.sub(r"(?<![\w.:/-])(?:[A-Za-z]:)?[\\/](?:[^\s\\/:'\"]+[\\/])+", "", visible(" ".join(reason.split())))
