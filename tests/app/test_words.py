"""What the page says: every text of a stranger is escaped, and every answer is checked."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from earsight.app import words
from earsight.app.answer import Answer


def answer(*verdicts: str, threshold: float | None = 0.5, cut: float = 0.0, notes: tuple[str, ...] = ()) -> Answer:
    items = [[i * 0.2, verdict, 0.4 + 0.1 * i, 0.5] for i, verdict in enumerate(verdicts)]
    return Answer.of(Path("/x/y"), 0, {"threshold": threshold, "items": items, "cut": cut, "notes": notes})


def test_verdict_is_that_of_most_moments_silence_aside() -> None:
    assert answer("silent", "silent", "no visible source").verdict == "no visible source"
    assert answer("silent", "silent").verdict == "silent"
    assert answer("visible source", "visible source", "no visible source").verdict == "visible source"


def test_headline_tells_shares_and_the_swapped_sound() -> None:
    said = words.headline(answer("visible source", "visible source", "silent", "no visible source"), "<i>bell</i>")
    assert "The source is in the picture most of the time that something is heard<" in said
    assert "visible source 50%" in said
    assert "&lt;i&gt;bell" in said


@pytest.mark.parametrize(
    ("verdicts", "when"),
    [
        (("no visible source",), ""),
        (("silent", "silent"), ""),
        (("no visible source", "no visible source", "visible source"), " most of the time"),
        (("no visible source", "silent", "silent"), " while something is heard"),
    ],
)
def test_headline_is_true_of_the_time_it_names(verdicts: tuple[str, ...], when: str) -> None:
    said = words.headline(answer(*verdicts))
    assert f"<b>{words.SAYING[answer(*verdicts).verdict]}{when}</b>" in said


def test_headline_tells_when_a_clip_went_on() -> None:
    assert "of the clip: visible source 100%" in words.headline(answer("visible source"))
    said = words.headline(answer("visible source", cut=60.0))
    assert "of its first 60 s, which is as long as a clip may be: visible source 100%" in said


def test_headline_tells_what_else_there_is_to_know() -> None:
    said = words.headline(answer("visible source", notes=("the pictures end at 1.0 s <b>",)))
    assert "<small>Note: the pictures end at 1.0 s &lt;b&gt;.</small>" in said
    assert "Note" not in words.headline(answer("visible source"))
    many = answer("visible source", notes=("x" * 999,) * 9)
    assert words.headline(many).count("x") < 1000, "the process that says it has opened a stranger's file"


def test_messages_are_escaped() -> None:
    assert "<script>" not in words.message("<script>")
    assert words.message("") == ""


@pytest.mark.parametrize("threshold", [0.5, None])
@pytest.mark.parametrize("count", [1, 2, 300])
def test_plot_has_a_dot_for_every_moment(count: int, threshold: float | None) -> None:
    drawn = words.plot(answer(*["visible source"] * count, threshold=threshold), 10_000)
    assert drawn.count("<circle") == count
    assert ("threshold" in drawn) == (threshold is not None)
    assert "nan" not in drawn


def test_picture_stays_inside_the_clip() -> None:
    two = answer("visible source", "silent")
    assert "frame-1-0001.jpg" in words.picture(two, 99)
    assert "frame-1-0000.jpg" in words.picture(two, -5)


@pytest.mark.parametrize(
    "values",
    [
        {"threshold": 0.5, "items": [], "cut": 0.0, "notes": []},
        {"threshold": 0.5, "items": [[0.0, "<b>", 0.5, 0.5]], "cut": 0.0, "notes": []},
        {"threshold": "nan", "items": [[0.0, "silent", 0.5, 0.5]], "cut": 0.0, "notes": []},
        {"threshold": None, "items": [[0.0, "silent", 0.5, 0.5]], "cut": "nan", "notes": []},
        {"threshold": None, "items": [[0.0, "silent", float("inf"), 0.5]], "cut": 0.0, "notes": []},
    ],
)
def test_answers_that_make_no_sense_are_refused(values: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="Expected"):
        Answer.of(Path("/x"), 0, values)
