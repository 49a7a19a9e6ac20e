"""Answers over time, steadied: maps and confidences are averaged, and a verdict that would not last is not given."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Protocol, TypeVar

import numpy as np

from earsight.localize.timeline import NOT_CALIBRATED, NOT_VISIBLE, SILENT, VISIBLE
from earsight.types import F32

_SAME = 1e-6  # seconds; times are sums of floats


class Timed(Protocol):
    @property
    def time(self) -> float: ...


T = TypeVar("T", bound=Timed)


@dataclass(frozen=True)
class Glance:
    """What a model says of one moment.

    Args:
        time: seconds from the start of the file.
        score: float32 (h, w), its map.
        confidence: that of the moment alone at first, the mean of those around once steadied.
        momentary: that of the moment alone.
        silent: nothing was heard, so the map means nothing.
        verdict: empty until it is settled.
    """

    time: float
    score: F32
    confidence: float
    momentary: float
    silent: bool
    verdict: str = ""


def steadied(glances: Iterable[Glance], seconds: float, threshold: float | None) -> Iterator[Glance]:
    """The glances with averaged maps and confidences and with verdicts, a little later than they come in.

    The average weighs a neighbour by how near it is, down to nothing at `seconds`, so that it does nothing when moments
    are further apart than that. A verdict changes when the new one will last for `seconds`. Silence is said at once, is
    no part of any average, and what follows it starts anew.
    """
    return _settled(_averaged(glances, seconds), seconds, threshold)


def _averaged(glances: Iterable[Glance], seconds: float) -> Iterator[Glance]:
    for near, at in _around(glances, seconds):
        one = near[at]
        others = [one] if one.silent else [other for other in near if not other.silent]
        weights = [max(0.0, 1 - abs(other.time - one.time) / seconds) if seconds else 1.0 for other in others]
        if sum(weight > _SAME for weight in weights) < 2:
            yield one
            continue
        shares = [weight / sum(weights) for weight in weights]
        score = np.zeros_like(one.score)
        for other, share in zip(others, shares, strict=True):
            score += other.score * np.float32(share)
        confidence = sum(other.confidence * share for other, share in zip(others, shares, strict=True))
        yield replace(one, score=score, confidence=confidence)


def _settled(glances: Iterable[Glance], seconds: float, threshold: float | None) -> Iterator[Glance]:
    before = ""
    for near, at in _around(glances, seconds):
        word = _word(near[at], threshold)
        if before in (VISIBLE, NOT_VISIBLE) and word not in (before, SILENT):
            for other in near[at + 1 :]:
                if other.silent:
                    break
                if _word(other, threshold) == before:
                    word = before
                    break
        before = word
        yield replace(near[at], verdict=word)


def _word(glance: Glance, threshold: float | None) -> str:
    if glance.silent:
        return SILENT
    if threshold is None:
        return NOT_CALIBRATED
    return VISIBLE if glance.confidence >= threshold else NOT_VISIBLE


def _around(items: Iterable[T], seconds: float) -> Iterator[tuple[list[T], int]]:
    """Each item as its place in the list of those less than `seconds` away from it, itself included."""
    near: deque[T] = deque()
    at = 0

    def give() -> tuple[list[T], int]:
        nonlocal at
        here = near[at].time
        while near[0].time <= here - seconds + _SAME and at > 0:
            near.popleft()
            at -= 1
        found = [one for one in near if one.time < here + seconds - _SAME or one is near[at]], at
        at += 1
        return found

    for item in items:
        near.append(item)
        while at < len(near) and near[at].time + seconds <= item.time + _SAME:
            yield give()
    while at < len(near):
        yield give()
