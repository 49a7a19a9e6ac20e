"""How a command ends: errors become one line on stderr and an exit code, never a traceback."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Callable

from earsight.cli.screen import process
from earsight.errors import EarsightError, UsageError
from earsight.escape import visible

LONGEST = 2000
"""Letters of a message that are shown; a value out of a damaged file may have millions."""


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
            _tell(f"error{f' in process {process()}' if process() else ''}: {error}")
        return error.exit_code
    except KeyboardInterrupt:
        _tell("stopped by the user")
        return 130
    except BrokenPipeError:
        # Whoever read our output has gone, as `head` does. Python would complain again when it flushes at the end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except OSError as error:
        _tell(f"error: {error.strerror or error}" + (f": {error.filename}" if error.filename else ""))
        return 1
    except Exception as error:  # whatever is left is our mistake; a user is told so without a page of code
        if os.environ.get("EARSIGHT_DEBUG"):
            traceback.print_exc()
        if _is_memory(error):
            _tell("error: Expected enough memory, but there is too little. Use a smaller --batch-size, limit or size.")
            return 1
        told = " ".join(f"{type(error).__name__}: {error}".split())
        _tell(f"internal error: {told} (set EARSIGHT_DEBUG=1 for the traceback)")
        return 1
    finally:
        _leave_group()


def _leave_group() -> None:
    """Processes that trained together part in order, also after a failure."""
    if "earsight.distributed" in sys.modules:
        sys.modules["earsight.distributed"].stop()


def _is_memory(error: Exception) -> bool:
    """Whether this is want of memory, for which torch has no class of its own on the CPU."""
    words = ("out of memory", "can't allocate memory")
    return isinstance(error, MemoryError) or any(some in str(error) for some in words)


def _tell(text: str) -> None:
    if sys.stderr is not None and (process() == 0 or "error" in text):
        sys.stderr.write(f"earsight: {_shortened(visible(text))}\n")
        sys.stderr.flush()


def _shortened(text: str) -> str:
    """The beginning of a message that is too long for a screen, and its end, which says what to do."""
    return text if len(text) <= LONGEST else f"{text[: LONGEST // 2]} ... {text[-LONGEST // 4 :]}"
