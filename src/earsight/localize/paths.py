"""Files and folders, localized one after the other: videos, and pictures with a sound.

What cannot be used is named, and the rest goes on.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

from earsight.config import need
from earsight.errors import EarsightError, MediaError
from earsight.escape import visible
from earsight.files import MARK, is_output, local_path
from earsight.localize.files import MapsFile, make_way, outputs, write_json
from earsight.localize.inputs import loud_time_of, picture_of, sound_of, track_notes
from earsight.localize.localizer import Localizer
from earsight.localize.settings import DEFAULT, Settings
from earsight.localize.sheet import stills
from earsight.localize.smoothing import smoothed
from earsight.localize.timeline import Timeline
from earsight.localize.video import Stop, Waiting, answer_batch, never, write_video
from earsight.localize.view import View, drawn
from earsight.media.accept import CLIPS, PICTURES, SOUNDS, AnyPath
from earsight.media.read import MediaInfo, probe
from earsight.media.write import write_png

_LONGEST = 255  # bytes of a name that file systems take
Progress = Callable[[str, float, float], None]
"""Called with an input's name, the work done on it and the work there is, in seconds of media."""


class Failed(NamedTuple):
    """An input that could not be localized, and why."""

    path: Path
    reason: str


@dataclass(frozen=True)
class Summary:
    """What became of all inputs.

    Args:
        done: the answers, in order; each names its source and the files written.
        failures: inputs that could not be localized.
        skipped: files inside folders that do not look like media.
        left: inputs that were not begun because the work was stopped.
    """

    done: tuple[Timeline, ...]
    failures: tuple[Failed, ...] = ()
    skipped: tuple[Path, ...] = ()
    left: tuple[Path, ...] = ()

    @property
    def stopped(self) -> bool:
        """Whether something is missing because the work was stopped."""
        return bool(self.left) or any(one.partial for one in self.done)

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
            "skipped": [str(path) for path in self.skipped],
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
    settings: Settings = DEFAULT,
    *,
    sound: AnyPath | None = None,
    progress: Progress | None = None,
    stop: Stop = never,
) -> Summary:
    """Localize videos, and pictures with a sound of the same name beside them, out of files and whole folders.

    Folders are searched with everything below them, hidden files and earlier outputs aside. With `sound`, the input is
    one video, and that file is heard with it. Outputs of two inputs of the same name are told apart by a number. Once
    `stop` says True, the input at hand is finished as far as it came, and the rest left.
    """
    paths = [local_path(path) for path in ([inputs] if isinstance(inputs, str | os.PathLike) else inputs)]
    need(len(paths) > 0, "at least one file or folder", "none")
    alone = sound is None or (len(paths) == 1 and not _is_folder(paths[0]))
    got = f"{len(paths)} inputs" if len(paths) > 1 else f"the folder {paths[0]}"
    need(alone, "one video with --audio", got, "Name one video file.")
    other = None if sound is None else local_path(sound)
    settings.heard(localizer.inputs.seconds)
    jobs, failures, skipped = _plan(paths, other)
    long = [job for job in jobs if len(os.fsencode(f"{job.name}{MARK}.json")) > _LONGEST]
    failures += [Failed(job.path, "has a name that is too long for its outputs. Rename it.") for job in long]
    jobs = [job for job in jobs if job not in long]
    files = {job: outputs(Path(out), job.name, settings.formats) for job in jobs}
    make_way([file for some in files.values() for file in some.values()], settings.force)
    settings = replace(settings, force=True)
    done: list[Timeline] = []
    left: list[Path] = []
    for job in jobs:
        if stop():
            left.append(job.path)
            continue

        def report(now: float, whole: float, name: str = str(job.path)) -> None:
            if progress is not None:
                progress(name, now, whole)

        try:
            if job.sound is not None:
                found = write_pair(localizer, (job.path, job.sound), files[job], settings)
                report(1.0, 1.0)
            else:
                found = write_video(localizer, (job.path, other), files[job], settings, report, stop)
            done.append(replace(found, stills=()))  # of a whole folder they would be too many to hold
        except EarsightError as error:
            failures.append(Failed(job.path, _reason(error, job.path)))
    return Summary(tuple(done), tuple(failures), tuple(skipped), tuple(left))


