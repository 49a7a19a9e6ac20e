"""Temporal smoothing: maps and confidences are averaged over time, and a verdict that would not last is not given."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from earsight.localize.timeline import NOT_VISIBLE, SILENT, VISIBLE, verdict_of
from earsight.types import F32, U8

_SAME = 1e-6  # seconds; times are sums of floats


@dataclass(frozen=True)
class Answer:
    """What a model says of one moment.

    Args:
        time: seconds from the start of the file.
        score: float32 (h, w), its map.
        confidence: that of the moment alone at first, the mean of those around once smoothed.
        momentary: that of the moment alone.
        silent: nothing was heard, so the map means nothing.
        verdict: empty until it is settled.
        picture: uint8 (3, H, W), a small one, of the few moments that are to be shown.
    """

    time: float
    score: F32
    confidence: float
    momentary: float
    silent: bool
    verdict: str = ""
    picture: U8 | None = None


def smoothed(answers: Iterable[Answer], seconds: float, threshold: float | None) -> Iterator[Answer]:
    """The answers with averaged maps and confidences and with verdicts, a little later than they come in.

    The average weighs a neighbour by how near it is, down to nothing at `seconds`, so that it does nothing when moments
    are further apart than that. A verdict changes when the new one will last for `seconds`. Silence is said at once, is
    no part of any average, and what follows it starts anew.
    """
    return _settled(_averaged(answers, seconds), seconds, threshold)


def _averaged(answers: Iterable[Answer], seconds: float) -> Iterator[Answer]:
    for near, at in _around(answers, seconds):
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


def _settled(answers: Iterable[Answer], seconds: float, threshold: float | None) -> Iterator[Answer]:
    def verdict(answer: Answer) -> str:
        return verdict_of(answer.confidence, threshold, answer.silent)

    before = ""
    for near, at in _around(answers, seconds):
        now = verdict(near[at])
        if before in (VISIBLE, NOT_VISIBLE) and now not in (before, SILENT):
            for other in near[at + 1 :]:
                if other.silent:
                    break
                if verdict(other) == before:
                    now = before
                    break
        before = now
        yield replace(near[at], verdict=now)


def _around(answers: Iterable[Answer], seconds: float) -> Iterator[tuple[list[Answer], int]]:
    """Each answer as its place in the list of those less than `seconds` away from it, itself included."""
    near: deque[Answer] = deque()
    at = 0

    def give() -> tuple[list[Answer], int]:
        nonlocal at
        here = near[at].time
        while near[0].time <= here - seconds + _SAME and at > 0:
            near.popleft()
            at -= 1
        found = [one for one in near if one.time < here + seconds - _SAME or one is near[at]], at
        at += 1
        return found

    for answer in answers:
        near.append(answer)
        while at < len(near) and near[at].time + seconds <= answer.time + _SAME:
            yield give()
    while at < len(near):
        yield give()
