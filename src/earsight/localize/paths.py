"""Many files and folders, localized one after the other; what cannot be used is named, and the rest goes on."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from earsight.config import need
from earsight.errors import EarsightError, MediaError
from earsight.escape import visible
from earsight.files import MARK, is_output, local_path
from earsight.localize.files import USUAL, check_formats, make_way, outputs
from earsight.localize.localizer import Localizer
from earsight.localize.pair import pair_one, refuse_span
from earsight.localize.settings import BOXES, OVERLAY, SMOOTH, Drawing, Settings
from earsight.localize.timeline import Timeline
from earsight.localize.video import Stop, localize_one, never
from earsight.media.accept import CLIPS, PICTURES, SOUNDS, AnyPath
from earsight.media.read import MediaInfo, probe

_LONGEST = 255  # bytes of a name that file systems take
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
                {
                    "source": one.source,
                    "files": [str(file) for file in one.files],
                    "partial": one.partial,
                    "notes": list(one.notes),
                }
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
    inputs: AnyPath | Iterable[AnyPath],
    out: AnyPath,
    *,
    sound: AnyPath | None = None,
    every: float = 0.2,
    window: float | None = None,
    smooth: float = SMOOTH,
    start: float | None = None,
    end: float | None = None,
    formats: str | Sequence[str] = USUAL,
    overlay: float = OVERLAY,
    boxes: int = BOXES,
    batch_size: int = 8,
    progress: Progress | None = None,
    stop: Stop = never,
    force: bool = False,
) -> Summary:
    """Localize videos, and pictures with a sound of the same name beside them, out of files and whole folders.

    Folders are searched with everything below them, hidden files and earlier outputs aside. Settings are those of
    `localize_video`; for a picture `start` is where in its sound it belongs, and it takes no `end` and no `window`.
    With `sound`, the input is one video, and that file is heard with it. Outputs of two inputs of the same name are
    told apart by a number. Once `stop` says True, the input at hand is finished as far as it came, and the rest left.
    """
    given = [local_path(path) for path in ([inputs] if isinstance(inputs, str | os.PathLike) else inputs)]
    need(len(given) > 0, "at least one file or folder", "none")
    alone = sound is None or (len(given) == 1 and not _is_folder(given[0]))
    need(alone, "one video with --audio", f"{len(given)} inputs" if len(given) > 1 else f"the folder {given[0]}",
         "Name one video file.")  # fmt: skip
    other = None if sound is None else local_path(sound)
    out, drawing = Path(out), Drawing(overlay, boxes)
    settings = Settings(every, window, smooth, start or 0.0, end, check_formats(formats), drawing, batch_size)
    settings.heard(localizer.inputs.seconds)
    jobs, failures, skipped = _plan(given, other)
    long = [job for job in jobs if len(os.fsencode(f"{job.name}{MARK}.json")) > _LONGEST]
    failures += [Failed(job.path, "has a name that is too long for its outputs. Rename it.") for job in long]
    jobs = [job for job in jobs if job not in long]
    make_way([file for job in jobs for file in outputs(out, job.name, settings.formats).values()], force)
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
                refuse_span(end, window)
                pair = localizer, job.path, job.sound, out
                done.append(pair_one(*pair, start, settings.formats, drawing, True, job.name))
                tell(1.0, 1.0)
            else:
                one = localizer, job.path, out, settings
                done.append(localize_one(*one, tell, stop, True, job.name, sound=other))
        except EarsightError as error:
            failures.append(Failed(job.path, _reason(error, job.path)))
    return Summary(tuple(done), tuple(failures), tuple(skipped), tuple(left))


def _plan(inputs: Iterable[Path], sound: Path | None) -> tuple[list[_Job], list[Failed], list[Skipped]]:
    """What to do with each file, in order; and those with which nothing can be done. A picture is heard with `sound`,
    or with a sound of its name, which is looked for in its folder."""
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
            continue
        if asked and sound is None and not known[path].has_video:
            known |= _partners(path, known, failures)
    together: dict[Path, list[Path]] = {}
    for path in known:
        together.setdefault(path.with_suffix(""), []).append(path)
    pairs: list[tuple[Path, Path | None]] = []
    for path, info in known.items():
        beside = together[path.with_suffix("")]
        sounds = [p for p in beside if known[p].has_audio and not known[p].has_video]
        if info.has_video:
            pairs.append((path, None))
        elif info.is_image and sound is not None:
            pairs.append((path, sound))
        elif info.is_image and sounds:
            pairs += [(path, sound) for sound in sounds]
        elif info.is_image:
            failures.append(Failed(path, "is a picture without a sound. Put a sound of the same name beside it."))
        elif not any(known[p].is_image for p in beside):
            failures.append(Failed(path, "is a sound without a picture. Put a picture of the same name beside it."))
    return _named(pairs), failures, skipped


def _partners(path: Path, known: Mapping[Path, MediaInfo], failures: list[Failed]) -> dict[Path, MediaInfo]:
    """The sounds of a picture, or the pictures of a sound, of the same name in its folder."""
    wanted = SOUNDS if known[path].is_image else PICTURES
    found: dict[Path, MediaInfo] = {}
    for other in sorted(path.parent.iterdir()):
        if other.stem == path.stem and other.suffix.lower() in wanted and other not in known:
            try:
                found[other] = probe(other)
            except MediaError as error:
                failures.append(Failed(other, _reason(error, other)))
    return found


def _found(inputs: Iterable[Path], failures: list[Failed]) -> Iterable[tuple[Path, bool]]:
    """Every file once, and whether it was asked for by name."""
    seen: set[Path] = set()
    for given in inputs:
        closed: list[Failed] = []
        files = _below(given, closed) if _is_folder(given) else [given]
        failures += closed
        if not files and not closed:
            failures.append(Failed(given, "is a folder without files. Give a video, or a folder that holds some."))
        for file in files:
            try:
                real = file.resolve()
            except (OSError, RuntimeError, ValueError) as error:
                reason = f"cannot be followed ({_why(error)}). Remove it, or name the file itself."
                failures.append(Failed(file, reason))
                continue
            if real not in seen:
                seen.add(real)
                yield file, file is given


def _is_folder(path: Path) -> bool:
    """Whether this is a folder; what cannot even be looked at is told of when it is read."""
    try:
        return path.is_dir()
    except OSError:
        return False


def _below(folder: Path, failures: list[Failed]) -> list[Path]:
    """The files in a folder and in all below it; those folders that cannot be listed become failures."""

    def closed(error: OSError) -> None:
        reason = f"is a folder that cannot be listed ({_why(error)}). Change its permissions."
        failures.append(Failed(Path(error.filename), reason))

    files = []
    for where, folders, names in os.walk(folder, onerror=closed):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        files += [Path(where, n) for n in names if not n.startswith(".") and not is_output(n)]
    return sorted(files)


def _why(error: Exception) -> str:
    """The reason of an error without the name of the file.

    >>> _why(RuntimeError("Symlink loop from '/a/b'"))
    'links that lead in a circle'
    """
    if isinstance(error, RuntimeError):  # as Python 3.11 tells of them; later ones have an OSError
        return "links that lead in a circle"
    return getattr(error, "strerror", None) or str(error)


def _named(pairs: Iterable[tuple[Path, Path | None]]) -> list[_Job]:
    jobs: list[_Job] = []
    taken: set[str] = set()
    numbers: dict[str, int] = {}
    for path, sound in pairs:
        name = stem = path.stem
        number = numbers.get(stem.casefold(), 1)  # all up to this one are taken
        while name.casefold() in taken:  # some file systems do not tell Dog from dog
            number += 1
            name = f"{stem}-{number}"
        numbers[stem.casefold()] = number
        taken.add(name.casefold())
        jobs.append(_Job(path, sound, name))
    return jobs


def _reason(error: EarsightError, path: Path) -> str:
    """The message without the name of the file, which stands beside it."""
    return str(error).removeprefix(f"{visible(str(path))}: ")
