"""`earsight localize`: where the sound comes from, in videos, in folders, or in a picture with a sound."""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from earsight.commands.screen import columns, note, progress, say, say_json
from earsight.config import need
from earsight.errors import UsageError
from earsight.localize import Drawing, Localizer, Summary, Timeline, localize_pair, localize_paths, patient
from earsight.localize.files import check_formats
from earsight.localize.pair import refuse_span
from earsight.localize.settings import Settings
from earsight.localize.timeline import VISIBLE
from earsight.media.accept import kind_of

if TYPE_CHECKING:
    from earsight.object_prior import ObjectPrior


def run(
    weights: Path,
    inputs: Sequence[Path] = (),
    *,
    image: Path | None = None,
    audio: Path | None = None,
    out: Path,
    every: float = 0.2,
    window: float | None = None,
    smooth: float = 0.5,
    start: float | None = None,
    end: float | None = None,
    format: str = "mp4,png,json",
    overlay: float = 0.65,
    boxes: int = 5,
    object_prior: float | None = None,
    object_fusion: str = "slavc",
    object_weights: str = "imagenet",
    batch_size: int = 8,
    device: str = "auto",
    force: bool = False,
    json: bool = False,
) -> int:
    """Localize every input; exit code 1 when one of them could not be, each of which is named on stderr.

    Ctrl-C ends in order: what was finished by then is kept, marked as partial, and the exit code is 130.
    """
    need_weights_first(weights, inputs, image, audio)
    alone = (image is None) != (audio is None) and not (image is None and inputs)  # a video may be heard with --audio
    need(not alone, "--image and --audio together", "one of them", "Give both.")
    need(
        (image is None) != (len(inputs) == 0),
        "videos or folders, or --image and --audio",
        "both" if inputs else "none",
        "For example: earsight localize WEIGHTS clip.mp4",
    )
    prior = asked_prior(object_prior, object_fusion, object_weights)
    drawing = Drawing(overlay, boxes)  # what is wrong with any setting is said before a model is loaded
    Settings(every, window, smooth, start or 0.0, end, check_formats(format), drawing, batch_size)
    localizer = Localizer.load(weights, device, prior)
    if localizer.threshold is None and prior is not None and prior.alpha < 1:
        note("no threshold was calibrated with the object prior, so there is a confidence but no verdict")
    elif localizer.threshold is None:
        why = localizer.meta.get("uncalibrated")
        note(
            "these weights carry no calibrated threshold, so there is a confidence but no verdict"
            + (f" ({why})" if why else "")
        )
    for known in localizer.notes:
        note(known)
    if image is not None and audio is not None:
        refuse_span(end, window)
        single = localize_pair(localizer, image, audio, out, time=start, formats=format, drawing=drawing, force=force)
        summary = Summary((single,))
    else:
        pace = Pace()
        with progress("localizing") as report, patient() as asked:
            summary = localize_paths(
                localizer,
                inputs,
                out,
                sound=audio,
                every=every,
                window=window,
                smooth=smooth,
                start=start,
                end=end,
                formats=format,
                overlay=overlay,
                boxes=boxes,
                batch_size=batch_size,
                progress=lambda name, done, total: report(done, total, pace(Path(name).name, done, total)),
                stop=asked,
                force=force,
            )
    if json:
        say_json(plain(summary))
    elif summary.done:
        say(columns([(one.source, found(one), ", ".join(map(str, one.files))) for one in summary.done]))
    for one in summary.done:
        for told in one.notes:
            if told not in localizer.notes:
                note(f"note: {one.source}: {told}")
    for left in summary.skipped:
        note(f"skipped: {left.path}: {left.reason}")
    for failed in summary.failures:
        note(f"failed: {failed.path}: {failed.reason}")
    if summary.failures:
        note(f"{len(summary.failures)} of {len(summary.failures) + len(summary.done)} inputs failed")
    if summary.stopped:
        note("stopped by the user: what was finished is kept and marked as partial")
        for path in summary.left:
            note(f"not begun: {path}")
        return 130
    return int(bool(summary.failures))


def need_weights_first(weights: Path, inputs: Sequence[Path], image: Path | None, audio: Path | None) -> None:
    """Refuse a command without its weights, which begins with a media file or a folder of them."""
    if kind := kind_of(weights):
        pair = [word for flag, path in (("--image", image), ("--audio", audio)) if path for word in (flag, str(path))]
        rest = shlex.join([str(weights), *map(str, inputs), *pair])
        raise UsageError(
            f"Expected weights first, but {weights} is a {kind}: earsight localize WEIGHTS {rest}. "
            "Weights are a file, the folder of a run, or an exported .onnx file."
        )
    if weights.is_dir():
        from earsight.checkpoint import find_weights  # which imports torch, and exported models do without it

        find_weights(weights)  # what is wrong with it is said before what else is missing


def asked_prior(alpha: float | None, fusion: str, weights: str) -> ObjectPrior | None:
    """The object prior that flags ask for; where they ask for none, torch is not imported for it."""
    if (alpha, fusion, weights) == (None, "slavc", "imagenet"):
        return None
    from earsight.object_prior import ObjectPrior

    return ObjectPrior.asked(alpha, fusion, weights)


class Pace:
    """Words for how fast an input goes and how long it will still take.

    >>> clock = iter([0.0, 10.0])
    >>> pace = Pace(lambda: next(clock))
    >>> pace("a.mp4", 0.0, 60.0), pace("a.mp4", 20.0, 60.0)
    ('a.mp4', 'a.mp4, 2.0 times as fast as it plays, 0:20 left')
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock, self._name, self._began = clock, "", 0.0

    def __call__(self, name: str, done: float, total: float) -> str:
        now = self._clock()
        if name != self._name:
            self._name, self._began = name, now
        spent = now - self._began
        if spent < 2 or done <= 0:  # too early to tell
            return name
        minutes, seconds = divmod(round(max(0.0, total - done) * spent / done), 60)
        return f"{name}, {done / spent:.1f} times as fast as it plays, {minutes}:{seconds:02d} left"


def found(timeline: Timeline) -> str:
    """What was found, in words."""
    visible, silent, count = counts(timeline).values()
    if timeline.partial:
        return f"partial, {count} times answered"
    if count == 1:
        return f"{timeline.items[0].verdict}, confidence {timeline.items[0].confidence:.3f}"
    words = "not calibrated" if timeline.threshold is None else f"visible source at {visible} of {count} times"
    return words + (f", silent at {silent}" if silent else "")


def counts(timeline: Timeline) -> dict[str, int]:
    """Moments with a visible source, silent ones, and all."""
    visible = sum(item.verdict == VISIBLE for item in timeline.items)
    return {"visible": visible, "silent": sum(item.silent for item in timeline.items), "moments": len(timeline.items)}


def plain(summary: Summary) -> dict[str, Any]:
    """The summary as plain values, each input with its counts."""
    values = summary.to_json()
    done = [{**line, **counts(one)} for line, one in zip(values["done"], summary.done, strict=True)]
    return {**values, "done": done}
