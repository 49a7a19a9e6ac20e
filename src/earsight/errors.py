"""Errors a user can cause. Each message says what was expected, what came, and what to do.

The command line turns them into one line on stderr and an exit code; nothing else is ever shown as a traceback.
"""

from __future__ import annotations

from os import PathLike

from earsight.escape import visible


def how_to_install(extra: str) -> str:
    """What to type for an extra that is missing.

    >>> how_to_install("app")
    "pip install 'earsight[app]'"
    """
    return f"pip install 'earsight[{extra}]'"


class EarsightError(Exception):
    """Something failed for a reason the user can act on (exit code 1)."""

    exit_code = 1


class UsageError(EarsightError):
    """The command or call itself was wrong: an unknown name, a bad setting (exit code 2)."""

    exit_code = 2


class MediaError(EarsightError):
    """A media file that cannot be used; `path` names it, `reason` says why, `advice` what to do."""

    def __init__(self, path: str | PathLike[str], reason: str, advice: str = "") -> None:
        self.path, self.reason, self.advice = str(path), reason, advice
        super().__init__(visible(f"{self.path}: {reason}" + (f" {advice}" if advice else "")))

    def __reduce__(self) -> tuple[type[MediaError], tuple[str, str, str]]:
        # Exceptions cross process borders in data workers; the default would call __init__ with the whole message.
        return MediaError, (self.path, self.reason, self.advice)


class DataError(EarsightError):
    """A data set that is not laid out as expected, or too many of its clips cannot be read."""


class CheckpointError(EarsightError):
    """A weights file or training state that is missing, damaged or of another kind."""


class TrainingError(EarsightError):
    """Training had to stop, for example because the loss is no longer finite."""
