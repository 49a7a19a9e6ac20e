"""Steadied answers, against a slow version that sees all moments at once."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from earsight.localize.smoothing import Answer, smoothed

VISIBLE, NOT_VISIBLE = "visible source", "no visible source"


def answers(confidences: list[float | None], every: float = 0.2) -> list[Answer]:
    """One for each confidence, None for silence, whose map is full of the confidence."""
    return [
        Answer(round(i * every, 6), np.full((2, 3), value or 9, np.float32), value or 9.0, value or 9.0, value is None)
        for i, value in enumerate(confidences)
    ]


def verdicts(confidences: list[float | None], seconds: float = 0.5) -> str:
    """A letter for each moment: what comes out with a threshold of 0.5."""
    letters = {VISIBLE: "V", NOT_VISIBLE: "n", "silent": "s"}
    return "".join(letters[one.verdict] for one in smoothed(answers(confidences), seconds, 0.5))


@pytest.mark.parametrize("seconds", [0.0, 0.1, 0.2, 0.5, 1.0, 7.0])
def test_averages_are_those_of_the_whole_sequence(seconds: float) -> None:
    random = np.random.default_rng(0)
    given = answers([None if random.random() < 0.15 else float(random.random()) for _ in range(60)])
    found = list(smoothed(given, seconds, None))
    assert [one.time for one in found] == [one.time for one in given]
    for one, old in zip(found, given, strict=True):
        near = [other for other in given if not other.silent and abs(other.time - old.time) < seconds - 1e-6]
        if old.silent or not near:
            near = [old]
        weights = [1 - abs(other.time - old.time) / max(seconds, 1e-9) for other in near]
        expected = np.average([other.confidence for other in near], weights=weights)
        assert one.confidence == pytest.approx(expected, abs=1e-6)
        np.testing.assert_allclose(one.score, expected, atol=1e-5)
        assert one.momentary == old.confidence


def test_moments_further_apart_than_the_smoothing_stay_as_they_are() -> None:
    given = answers([0.1, 0.9, 0.2], every=0.5)
    for one, old in zip(smoothed(given, 0.5, None), given, strict=True):
        assert one.score is old.score
        assert one.confidence == old.confidence


def test_a_verdict_that_would_not_last_is_not_given() -> None:
    assert verdicts([0.6] * 5 + [0.4] + [0.6] * 5) == "V" * 11
    assert verdicts([0.6] * 5 + [0.4] * 9) == "V" * 5 + "n" * 9
    # Two of every three say no, but never for half a second.
    flicker = [0.49, 0.49, 0.53] * 5
    assert verdicts([0.9] * 3 + flicker, seconds=0.5)[:12].count("n") == 0
    assert verdicts([0.9] * 3 + flicker, seconds=0.0) == "VVV" + "nnV" * 5


def test_silence_is_said_at_once_and_what_follows_starts_anew() -> None:
    assert verdicts([0.6, 0.6, None, 0.4, 0.6, 0.6, 0.6])[2:4] in ("sn", "sV")
    assert verdicts([0.9, 0.9, None, 0.1, 0.1]) == "VVsnn"
    assert verdicts([0.9, None, 0.9]) == "VsV"
    assert verdicts([0.9, 0.9, 0.01, None, 0.9]) == "VVnsV"  # what comes after silence is no reason to wait
    assert verdicts([None]) == "s"


def test_without_a_threshold_there_is_no_verdict() -> None:
    assert {one.verdict for one in smoothed(answers([0.1, None, 0.9]), 0.5, None)} == {"not calibrated", "silent"}


def test_answers_come_out_soon_after_they_come_in() -> None:
    taken = 0

    def endless() -> itertools.chain[Answer]:
        nonlocal taken
        for i in itertools.count():
            taken = i + 1
            yield Answer(i * 0.2, np.zeros((1, 1), np.float32), 0.5, 0.5, False)

    found = smoothed(endless(), 0.5, 0.5)
    for _ in range(100):
        next(found)
    assert taken <= 100 + 2 * 3


def test_nothing_gives_nothing() -> None:
    assert list(smoothed([], 0.5, 0.5)) == []
