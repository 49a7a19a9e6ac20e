"""How much of the machine the page may take: for one upload, for one clip, and for all visitors together."""

from __future__ import annotations

from dataclasses import dataclass

from earsight.config import need
from earsight.errors import EarsightError
from earsight.media.accept import Limits

MB = 1_000_000
MOMENTS = 3000
"""Most answers for one clip."""


class RefusedError(EarsightError):
    """A request that is not taken; `status` is the status code of HTTP."""

    def __init__(self, status: int, message: str) -> None:
        self.status = status
        super().__init__(message)


@dataclass(frozen=True)
class PageLimits:
    """Limits of the page; each is a flag of `earsight app`."""

    megabytes: float = 100.0
    """Largest upload, in millions of bytes."""
    seconds: float = 60.0
    """Longest clip, in seconds of playing time."""
    pixels: int = 3840 * 2160
    """Largest frame, width times height."""
    queue: int = 16
    """Most clips that wait; other visitors are asked to come back."""
    run_seconds: float = 300.0
    """Longest time that one clip may be worked on."""
    memory: float = 3.0
    """Gigabytes that the work on one clip may take beside the model."""
    keep: float = 3600.0
    """Seconds after which files of visitors are removed; when a page is closed, its files go at once."""
    every: float = 0.2
    """Seconds between two answers."""

    def __post_init__(self) -> None:
        need(0.001 <= self.megabytes <= 10_000, "an upload limit from 0.001 to 10000 MB", self.megabytes)
        need(0.1 <= self.seconds <= 3600, "a longest clip from 0.1 to 3600 seconds", self.seconds)
        need(256 <= self.pixels <= Limits().max_pixels, f"pixels from 256 to {Limits().max_pixels}", self.pixels)
        need(1 <= self.queue <= 10_000, "a queue from 1 to 10000", self.queue)
        need(0.1 <= self.run_seconds <= 86_400, "a run time from 0.1 to 86400 seconds", self.run_seconds)
        need(0.1 <= self.memory <= 1000, "memory from 0.1 to 1000 GB", self.memory)
        need(1 <= self.keep <= 7 * 86_400, "a keep time from 1 second to a week", self.keep)
        need(0.05 <= self.every <= 60, "every from 0.05 to 60 seconds", self.every)
        need(
            self.seconds / self.every <= MOMENTS,
            f"at most {MOMENTS} answers for the longest clip",
            f"{self.seconds / self.every:.0f}",
            "Use a larger --every or a smaller --max-seconds.",
        )

    @property
    def bytes(self) -> int:
        """Largest upload."""
        return round(self.megabytes * MB)

    @property
    def room(self) -> int:
        """Bytes that all uploads and results together may take on the disk."""
        return 20 * self.bytes + 1000 * MB

    @property
    def media(self) -> Limits:
        """The same for whoever decodes."""
        return Limits(
            max_seconds=self.seconds,
            max_pixels=self.pixels,
            max_bytes=self.bytes,
            max_decode_seconds=min(60.0, self.run_seconds),
        )

    @property
    def too_large(self) -> str:
        """What the server and the page's script say of a file over the limit."""
        return (
            f"Expected a file of at most {self.megabytes:g} MB, but this one is larger. "
            "Cut it or scale it down, and try again."
        )
