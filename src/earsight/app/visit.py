"""What the page does for a visitor: localize a clip, show a moment, forget. Nothing here knows how it is shown."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from earsight.app.answer import Answer
from earsight.app.samples import Sample
from earsight.app.shelf import Shelf
from earsight.app.worker import Worker, WorkError

OWN, OTHER = "its own sound", "the sound of a file of yours"


@dataclass(frozen=True)
class Desk:
    """Where requests are worked on."""

    worker: Worker
    shelf: Shelf
    samples: Sequence[Sample]
    room: int
    """Bytes that all uploads and answers together may take on the disk."""

    @property
    def sounds(self) -> list[str]:
        """What can be heard with a clip."""
        return [OWN, *(f"sample: {sample.title}" for sample in self.samples), OTHER]

    def localize(
        self,
        visitor: str,
        clip: str | None,
        heard: str,
        other: str | None,
        tell: Callable[[float], None],
    ) -> tuple[Answer, ...]:
        """Answers of all models for a clip and the sound chosen; a WorkError says what is wrong with them."""
        if not clip:
            raise WorkError("Expected a clip, but got none. Drop one, record one, or pick a sample.")
        given = [self._held(clip)]
        sound = self._sound(heard, other)
        given += [sound] if sound is not None else []
        if self.shelf.used() > self.room:
            raise WorkError("Expected room for an answer, but the server is full. Try again in some minutes.")
        for one in given:
            self.shelf.belongs(visitor, one)
        out = self.shelf.answer(visitor)
        try:
            found = self.worker.ask(given[0], sound, out, tell)
            return tuple(Answer.of(out, at, values) for at, values in enumerate(found))
        except (WorkError, ValueError, KeyError, TypeError) as error:
            for folder in (out, *(one.parent for one in given)):
                self.shelf.remove(folder)  # nobody will ask for a refused clip again
            if isinstance(error, WorkError):
                raise
            raise WorkError(
                "Expected a clip that can be worked on, but its answer makes no sense. Convert it to mp4 and try again."
            ) from error

    def _sound(self, heard: str, other: str | None) -> Path | None:
        if heard == OTHER:
            if not other:
                raise WorkError("Expected a file to hear, but got none. Drop one under “Swap the sound”.")
            return self._held(other)
        names = self.sounds
        if heard not in names:
            raise WorkError(f"Expected one of the sounds that the page offers, but got {heard!r:.60}. Choose again.")
        return None if heard == OWN else self.samples[names.index(heard) - 1].clip

    def _held(self, path: str) -> Path:
        if not self.shelf.holds(path):
            raise WorkError("Expected a clip that is still here, but it is gone. Upload it again.")
        return Path(path)
