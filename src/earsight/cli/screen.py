"""What commands print: results on stdout, progress and notes on stderr, and only from the first process.

Errors become one line on stderr and an exit code, never a traceback.
"""

from __future__ import annotations

import json
import os
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Protocol, TextIO

from earsight.errors import EarsightError, UsageError
from earsight.escape import visible

EVERY = 10.0
"""Seconds between two lines of progress where there is no terminal to draw a bar on."""
LONGEST = 2000
"""Letters of a message that are shown; a value out of a damaged file may have millions."""


class Report(Protocol):
    """Called with how much is done, how much there is, and what is being worked on when that changes."""

    def __call__(self, done: float, total: float, label: str = "") -> None: ...


def process() -> int:
    """Which of the processes that torchrun started this is; 0 without torchrun."""
    return int(os.environ.get("RANK", "0"))


def say(text: str) -> None:
    """A result, on stdout, of any number of lines: names inside it were made visible by whoever put them there."""
    _write(sys.stdout, text)


def note(text: str) -> None:
    """Something about the work, in one line on stderr."""
    _write(sys.stderr, visible(text))


def say_json(value: object) -> None:
    say(json.dumps(value, indent=2, allow_nan=False))


def pairs(values: Mapping[str, object], indent: int = 2) -> str:
    """Names and values in two columns.

    >>> print(pairs({"method": "slavc", "dim": 128}))
      method  slavc
      dim     128
    """
    return columns([(" " * indent + name, str(value)) for name, value in values.items()])


def flat(values: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested settings under dotted names.

    >>> flat({"optim": {"lr": 0.1}, "on": "toybox"})
    {'optim.lr': 0.1, 'on': 'toybox'}
    """
    out: dict[str, Any] = {}
    for name, value in values.items():
        out |= flat(value, f"{prefix}{name}.") if isinstance(value, Mapping) else {prefix + name: value}
    return out


def columns(rows: Sequence[Sequence[str]]) -> str:
    """Rows of words, each column as wide as its longest word.

    >>> print(columns([("toybox", "drawn toys"), ("pairs", "a folder")]))
    toybox  drawn toys
    pairs   a folder
    """
    shown = [list(map(visible, row)) for row in rows]
    widths = [max(map(len, column)) for column in zip(*shown, strict=True)]
    return "\n".join("  ".join(f"{w:<{n}}" for w, n in zip(row, widths, strict=True)).rstrip() for row in shown)


def first(lines: Sequence[str], most: int, indent: int = 2) -> list[str]:
    """The first of many lines, and how many more there are.

    >>> first(["a", "b", "c"], 2)
    ['  a', '  b', '  and 1 more']
    """
    more = [f"and {len(lines) - most} more"] if len(lines) > most else []
    return [" " * indent + line for line in (*lines[:most], *more)]


def clock(seconds: float) -> str:
    """Time in words.

    >>> clock(75), clock(7322)
    ('1:15', '2:02:02')
    """
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"


@contextmanager
def progress(title: str) -> Iterator[Report]:
    """A bar while there is a terminal; elsewhere a line now and then, and nothing for work that is soon done."""
    last = time.monotonic()

    def line(done: float, total: float, label: str = "") -> None:
        nonlocal last
        if time.monotonic() - last >= EVERY:
            last = time.monotonic()
            note(f"{label or title}: {done / max(total, 1e-9):.0%}")

    if process() > 0 or sys.stderr is None or not sys.stderr.isatty():
        yield line
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

    shown = (TextColumn("{task.description}", markup=False), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
    with Progress(*shown, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(visible(title), total=None)
        yield lambda done, total, label="": bar.update(
            task, completed=done, total=total, description=visible(label or title)
        )


def _write(stream: TextIO | None, text: str) -> None:
    if process() == 0 and stream is not None:  # None where it was closed before the start, with >&-
        # A name with characters that the terminal lacks must not end the command.
        encoding = getattr(stream, "encoding", None) or "utf-8"
        shown = "\n".join(map(visible, text.split("\n")))
        stream.write(shown.encode(encoding, "replace").decode(encoding, "replace") + "\n")
        stream.flush()


def exit_code(run: Callable[[], int]) -> int:
    """Run a command: its own code, 1 when something failed, 2 when the command is wrong, 130 when interrupted."""
    try:
        code = run()
        if sys.stdout is not None:
            sys.stdout.flush()
        return code
    except SystemExit as end:  # the parser has said what it has to say
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    except EarsightError as error:
        # All processes see the same command, so the first one speaks; what fails in one alone is told by it.
        if process() == 0 or not isinstance(error, UsageError):
            _say_error(f"error{f' in process {process()}' if process() else ''}: {error}")
        return error.exit_code
    except KeyboardInterrupt:
        _say_error("stopped by the user")
        return 130
    except BrokenPipeError:
        # Whoever read our output has gone, as `head` does. Python would complain again when it flushes at the end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except OSError as error:
        _say_error(f"error: {error.strerror or error}" + (f": {error.filename}" if error.filename else ""))
        return 1
    except Exception as error:  # whatever is left is our mistake; a user is told so without a page of code
        if os.environ.get("EARSIGHT_DEBUG"):
            traceback.print_exc()
        # Torch has no class of its own for want of memory on the CPU.
        if isinstance(error, MemoryError) or any(w in str(error) for w in ("out of memory", "can't allocate memory")):
            what = "Expected enough memory, but there is too little. Use a smaller --batch-size, limit or size."
            _say_error(f"error: {what}")
            return 1
        told = " ".join(f"{type(error).__name__}: {error}".split())
        _say_error(f"internal error: {told} (set EARSIGHT_DEBUG=1 for the traceback)")
        return 1
    finally:
        # Processes that trained together part in order, also after a failure.
        if "earsight.distributed" in sys.modules:
            sys.modules["earsight.distributed"].stop()


def _say_error(text: str) -> None:
    if sys.stderr is not None and (process() == 0 or "error" in text):
        text = visible(text)
        if len(text) > LONGEST:  # its end says what to do
            text = f"{text[: LONGEST // 2]} ... {text[-LONGEST // 4 :]}"
        sys.stderr.write(f"earsight: {text}\n")
        sys.stderr.flush()
