"""Many files and folders, localized one after the other; what cannot be used is named, and the rest goes on."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from earsight.config import need
from earsight.errors import EarsightError, MediaError
from earsight.localize.files import MARK, USUAL, make_way, outputs
from earsight.localize.localizer import Localizer
from earsight.localize.pair import localize_pair
from earsight.localize.settings import BOXES, OVERLAY, SMOOTH, Drawing, Settings
from earsight.localize.timeline import Timeline
from earsight.localize.video import Stop, localize_one, never
from earsight.media.accept import CLIPS, PICTURES
from earsight.media.read import MediaInfo, probe

Progress = Callable[[str, float, float], None]
"""Called with an input's name, the work done on it and the work there is, in seconds of media."""


class Failed(NamedTuple):
    """An input that could not be localized, and why."""

    path: Path
    reason: str


class Skipped(NamedTuple):
    """A file in a folder that does not look like media, and why it was left alone."""

    path: Path
    reason: str


@dataclass(frozen=True)
class Summary:
    """What became of all inputs.

    Args:
        done: the answers, in order; each names its source and the files written.
        failures: inputs that could not be localized.
        skipped: files inside folders that are no media.
        left: inputs that were not begun because the work was stopped.
    """

    done: tuple[Timeline, ...]
    failures: tuple[Failed, ...] = ()
    skipped: tuple[Skipped, ...] = ()
    left: tuple[Path, ...] = ()

    @property
    def stopped(self) -> bool:
        """Whether something is missing because the work was stopped."""
        return bool(self.left) or any(one.partial for one in self.done)

    @property
    def written(self) -> tuple[Path, ...]:
        return tuple(file for timeline in self.done for file in timeline.files)

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return {
            "done": [
                {"source": one.source, "files": [str(file) for file in one.files], "partial": one.partial}
                for one in self.done
            ],
            "failures": [{"path": str(one.path), "reason": one.reason} for one in self.failures],
            "skipped": [{"path": str(one.path), "reason": one.reason} for one in self.skipped],
            "left": [str(path) for path in self.left],
        }


class _Job(NamedTuple):
    """A video (sound None), or a picture with a sound; `name` is what its outputs are called."""

    path: Path
    sound: Path | None
    name: str


def localize_paths(
    localizer: Localizer,
    inputs: Sequence[Path],
    out: Path,
    *,
    every: float = 0.2,
    window: float | None = None,
    smooth: float = SMOOTH,
    start: float = 0.0,
    end: float | None = None,
    formats: tuple[str, ...] = USUAL,
    overlay: float = OVERLAY,
    boxes: int = BOXES,
    batch_size: int = 8,
    progress: Progress | None = None,
    stop: Stop = never,
    force: bool = False,
) -> Summary:
    """Localize videos, and pictures with a sound of the same name beside them, out of files and whole folders.

    Folders are searched with everything below them, hidden files and earlier outputs aside. Settings are those of
    `localize_video`. Outputs of two inputs of the same name are told apart by a number. Once `stop` says True, the
    input at hand is finished as far as it came, and the rest is left.
    """
    need(len(inputs) > 0, "at least one file or folder", "none")
    drawing = Drawing(overlay, boxes)
    settings = Settings(every, window, smooth, start, end, formats, drawing, batch_size)
    settings.heard(localizer.inputs.seconds)
    jobs, failures, skipped = _plan([Path(path) for path in inputs])
    make_way([file for job in jobs for file in outputs(Path(out), job.name, settings.formats).values()], force)
    done: list[Timeline] = []
    left: list[Path] = []
    for job in jobs:
        if stop():
            left.append(job.path)
            continue

        def tell(now: float, whole: float, name: str = str(job.path)) -> None:
            if progress is not None:
                progress(name, now, whole)

        try:
            if job.sound is not None:
                pair = localizer, job.path, job.sound, out
                done.append(localize_pair(*pair, formats=settings.formats, drawing=drawing, force=True, name=job.name))
                tell(1.0, 1.0)
            else:
                done.append(localize_one(localizer, job.path, Path(out), settings, tell, stop, True, job.name))
        except EarsightError as error:
            failures.append(Failed(job.path, _reason(error, job.path)))
    return Summary(tuple(done), tuple(failures), tuple(skipped), tuple(left))


def _plan(inputs: Iterable[Path]) -> tuple[list[_Job], list[Failed], list[Skipped]]:
    """What to do with each file, in order; and those with which nothing can be done."""
    failures: list[Failed] = []
    skipped: list[Skipped] = []
    known: dict[Path, MediaInfo] = {}
    for path, asked in _found(inputs, failures):
        try:
            known[path] = probe(path)
        except MediaError as error:
            if asked or path.suffix.lower() in CLIPS | PICTURES:
                failures.append(Failed(path, _reason(error, path)))
            else:
                skipped.append(Skipped(path, _reason(error, path)))
    together: dict[Path, list[Path]] = {}
    for path in known:
        together.setdefault(path.with_suffix(""), []).append(path)
    pairs: list[tuple[Path, Path | None]] = []
    for path, info in known.items():
        beside = together[path.with_suffix("")]
        sounds = [p for p in beside if known[p].has_audio and not known[p].has_video]
        if info.has_video:
            pairs.append((path, None))
        elif info.is_image and sounds:
            pairs += [(path, sound) for sound in sounds]
        elif info.is_image:
            failures.append(Failed(path, "is a picture without a sound. Put a sound of the same name beside it."))
        elif not any(known[p].is_image for p in beside):
            failures.append(Failed(path, "is a sound without a picture. Put a picture of the same name beside it."))
    return _named(pairs), failures, skipped


def _found(inputs: Iterable[Path], failures: list[Failed]) -> Iterable[tuple[Path, bool]]:
    """Every file once, and whether it was asked for by name."""
    seen: set[Path] = set()
    for given in inputs:
        files = _below(given) if given.is_dir() else [given]
        if not files:
            failures.append(Failed(given, "is a folder without files. Give a video, or a folder that holds some."))
        for file in files:
            real = file.resolve()
            if real not in seen:
                seen.add(real)
                yield file, file is given


def _below(folder: Path) -> list[Path]:
    files = []
    for where, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        files += [Path(where, n) for n in names if not n.startswith(".") and not Path(n).stem.endswith(MARK)]
    return sorted(files)


def _named(pairs: Iterable[tuple[Path, Path | None]]) -> list[_Job]:
    jobs: list[_Job] = []
    taken: set[str] = set()
    for path, sound in pairs:
        name, number = path.stem, 1
        while name.casefold() in taken:  # some file systems do not tell Dog from dog
            number += 1
            name = f"{path.stem}-{number}"
        taken.add(name.casefold())
        jobs.append(_Job(path, sound, name))
    return jobs


def _reason(error: EarsightError, path: Path) -> str:
    """The message without the name of the file, which stands beside it."""
    return str(error).removeprefix(f"{path}: ")
