"""What goes to the screen: progress without a terminal is a line now and then, with one a bar."""

from __future__ import annotations

import sys

import pytest

from earsight.cli import screen

Captured = pytest.CaptureFixture[str]


def test_soon_done_work_tells_no_progress(capsys: Captured) -> None:
    with screen.progress("measuring") as report:
        report(1, 2)
        report(2, 2)
    assert capsys.readouterr() == ("", "")


def test_long_work_tells_a_line_on_stderr(monkeypatch: pytest.MonkeyPatch, capsys: Captured) -> None:
    monkeypatch.setattr(screen, "EVERY", 0.0)
    with screen.progress("measuring") as report:
        report(1, 2)
        report(2, 2, "other.mp4")
    assert capsys.readouterr() == ("", "measuring: 50%\nother.mp4: 100%\n")


def test_a_terminal_gets_a_bar_on_stderr(monkeypatch: pytest.MonkeyPatch, capsys: Captured) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    monkeypatch.setenv("TERM", "xterm")
    with screen.progress("measuring [1]") as report:
        report(1, 2)
    got = capsys.readouterr()
    assert got.out == ""
    assert "measuring [1]" in got.err


def test_other_processes_are_silent(monkeypatch: pytest.MonkeyPatch, capsys: Captured) -> None:
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setattr(screen, "EVERY", 0.0)
    with screen.progress("measuring") as report:
        report(1, 2)
    assert capsys.readouterr() == ("", "")


def test_json_never_holds_nan() -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        screen.say_json({"value": float("nan")})


def test_names_do_not_steer_the_terminal(capsys: Captured) -> None:
    screen.say("clip\x1b[2J\r\u202eok\tand\nmore é")
    assert capsys.readouterr().out == "clip\\x1b[2J\\x0d\\u202eok\\tand\nmore é\n"


HOSTILE = "a\x1b[2J\nerror: b\u202ec.mp4"
SHOWN = "a\\x1b[2J\\nerror: b\\u202ec.mp4"


def test_no_name_forges_a_line(capsys: Captured, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(screen, "EVERY", 0.0)
    screen.note(f"failed: {HOSTILE}")
    screen.say(screen.columns([(HOSTILE, "1"), ("b", "2")]))
    screen.say(screen.pairs({HOSTILE: HOSTILE}))
    with screen.progress("looking") as report:
        report(1, 2, HOSTILE)
    got = capsys.readouterr()
    assert got.err == f"failed: {SHOWN}\n{SHOWN}: 50%\n"
    assert got.out.splitlines() == [f"{SHOWN}  1", f"{'b':<{len(SHOWN)}}  2", f"  {SHOWN}  {SHOWN}"]


def test_no_name_steers_a_terminal_through_the_bar(monkeypatch: pytest.MonkeyPatch, capsys: Captured) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "200")
    with screen.progress(HOSTILE) as report:
        report(1, 2, HOSTILE)
    got = capsys.readouterr().err
    assert SHOWN in got
    assert "\x1b[2J\nerror" not in got
    assert "\u202e" not in got


def test_a_closed_stream_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", None)
    monkeypatch.setattr(sys, "stderr", None)
    screen.say("a")
    screen.note("b")