def localize_pair(
    localizer: Localizer, image: AnyPath, audio: AnyPath, out: AnyPath, settings: Settings = DEFAULT
) -> Timeline:
    """Localize a sound file in a picture file and write the answer into the folder `out`.

    "png" is the picture with its answer drawn in; "mp4" is for videos, and beside others it makes nothing here. `start`
    is where in the sound the picture belongs, in seconds; by default in a loud stretch near the middle. There is no
    `end` and no `window`.
    """
    picture, sound = local_path(image), local_path(audio)
    return write_pair(localizer, (picture, sound), outputs(Path(out), picture.stem, settings.formats), settings)


def write_pair(localizer: Localizer, inputs: tuple[Path, Path], files: dict[str, Path], settings: Settings) -> Timeline:
    """`localize_pair` into files that are named already."""
    image, audio = inputs
    settings.refuse_span()
    files = {kind: file for kind, file in files.items() if kind != "mp4"}
    do = "Add one of them, for example png,json; a film needs a video."
    need(bool(files), "png, json or npz for a picture with a sound", "mp4 alone", do)
    picture = picture_of(image)
    time = loud_time_of(audio, localizer.inputs) if settings.start is None else settings.start
    sound = sound_of(audio, None, localizer.inputs, time)
    make_way(files.values(), settings.force)
    found = answer_batch(localizer, [Waiting(time, localizer.model.see(picture), sound)])
    (answer,) = smoothed(found, 0.0, localizer.threshold)
    view = View.of_answer(answer, localizer.protocol, picture.shape[1], picture.shape[2])
    timeline = Timeline(
        source=str(image),
        sound=str(audio),
        weights=localizer.name,
        protocol=localizer.protocol.name,
        threshold=localizer.threshold,
        every=None,
        window=localizer.inputs.seconds,
        smooth=0.0,
        width=picture.shape[2],
        height=picture.shape[1],
        items=(view.moment,),
        files=tuple(files.values()),
        notes=(*localizer.notes, *track_notes(probe(audio))),
        stills=stills([(view.moment, drawn(picture, view, settings))]),
    )
    if "json" in files:
        write_json(files["json"], timeline)
    if "npz" in files:
        with MapsFile(files["npz"]) as maps:
            maps.add(view.score)
            maps.write(timeline)
    if "png" in files:
        write_png(files["png"], drawn(picture, view, settings, localizer.notes))
    return timeline


@contextmanager
def graceful_interrupt() -> Iterator[Stop]:
    """Inside the block Ctrl-C makes the function that it gives say True; the second one interrupts as ever.

    Outside the main thread, where Python takes no signals, nothing changes.
    """
    asked = False

    def note(number: int, frame: FrameType | None) -> None:
        nonlocal asked
        asked = True
        signal.signal(signal.SIGINT, signal.default_int_handler)

    if threading.current_thread() is not threading.main_thread():
        yield never
        return
    before = signal.signal(signal.SIGINT, note)
    try:
        yield lambda: asked
    finally:
        signal.signal(signal.SIGINT, before)


def _plan(inputs: Iterable[Path], sound: Path | None) -> tuple[list[_Job], list[Failed], list[Path]]:
    """What to do with each file, in order; and those with which nothing can be done. A picture is heard with `sound`,
    or with a sound of its name, which is looked for in its folder."""
    failures: list[Failed] = []
    skipped: list[Path] = []
    known: dict[Path, MediaInfo] = {}
    for path, asked in _found(inputs, failures):
        try:
            known[path] = probe(path)
        except MediaError as error:
            if asked or path.suffix.lower() in CLIPS | PICTURES:
                failures.append(Failed(path, _reason(error, path)))
            else:
                skipped.append(path)
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
